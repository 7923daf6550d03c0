#pragma once
// How ranks exchange what is not measured: options, samples, when to stop.

#include <string>
#include <vector>

namespace zplan::bench {

/// Every call is made by all ranks, in the same order. Throws BenchError, naming the rank, where one is gone
/// or does not answer in time.
class Control {
 public:
  Control() = default;
  Control(const Control&) = delete;
  Control& operator=(const Control&) = delete;
  virtual ~Control() = default;

  [[nodiscard]] virtual int rank() const = 0;
  [[nodiscard]] virtual int size() const = 0;
  /// The texts of all ranks, by rank.
  [[nodiscard]] virtual std::vector<std::string> all_gather(const std::string& mine) = 0;
  /// Rank 0's text.
  [[nodiscard]] virtual std::string broadcast(const std::string& of_rank_0) = 0;
  virtual void barrier() = 0;
};

}  // namespace zplan::bench
