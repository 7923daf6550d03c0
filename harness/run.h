#pragma once
// Runs the measurements of one rank. Rank 0 prints them.

#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "harness/backend.h"
#include "harness/options.h"
#include "harness/recorder.h"
#include "harness/sent.h"

namespace zplan::bench {

inline constexpr int kDone = 0, kFailed = 1, kBadInput = 2;

/// Functions that describe and measure the machine besides its collectives. Those that this build lacks are
/// empty.
struct Machine {
  std::function<Json()> host;              ///< of this rank: an entry of "hosts", without its name and ranks
  std::function<void(Recorder&)> device;   ///< this rank's GPU
  std::function<void(Recorder&)> storage;  ///< of this host
  SentCounter sent;                        ///< of this host
};

/// Measures what the options request. Rank 0 alone prints to stdout. Returns the exit status: kFailed if a
/// result was wrong or the plan's memory could not be allocated, kBadInput after one line on stderr. Throws
/// BenchError.
[[nodiscard]] int run(const Options& options, const std::vector<std::string>& arguments, Backend& backend,
                      const Machine& machine);

}  // namespace zplan::bench
