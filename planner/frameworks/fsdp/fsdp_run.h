#pragma once
// FSDP2: fully_shard on every decoder layer, then on the model. Each layer and what is left (the root) is a
// group whose parameters are gathered for its forward and its backward, and whose gradients are reduced
// together. Source: torch 2.11
// distributed/fsdp/_fully_shard/{_fsdp_param_group,_fsdp_collectives,_fsdp_param,_fsdp_state}.py; compared
// with allocator traces of whole steps (docs/fsdp.md).

#include "planner/sharding/plan_split.h"
#include "planner/simulation/rank_state.h"

namespace zplan {

class FsdpRun {
 public:
  explicit FsdpRun(RankState& state);

  void initialise();
  void begin_forward(const Slot& slot);
  void begin_backward(const Slot& slot) { last_micro_step_ = slot.last, head_arrived_ = false; }
  void section(int layer, bool backward);
  void phase(Phase phase);
  void gradient(std::size_t tensor, Device::Block block);
  void module(const Event& event, int layer);
  void reference(std::int32_t index);
  void end_backward(const Slot& slot);
  void step(bool first);

 private:
  /// Streams of their own, as FSDP makes them: blocks are used again only on the stream they were made on.
  static constexpr int kCompute = 0, kGather = 1, kReduce = 2, kReplicate = 3;

  struct Parameter {
    std::size_t tensor{};
    Elements shard;            ///< on this rank, padded
    Bytes stored, computed;    ///< of one element: in the shard, as it computes
    Bytes gathered;            ///< of one element on its way and gathered
    Device::Block whole{-1};   ///< gathered
    Device::Block summed{-1};  ///< its whole gradient, summed up in the type of the reduction
    /// A tied embedding that the head's unit gathers and reduces too (by_plan): this is the embedding, whose
    /// own gradient is `gradient`; the head's is RankState's.
    bool looks_up{};
    Device::Block gradient{-1};
  };
  struct ParameterGroup {
    std::vector<Parameter> parameters;
    Device::Block gathered{-1};   ///< the all-gather's output, not yet copied out
    Device::Block gradients{-1};  ///< reduced, flat
    Device::Block partial{-1};    ///< reduced within a replica, until the replicas sum
    bool is_gathered{}, is_whole{};
    Instant arrives;  ///< when its all-gather is through
  };

  [[nodiscard]] const StepInputs& in() const { return state_.in(); }
  [[nodiscard]] std::int64_t ranks() const { return in().strategy.layout.shard_ranks(); }
  [[nodiscard]] Bytes weight() const { return state_.weight(); }
  [[nodiscard]] bool replicates() const { return in().strategy.layout.replicate > 1; }
  [[nodiscard]] bool offloads() const { return in().strategy.offload_parameters != OffloadDevice::none; }
  [[nodiscard]] bool reshards_after_forward() const { return in().strategy.zero_stage == 3; }
  [[nodiscard]] bool reduces() const {
    return last_micro_step_ || in().training.syncs_each_micro_step || defers_replicas();
  }
  /// True if transformers shards the model, tensor-parallel ranks included, as it loads it. Source:
  /// transformers 5.23 distributed/fsdp.py apply_fully_sharded_data_parallelism.
  [[nodiscard]] bool by_plan() const { return in().strategy.layout.tensor > 1; }
  /// True if all micro-steps but the last leave out the all-reduce among replicas alone. Source: transformers
  /// 5.23 trainer.py _defer_fsdp_gradient_reduction.
  [[nodiscard]] bool defers_replicas() const { return by_plan() && replicates(); }
  /// True if a tied embedding is in two units: the head's by itself, and that of final norm and embedding.
  [[nodiscard]] bool doubles_embedding() const { return by_plan() && in().model.shape.tied_embeddings; }
  [[nodiscard]] ParameterGroup& root() { return groups_.back(); }
  /// True if units are accelerate's: final norm and head in the root's place, whole until the backward, and
  /// an untied embedding by itself.
  [[nodiscard]] bool wraps_ends() const { return zplan::wraps_ends(in().training, in().strategy); }
  [[nodiscard]] bool wraps_embedding() const { return wraps_ends() && !in().model.shape.tied_embeddings; }
  /// True if accelerate does not find the final norm, which it looks for among the children of what peft has
  /// wrapped: it is left to the root. Source: accelerate 1.15 utils/fsdp_utils.py _find_final_norm; a
  /// schedule recorded (tests/reference/sequence_parallel).
  [[nodiscard]] bool misses_norm() const {
    return wraps_ends() && !by_plan() && in().training.method != Method::full;
  }
  [[nodiscard]] std::size_t layers() const { return in().model.inventory.layers.size(); }
  [[nodiscard]] ParameterGroup& embedding() { return groups_[layers()]; }
  /// True if the Trainer's own collectives count: token counts, and the norm of sharded gradients.
  [[nodiscard]] bool counts_trainer() const {
    return in().training.fsdp_wraps_ends.has_value() || wraps_ends();
  }
  [[nodiscard]] bool gathers_in_8_bits(const RankTensor& tensor) const;
  [[nodiscard]] Bytes reduced_size(const Parameter& parameter) const;
  /// Returns the bytes of an element in the group's all-gather.
  [[nodiscard]] Bytes sent_as(const ParameterGroup& group) const;
  [[nodiscard]] bool has_gradient(const Parameter& parameter) const;
  [[nodiscard]] bool has_unsummed_gradient(const Parameter& parameter) const;
  void release_gradient(Parameter& parameter);
  /// True if the parameter's gradient is that of the whole vocabulary until it is reduced.
  [[nodiscard]] bool has_whole_gradient(const Parameter& parameter) const;
  void divide_whole_gradients(ParameterGroup& group);
  /// Makes the unit of a tied head.
  void double_embedding();
  /// Makes the root's unit of the final norm.
  void leave_norm();

