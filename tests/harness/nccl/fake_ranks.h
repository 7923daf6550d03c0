#pragma once
// Ranks as threads of the test, each with a backend that has loaded the stand-ins for NVIDIA's libraries.

#include <functional>
#include <string>
#include <vector>

#include "harness/nccl/nccl_backend.h"

namespace zplan::bench {

/// Returns the folders of the stand-ins; `nccl` names the variant.
[[nodiscard]] LibraryPlaces fake_places(const std::string& nccl = "nccl");

/// An environment variable for as long as this lives.
class Environment {
 public:
  Environment(const std::string& name, const std::string& value);
  Environment(const Environment&) = delete;
  Environment& operator=(const Environment&) = delete;
  ~Environment();

 private:
  std::string name_;
};

/// Return what the stand-ins recorded since forget_fake_calls(): calls in the order of arrival, violations of
/// the libraries' rules, and the number of buffers, streams and events that were not freed.
[[nodiscard]] std::vector<std::string> fake_calls();
[[nodiscard]] std::string fake_complaints();
[[nodiscard]] int fake_left_behind();
void forget_fake_calls();
/// Calls that begin with `text`.
[[nodiscard]] std::vector<std::string> fake_calls_of(const std::string& text);

struct RankOptions {
  Seconds timeout{20};
  bool share_gpu{};
};
using RankMain = std::function<void(Backend&, int rank)>;
/// Runs ranks as threads. Returns for each rank "" or what() of the exception that ended it.
[[nodiscard]] std::vector<std::string> run_ranks(int ranks, const RankMain& rank_main,
                                                 const RankOptions& options = {});
/// Runs ranks and expects that none fails, violates a rule or leaves something behind.
void run_good_ranks(int ranks, const RankMain& rank_main, const RankOptions& options = {});

/// One rank's Control among threads.
[[nodiscard]] std::vector<std::unique_ptr<Control>> thread_controls(int ranks);

}  // namespace zplan::bench
