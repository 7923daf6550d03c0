#pragma once
// Nothing is sharded: DeepSpeed's stage 0 and plain PyTorch, alone or under DDP.
// Source: DeepSpeed 0.19.8 runtime/fp16/{fused,unfused}_optimizer.py; torch 2.11 nn/parallel/distributed.py,
// torch/csrc/distributed/c10d/{reducer,comm}.cpp; compared with allocator traces of whole steps
// (docs/accuracy.md).

#include "planner/question/framework.h"
#include "planner/simulation/rank_state.h"

namespace zplan {

class ReplicatedRun {
 public:
  explicit ReplicatedRun(RankState& state);

  void initialise();
  void begin_forward(const Slot& slot);
  void begin_backward(const Slot& slot);
  void gradient(std::size_t tensor, Device::Block block);
  void module(const Event& event, int layer) { (void)event, (void)layer; }
  void end_backward(const Slot& slot);
  void step(bool first);

 private:
  [[nodiscard]] const StepInputs& in() const { return state_.in(); }
  [[nodiscard]] Bytes weight() const { return state_.weight(); }
  [[nodiscard]] bool is_deepspeed() const { return spec(in().training.framework).casts_model; }
  [[nodiscard]] bool is_distributed() const {
    return !is_deepspeed() && in().strategy.layout.gradient_ranks() > 1;
  }
  /// Whether DDP reduces gradients in this backward.
  [[nodiscard]] bool reduces(const Slot& slot) const;
  [[nodiscard]] bool has_master() const;
  [[nodiscard]] bool clips() const { return in().strategy.zero.gradient_clipping > 0; }
  [[nodiscard]] bool flattens() const;  ///< FP16_Optimizer: DeepSpeed's FusedAdam wants one flat parameter

  void make_masters();
  void flatten_parameters();
  void make_states();
  void step_flat();
  void step_each(bool first);
  void step_one(std::size_t tensor);

  void broadcast_parameters();
  void rebuild_buckets();
  /// DDP: the open bucket is all-reduced.
  void send();
  [[nodiscard]] static Bytes bucket_limit(bool first);
  [[nodiscard]] std::vector<Bytes> bucket_sizes() const;  ///< DDP's, once the order of gradients is known
  [[nodiscard]] Bytes gradient_element() const;
  void agree();

  RankState& state_;
  Device& device_;
  std::vector<OptimizerTensor> optimized_;
  std::vector<Device::Block> buckets_;    ///< DDP's
  std::vector<std::size_t> ready_order_;  ///< in which gradients came first
  std::vector<bool> stepped_;             ///< in the backward, whose states are there
  bool rebuilt_{}, reduces_{};
  Bytes open_;  ///< in the bucket that fills
  bool first_bucket_{};
  Instant reduced_;  ///< when the last all-reduce is through
};

}  // namespace zplan
