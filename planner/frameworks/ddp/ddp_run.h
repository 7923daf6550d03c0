#pragma once
// DdpRun is a run of plain PyTorch, alone or under DDP: every rank holds everything. Source: torch 2.11
// nn/parallel/distributed.py, torch/csrc/distributed/c10d/{reducer,comm}.cpp; compared with allocator traces
// of whole steps (docs/accuracy.md).

#include "planner/simulation/rank_state.h"

namespace zplan {

class DdpRun {
 public:
  explicit DdpRun(RankState& state);

  void initialise();
  void begin_forward(const Slot& slot);
  void begin_backward(const Slot& slot);
  void gradient(std::size_t tensor, Device::Block block);
  void module(const Event& /*unused*/, int /*unused*/) {}
  void end_backward(const Slot& /*unused*/) { end_backward(); }
  void step(bool first);

 private:
  [[nodiscard]] const StepInputs& in() const { return state_.in(); }
  [[nodiscard]] bool is_distributed() const { return in().strategy.layout.gradient_ranks() > 1; }
  /// True if gradients are reduced in this backward.
  [[nodiscard]] bool reduces(const Slot& slot) const;

  void broadcast_parameters();
  void rebuild_buckets();
  /// All-reduces the open bucket.
  void send();
  void end_backward();
  void step_one(std::size_t tensor);
  [[nodiscard]] static Bytes bucket_limit(bool first);
  /// Returns the sizes of buckets once the order of gradients is known.
  [[nodiscard]] std::vector<Bytes> bucket_sizes() const;
  [[nodiscard]] Bytes gradient_element() const;

  RankState& state_;
  Device& device_;
  std::vector<OptimizerTensor> optimized_;
  std::vector<Device::Block> buckets_;
  std::vector<std::size_t> ready_order_;  ///< in which gradients came first
  std::vector<bool> stepped_;             ///< in the backward, whose states are there
  bool rebuilt_{}, reduces_{};
  Bytes open_;  ///< in the bucket that fills
  bool first_bucket_{};
  Instant reduced_;  ///< when the last all-reduce is through
};

}  // namespace zplan
