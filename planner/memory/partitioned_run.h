#pragma once
// ZeRO 3: every parameter, gradient and state in shards, parameters gathered module by module.
// Source: DeepSpeed 0.19.8 runtime/zero/{stage3,partition_parameters,partitioned_param_coordinator}.py;
// compared with allocator traces of whole steps (docs/accuracy.md).

#include "planner/memory/rank_state.h"
#include "planner/sharding/coordinator.h"

namespace zplan {

class PartitionedRun {
 public:
  explicit PartitionedRun(RankState& state);

  void initialise();
  void begin_micro_step(bool last);
  void gradient(std::size_t tensor, Device::Block block);
  void module(const Event& event, int layer);
  void end_backward(bool last);
  void step(bool first);

 private:
  /// Streams of their own, as DeepSpeed gives them: blocks are used again only on the stream they were made
  /// on.
  static constexpr int kCompute = 0, kGather = 1, kReduce = 2;

  [[nodiscard]] const StepInputs& in() const { return state_.in(); }
  [[nodiscard]] Bytes weight() const { return state_.weight(); }
  [[nodiscard]] bool on_host(OffloadDevice device) const { return device != OffloadDevice::none; }
  [[nodiscard]] Elements shard_of(std::size_t tensor) const;
  void list_modules();
  void partition_parameters();
  void allocate_states();
  void do_actions(const GatherPlan& plan, std::int32_t event);
  void act(const GatherPlan& plan, const GatherAction& action);
  void flush();
  void norm();
  void update(Elements group, bool first);

  RankState& state_;
  Device& device_;
  ModuleTape modules_;
  std::vector<std::int32_t> first_module_;  ///< of each layer; behind the last: of the model around them
  StepGathers gathers_;
  std::size_t micro_step_{};
  bool first_step_{true};
  std::int32_t event_{};  ///< hooks that have fired in this micro-step
  std::size_t next_action_{};
  std::vector<Device::Block> gathered_;  ///< by tensor
  std::vector<Device::Block> buffers_;   ///< by call
  std::vector<std::size_t> pending_;     ///< gradients in the bucket
  Elements open_{};
};

}  // namespace zplan
