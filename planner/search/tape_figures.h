#pragma once
// Figures of a run that depend on the micro-batch size: sizes of the tape's memory deltas, the work of its
// loads, bytes that a tensor-parallel group exchanges. They are recorded at powers of two and interpolated
// between them.

#include <array>
#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <vector>

#include "hardware_profiles/cluster.h"
#include "planner/cost/queues.h"
#include "planner/simulation/live_program.h"
#include "planner/simulation/run.h"

namespace zplan {

/// T: double, or Lanes for eight micro-batch sizes at once.
template <class T>
struct MicroStepFigures {
  LiveSizes<T> live;                  ///< bytes
  std::vector<LoadSeconds<T>> loads;  ///< by number in the tape
  std::vector<T> exchanges;           ///< bytes, by number in the tape
};

/// Figures of one micro-batch size. Sizes with the same `order` differ in figures alone: the order of events
/// and the sizes of gradients are the same.
struct SizedFigures {
  std::uint64_t order{};
  MicroStepFigures<double> figures;
};

/// Figures of every micro-batch size of one tape. Its functions may be called from several threads at once.
class TapeFigures {
 public:
  /// `recording(b)` gives the tape of micro-batch b, whose samples have `tokens` tokens on a rank; what it
  /// returns and `training` outlive this.
  using Recorder = std::function<const Recording&(std::int64_t micro_batch_size)>;
  TapeFigures(const Cluster& cluster, const Training& training, std::int64_t tokens, Recorder recorder)
      : cluster_(cluster), training_(training), tokens_(tokens), recorder_(std::move(recorder)) {}

  /// Exact at powers of two, and where the powers around a size differ in order; else between those.
  [[nodiscard]] const SizedFigures& at(std::int64_t micro_batch_size);

  using Sizes = std::array<std::int64_t, Lanes::kCount>;
  /// Eight sizes of one order.
  [[nodiscard]] const MicroStepFigures<Lanes>& at(const Sizes& micro_batch_sizes);

 private:
  [[nodiscard]] const SizedFigures& recorded(std::int64_t micro_batch_size);
  [[nodiscard]] const SizedFigures& sized(std::int64_t micro_batch_size);

  const Cluster& cluster_;
  const Training& training_;
  std::int64_t tokens_;
  Recorder recorder_;
  std::mutex mutex_;
  std::map<std::int64_t, SizedFigures> sized_;
  std::map<Sizes, MicroStepFigures<Lanes>> packed_;
};

}  // namespace zplan