  /// Adds a tensor, which is number `index` of its list, to the group that it is of. `embeds`: the embedding
  /// is a group by itself, before the root's.
  void add_to(std::vector<ParameterGroup>& groups, const RankTensor& tensor, std::size_t index,
              bool embeds) const;
  /// True if a frozen model is sharded too: a copy that log-probabilities come from, or a teacher.
  [[nodiscard]] bool has_reference() const {
    return !in().rank.compared.empty() && !in().training.distillation.whole_teacher;
  }
  [[nodiscard]] const ModelShape& reference_shape() const { return compared_model(in().model).shape; }
  [[nodiscard]] std::size_t reference_layers() const {
    return compared_model(in().model).inventory.layers.size();
  }
  void shard(ParameterGroup& group);
  void shard_reference();
  void gather(ParameterGroup& group);
  [[nodiscard]] std::vector<Device::Block> gather_inputs(const ParameterGroup& group);
  void copy_out(ParameterGroup& group, bool in_forward);
  void copy_out_alone(ParameterGroup& group);
  void reshard(ParameterGroup& group);

  void leave_forward();
  void pass_ends(int layer, bool backward, bool is_behind_layers);
  void leave_group();
  void before_backward(std::size_t group);
  void after_backward(ParameterGroup& group);
  void keep_sums(ParameterGroup& group);
  void reduce(ParameterGroup& group);
  void release_gradients(ParameterGroup& group, std::vector<std::size_t> parameters);
  [[nodiscard]] bool keeps_partial(ParameterGroup& group, Device::Block reduced);
  void take_reduced(ParameterGroup& group, Device::Block reduced, bool all_reduced);
  void sum_norms();
  void drop_reduced(Device::Block reduced, bool all_reduced);
  void step_group(const ParameterGroup& group);
  void zero_gradients();

  RankState& state_;
  Device& device_;
  std::vector<ParameterGroup> groups_;            ///< the layers', the root's
  ParameterGroup tied_head_;                      ///< the head's where doubles_embedding()
  ParameterGroup left_;                           ///< the root's where misses_norm()
  bool head_arrived_{};                           ///< its gradient has, in this micro-step
  std::vector<ParameterGroup> reference_groups_;  ///< of the frozen model, as groups_
  int reference_layer_{-1};                       ///< of the reference, whose forward runs
  bool scores_{};                                 ///< that forward is the policy's own
  std::vector<OptimizerTensor> optimized_;
  std::vector<bool> stepped_;  ///< tensors that have states, where the optimizer steps in the backward
  int open_{-1};               ///< layer whose forward or backward runs
  bool in_backward_{};
  bool last_micro_step_{}, is_first_backward_{true};
  Device::Block last_gathered_{-1};         ///< forward: kept until the next group has copied out
  Device::Block last_reduced_{-1};          ///< the reduce-scatter's input: kept until the next one's
  std::vector<Device::Block> all_reduced_;  ///< kept until the backward is over, beside what was made of them
  Instant copied_out_;  ///< when the last group has been: the next all-gather waits for that
  Instant reduced_;     ///< when the last reduction is through
};

}  // namespace zplan
