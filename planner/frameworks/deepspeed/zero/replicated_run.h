#pragma once
// ReplicatedRun is a run of DeepSpeed at stage 0: every rank holds everything. Source: DeepSpeed 0.19.8
// runtime/fp16/{fused,unfused}_optimizer.py; compared with allocator traces of whole steps
// (docs/accuracy.md).

#include "planner/simulation/rank_state.h"

namespace zplan {

class ReplicatedRun {
 public:
  explicit ReplicatedRun(RankState& state);

  void initialise();
  void begin_forward(const Slot& /*unused*/) {}
  void begin_backward(const Slot& /*unused*/) {}
  void gradient(std::size_t tensor, Device::Block block) { state_.take_gradient(tensor, block); }
  void module(const Event& /*unused*/, int /*unused*/) {}
  void end_backward(const Slot& slot);
  void step(bool first);

 private:
  [[nodiscard]] const StepInputs& in() const { return state_.in(); }
  [[nodiscard]] Bytes weight() const { return state_.weight(); }
  [[nodiscard]] bool has_master() const;
  [[nodiscard]] bool clips() const { return in().strategy.zero.gradient_clipping > 0; }
  /// True if FP16_Optimizer runs: DeepSpeed's FusedAdam wants one flat parameter.
  [[nodiscard]] bool flattens() const;

  void make_masters();
  void flatten_parameters();
  void make_states();
  void agree();
  void step_flat();
  void step_each(bool first);

  RankState& state_;
  Device& device_;
  std::vector<OptimizerTensor> optimized_;
};

}  // namespace zplan
