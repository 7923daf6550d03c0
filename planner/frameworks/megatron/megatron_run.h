#pragma once
// MegatronRun is a run of Megatron-Core: weights and sums of gradients in one buffer each, AdamW over a part
// of them (the distributed optimizer) or over all, stages of a pipeline. Source: Megatron-Core 0.19.2
// core/distributed/, core/optimizer/distrib_optimizer.py, core/pipeline_parallel/schedules.py; compared with
// recorded steps (docs/megatron.md).

#include <vector>

#include "planner/frameworks/megatron/buckets.h"
#include "planner/frameworks/megatron/dispatcher_variables.h"
#include "planner/frameworks/megatron/optimizer.h"
#include "planner/frameworks/megatron/stage_variables.h"
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
  void module(const Event& event, int layer);
  void end_backward(const Slot& slot);
  void transferred(const Slot& slot);
  void reduce(const Slot& slot);
  void step(bool first);
  /// Dispatchers of mixtures keep blocks for each micro-batch that is in flight.
  [[nodiscard]] bool leaves_alike() const { return dispatchers_.mixtures() == 0; }

 private:
  [[nodiscard]] const StepInputs& in() const { return state_.in(); }
  [[nodiscard]] const MegatronOptions& options() const { return *in().strategy.megatron; }
  [[nodiscard]] const ParallelLayout& layout() const { return in().strategy.layout; }
  [[nodiscard]] bool is_divided() const { return in().strategy.zero_stage == 1; }
  [[nodiscard]] bool is_first_stage() const { return state_.inputs().place.stage == 0; }
  [[nodiscard]] bool is_last_stage() const { return state_.inputs().place.stage + 1 == layout().pipeline; }
  [[nodiscard]] bool has_expert_buffer() const { return !expert_gathers_.order.empty(); }
  /// True if the stage holds several chunks of layers, each with a buffer of its own.
  [[nodiscard]] bool is_interleaved() const { return layout().virtual_stages > 1; }
  [[nodiscard]] std::size_t chunk_of(const megatron::Bucket& bucket) const {
    return state_.tensors()[bucket.parameters.front().tensor].chunk;
  }
  [[nodiscard]] Bytes sum_element() const { return Bytes(options().sums_in_bf16() ? 2 : 4); }
  [[nodiscard]] std::int64_t micro_batch_tokens() const;  ///< of all its sequences, on this rank
  [[nodiscard]] Bytes hidden_size() const;                ///< hidden states of a forward
  [[nodiscard]] Bytes passed_size() const;                ///< what stages send each other

  void make_buffers();
  void make_reference();
  void take_teacher_logits();
  void make_placeholders();
  void make_workspaces();
  void make_latent_tables();
  /// Notes that a gradient is complete; its bucket may be.
  void complete(std::size_t tensor);
  void reduce(const megatron::Bucket& bucket);
  void reduce_scatter(const megatron::Bucket& bucket);
  void exchange(const megatron::Bucket& bucket);
  void finish_exchange();
  void reduce_rest();
  void finish_gradients();
  void sum_replicated();
  void count_tokens();
  void sum_expert_loads();
  void gather(const megatron::Bucket& bucket);
  void gather_until(std::size_t tensor);
  void gather_chunk(std::size_t chunk, Instant earliest);
  void gather_next_chunk(const Slot& slot);
  [[nodiscard]] Instant issue_gather(const megatron::Bucket& bucket, Instant earliest);
  void hold(Device::Block& variable);
  void agree_on_norm();
  /// Returns the ranks that share the bucket's weights and gradients.
  [[nodiscard]] Over sharers(const megatron::Bucket& bucket) const;
  /// Returns those of them that divide the bucket's optimizer states.
  [[nodiscard]] Over dividers(const megatron::Bucket& bucket) const;
  void report_step();

  RankState& state_;
  Device& device_;
  std::vector<megatron::Bucket> buckets_;
  megatron::OptimizerMemory optimizer_;
  std::vector<std::vector<std::size_t>> buckets_of_;  ///< by tensor; several where it stacks experts
  std::vector<std::size_t> waits_for_;  ///< by bucket: gradients that are not there yet in this backward
  /// Gathers holds numbers of buckets in the order in which weights are read, and how many of them were
  /// gathered in this step.
  struct Gathers {
    std::vector<std::size_t> order;
    std::size_t done{};
  };
  Gathers dense_gathers_, expert_gathers_;
  bool reduces_{};  ///< buckets are reduced in this backward
  Instant reduced_;
  megatron::StageVariables variables_;   ///< of an interleaved schedule
  std::vector<Instant> chunk_gathered_;  ///< by chunk: when its weights are there
  megatron::DispatcherVariables dispatchers_;
  std::int64_t forwards_{};  ///< that began in this step
  // Variables of the schedule hold these until they get their next value: the hidden states that the last
  // micro-batch received, until the next forward is over; their gradient, until the next backward is; the
  // gradient that was received, until the next is.
  Device::Block received_{Device::kNone}, sent_{Device::kNone}, gradient_{Device::kNone};
  /// Under adapters: the embedding's rows of the last micro-batch, and their gradient, until the next forward
  /// is over.
  std::vector<Device::Block> rows_;
  Device::Block teacher_logits_{Device::kNone};  ///< of all micro-batches, until the step
  Device::Block exchanged_{Device::kNone};  ///< what an all_to_all of gradients brought, until it is summed
  Elements exchanged_sums_;                 ///< of them this rank's
};

}  // namespace zplan
