#pragma once
// Exchange between ranks of what is not measured (options, samples, when to stop), and the errors of a run.
// Bad input is an InputError (models/base/error.h), as everywhere.

#include <stdexcept>
#include <string>
#include <vector>

namespace zplan::bench {

/// Ends a run: one line that names the rank, what it did, what happened and what to do.
class BenchError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// Reports that a buffer does not fit in memory. A smaller one may fit.
class OutOfMemory : public BenchError {
 public:
  using BenchError::BenchError;
};

/// Ends this rank because another one failed and prints why. This rank prints nothing.
class ReportedByAnother : public BenchError {
 public:
  using BenchError::BenchError;
};

/// Connects the ranks of a run. All ranks make every call, in the same order. Calls throw BenchError, which
/// names the rank, if one is gone or does not answer in time.
class Control {
 public:
  Control() = default;
  Control(const Control&) = delete;
  Control& operator=(const Control&) = delete;
  virtual ~Control() = default;

  [[nodiscard]] virtual int rank() const = 0;
  [[nodiscard]] virtual int size() const = 0;
  /// Returns the texts of all ranks, by rank.
  [[nodiscard]] virtual std::vector<std::string> all_gather(const std::string& mine) = 0;
  /// Returns rank 0's text.
  [[nodiscard]] virtual std::string broadcast(const std::string& of_rank_0) {
    return all_gather(rank() == 0 ? of_rank_0 : "").front();
  }
  virtual void barrier() { (void)all_gather({}); }
};

/// Returns the name of this host, "unknown" if it has none.
[[nodiscard]] std::string host_name();

}  // namespace zplan::bench
