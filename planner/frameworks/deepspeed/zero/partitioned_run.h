#pragma once
// ZeRO 3: every parameter, gradient and state in shards, parameters gathered module by module.
// Source: DeepSpeed 0.19.8 runtime/zero/{stage3,partition_parameters,partitioned_param_coordinator}.py;
// compared with allocator traces of whole steps (docs/accuracy.md).

#include <memory>
#include <optional>

#include "planner/frameworks/deepspeed/zero/gathered_memory.h"
#include "planner/frameworks/deepspeed/zero/rules.h"
#include "planner/frameworks/deepspeed/zero/sharding.h"
#include "planner/simulation/rank_state.h"

namespace zplan {

class PartitionedRun {
 public:
  explicit PartitionedRun(RankState& state);
  PartitionedRun(const PartitionedRun&) = delete;
  PartitionedRun& operator=(const PartitionedRun&) = delete;

  void initialise();
  void begin_forward(const Slot& slot);
  void begin_backward(const Slot& slot) { last_micro_step_ = slot.last; }
  void gradient(std::size_t tensor, Device::Block block);
  void module(const Event& event, int layer);
  void reference(std::int32_t index);
  void end_backward(const Slot& slot);
  void step(bool first);

  /// Returns a micro-step as DeepSpeed's hooks see it.
  [[nodiscard]] const ModuleTape& modules() const { return policy_.modules; }

 private:
  /// Streams of their own, as DeepSpeed gives them: blocks are used again only on the stream they were made
  /// on.
  static constexpr int kCompute = 0, kGather = 1, kReduce = 2, kReferenceGather = 3;

  [[nodiscard]] const StepInputs& in() const { return state_.in(); }
  [[nodiscard]] Bytes weight() const { return state_.weight(); }
  [[nodiscard]] bool on_host(OffloadDevice device) const { return device != OffloadDevice::none; }
  [[nodiscard]] Elements shard_of(std::size_t tensor) const;
  /// Returns the number of ranks that share the tensor.
  [[nodiscard]] std::int64_t ranks(std::size_t tensor) const;
  [[nodiscard]] Over over(std::size_t tensor) const;
  /// True if both are reduced in one bucket.
  [[nodiscard]] bool shared_alike(std::size_t a, std::size_t b) const {
    return sharing_of(state_.tensors()[a], in().training, in().strategy) ==
           sharing_of(state_.tensors()[b], in().training, in().strategy);
  }
  /// Returns the group of a call that gathers this parameter, by DeepSpeed's number, among `ranks` ranks.
  [[nodiscard]] Over of_call(std::int32_t parameter, std::int64_t ranks) const;
  [[nodiscard]] bool is_adapter(std::size_t tensor) const;
  /// True if the model exists whole before it is sharded, because zero.Init did not make it.
  [[nodiscard]] bool is_made_whole() const;
  /// Returns elements, and bytes of an element, of the parameter as DeepSpeed sees it.
  [[nodiscard]] Elements elements(std::size_t tensor) const;
  [[nodiscard]] Bytes element_size(std::size_t tensor) const;
  void number_parameters();
  void list_modules();
  void list_reference_modules();
  /// Returns the tensor of RankModel::compared that the reference's tape knows as `index` of `layer`.
  [[nodiscard]] std::int32_t reference_tensor(int layer, std::int32_t index) const;
  /// True if the reference is a frozen model with an engine of its own.
  [[nodiscard]] bool has_reference() const { return state_.tape().reference.has_value(); }
  void partition_reference();
  void partition_parameters();
  void partition_whole_model(std::vector<Device::Block>& trained);
  void flatten_trained(std::vector<Device::Block>& trained);
  /// Makes tensors `first` … `end` − 1 whole and leaves their shards.
  void partition(std::size_t first, std::size_t end, std::vector<Device::Block>& shards);
  void make_second_shard(std::size_t tensor, std::vector<Device::Block>& shards);
  void partition_adapters(std::vector<Device::Block>& trained, std::vector<Device::Block>& frozen);
  void allocate_states();
  void make_masters();
  void gather_each();
  void begin(const GatherPlan& plan);
  void gather(std::int32_t event, Term term = Term::gathered_parameters);
  void communicate(std::int32_t event);
  void issue(const GatherAction& action);
  void wait(const GatherAction& action);
  void reduce(std::size_t tensor);
  void flush();
  /// Gradients that did not fit into the bucket, in the type that they travel in; nothing where that is
  /// theirs.
  [[nodiscard]] std::vector<Device::Block> cast_to_send();
  /// Returns a copy of the pending gradients in order of ranks, for one reduce_scatter; none if they are sent
  /// in place.
  [[nodiscard]] Device::Block put_in_order(Bytes padded);
  /// True if reduced gradients are cast before they are accumulated.
  [[nodiscard]] bool casts_reduced() const;
  [[nodiscard]] std::int64_t world() const { return in().strategy.layout.world(); }
  /// True if gradients are sent between nodes in 4 bits.
  [[nodiscard]] bool quantizes_gradients() const;
  void reduce_quantized(const RankTensor& tensor, std::vector<Device::Block>& temporaries,
                        std::vector<Device::Block>& reduced);
  void reduce_alone(const RankTensor& tensor, std::vector<Device::Block>& reduced);
  [[nodiscard]] std::vector<Device::Block> reduce_each_quantized();
  void offload(std::size_t tensor);
  [[nodiscard]] int reduce_stream() const;
  /// Returns the bytes of an element of accumulated gradients.
  [[nodiscard]] Bytes accumulated_size() const;
  void look_for_overflow();
  void agree();
  void norm();
  void update(Elements group, bool first);

  RankState& state_;
  Device& device_;
  std::vector<std::int32_t> numbers_;  ///< DeepSpeed's, by tensor
  std::vector<std::size_t> tensors_;   ///< the other way round
  std::vector<bool> waits_for_leaf_;  ///< by tensor: its gradient is reduced with those of a block of experts
  /// A parameter coordinator, and where its plan stands.
  struct Engine {
    ModuleTape modules;
    std::vector<std::int32_t> first_module;  ///< of each layer; behind the last: of the model around them
    GatherOptions options;
    std::optional<GatheredMemory> memory;
    std::shared_ptr<const RunGathers> of_run;
    const StepGathers* gathers{};         ///< of this step
    std::int32_t event{};                 ///< hooks that have fired in this micro-step
    std::vector<GatherBlock> asked;       ///< of the allocator, in this micro-step or the optimizer's step
    std::size_t next{};                   ///< of them
    const GatherPlan* plan{};             ///< that is followed now
    std::size_t next_action{};            ///< of it, for calls
    std::vector<Device::Block> gathered;  ///< by GatherBlock::block
    std::vector<Instant> whole;           ///< by parameter: when the call that gathers it is through
    int stream{kGather};                  ///< that gathers run on
    void prepare();
  };
  Engine policy_, reference_;
  Engine* engine_{&policy_};  ///< whose modules run
  bool first_step_{true}, first_reference_{true}, last_micro_step_{}, scores_{};
  Instant reduced_;                   ///< when the last reduction is through
  std::vector<std::size_t> pending_;  ///< gradients in the bucket
  Elements open_{};
};

}  // namespace zplan
