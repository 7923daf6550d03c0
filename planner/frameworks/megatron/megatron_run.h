#pragma once
// MegatronRun is a run of Megatron-Core: weights and sums of gradients in one buffer each, AdamW over a part
// of them (the distributed optimizer) or over all, stages of a pipeline. Source: Megatron-Core 0.19.2
// core/distributed/, core/optimizer/distrib_optimizer.py, core/pipeline_parallel/schedules.py; compared with
// recorded steps (docs/megatron.md).

#include <vector>

#include "planner/frameworks/megatron/buckets.h"
#include "planner/frameworks/megatron/optimizer.h"
#include "planner/simulation/rank_state.h"

namespace zplan {

class MegatronRun {
 public:
  explicit MegatronRun(RankState& state);

  void initialise();
  void begin_forward(const Slot& slot);
  void begin_backward(const Slot& slot);
  void section(int layer, bool backward);
  void gradient(std::size_t tensor, Device::Block block);
  void summed_gradient(std::size_t tensor);
  void module(const Event& /*unused*/, int /*unused*/) {}
  void end_backward(const Slot& slot);
  void step(bool first);

 private:
  [[nodiscard]] const StepInputs& in() const { return state_.in(); }
  [[nodiscard]] const MegatronOptions& options() const { return *in().strategy.megatron; }
  [[nodiscard]] const ParallelLayout& layout() const { return in().strategy.layout; }
  [[nodiscard]] bool is_divided() const { return in().strategy.zero_stage == 1; }
  [[nodiscard]] bool is_first_stage() const { return state_.inputs().place.stage == 0; }
  [[nodiscard]] bool is_last_stage() const { return state_.inputs().place.stage + 1 == layout().pipeline; }
  /// Returns the data-parallel ranks that divide optimizer states.
  [[nodiscard]] std::int64_t dividing_ranks() const { return megatron::dividing_ranks(in().strategy); }
  [[nodiscard]] Bytes sum_element() const { return Bytes(options().sums_in_bf16() ? 2 : 4); }
  [[nodiscard]] Bytes hidden_size() const;

  void make_buffers();
  void make_placeholders();
  void make_workspaces();
  /// Notes that a gradient is complete; its bucket may be.
  void complete(std::size_t tensor);
  void reduce(const megatron::Bucket& bucket);
  void reduce_scatter(const megatron::Bucket& bucket);
  void exchange(const megatron::Bucket& bucket);
  void finish_exchange();
  void reduce_rest();
  void sum_replicated();
  void count_tokens();
  void gather(const megatron::Bucket& bucket);
  void gather_until(std::size_t tensor);
  void hold(Device::Block& variable);
  void agree_on_norm();
  void report_step();

  RankState& state_;
  Device& device_;
  std::vector<megatron::Bucket> buckets_;
  megatron::OptimizerMemory optimizer_;
  std::vector<std::size_t> bucket_of_;     ///< by tensor
  std::vector<std::size_t> waits_for_;     ///< by bucket: gradients that are not there yet in this backward
  std::vector<std::size_t> gather_order_;  ///< numbers of buckets in the order in which weights are read
  std::size_t gathered_{};                 ///< how many of them were gathered in this step
  bool reduces_{};                         ///< buckets are reduced in this backward
  Instant reduced_;
  // What variables of the schedule hold until they get their next value: the hidden states that the last
  // micro-batch received, until the next forward is over; their gradient, until the next backward is.
  Device::Block received_{Device::kNone}, sent_{Device::kNone};
  Device::Block exchanged_{Device::kNone};  ///< what an all_to_all of gradients brought, until it is summed
  Elements exchanged_sums_;                 ///< of them this rank's
};

}  // namespace zplan
