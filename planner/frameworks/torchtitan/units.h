#pragma once
// Units are FSDP2's groups of parameters as torchtitan makes them: the embedding, each layer, final norm and
// head; of a tied model the embedding is in the unit of the head. Source: torch 2.14.1
// distributed/fsdp/_fully_shard/{_fsdp_param_group,_fsdp_collectives,_fsdp_param}.py; torchtitan 0.3.0
// distributed/fsdp.py apply_fsdp_to_decoder.

#include <vector>

#include "planner/simulation/rank_state.h"

namespace zplan::titan {

/// Streams of their own, as FSDP makes them: blocks are used again only on the stream they were made on.
inline constexpr int kCompute = 0, kGather = 1, kReduce = 2, kReplicate = 3;

struct Member {
  std::size_t tensor{};
  Elements elements;           ///< of this tensor-parallel rank
  Elements shard;              ///< on this rank, padded
  bool is_head{};              ///< the output head, by itself or tied to the embedding
  bool is_replicated{};        ///< among tensor-parallel ranks, each of which has gradients of its own tokens
  bool is_by_width{};          ///< sharded along its second dimension: chunks are put together in copies
  Device::Block whole{-1};     ///< gathered
  Device::Block gradient{-1};  ///< of the whole parameter, as autograd leaves it
  Device::Block summed{-1};    ///< the same in the type of the reduction, of backwards that did not reduce
};

struct Unit {
  std::vector<Member> members;
  Over among{1};                       ///< the ranks that share one copy of its parameters
  bool follows{};                      ///< the same layer's experts are reduced before it
  std::size_t chunk{};                 ///< of layers that it is of: FSDP has a root for each
  bool reshards{};                     ///< its parameters are released behind its forward
  bool is_pending{};                   ///< its all-gather was issued
  bool is_whole{};                     ///< its parameters were copied out
  Device::Block gathered{-1};          ///< the all-gather's output, not yet copied out
  Instant arrives;                     ///< when its all-gather is through
  std::vector<Device::Block> reduced;  ///< buffers that its shards' gradients are views of

  Device::Block kept_gradient{-1};  ///< the last of those whose chunks were put together
  Device::Block all_reduced{-1};    ///< by copies of what is sharded, beside what was made of it
};

/// Units moves the parameters and gradients of units.
class Units {
 public:
  explicit Units(RankState& state);

  /// Allocates the shards of the unit's parameters.
  void shard(const Unit& unit);
  /// Issues the unit's all-gather. `stream`: where its memory is made.
  void gather(Unit& unit, int stream = kGather);
  /// Waits for the unit's all-gather and copies its parameters out. In the forward the output lives until the
  /// next unit has copied out.
  void copy_out(Unit& unit, bool in_forward);
  /// Frees the last all-gather's output.
  void end_forward() { device_.release(last_gathered_); }
  void release(Unit& unit);
  /// Adds this backward's gradients to sums in the type of the reduction.
  void sum_up(Unit& unit);
  /// Adds gradients to sums that are there; those of parameters without a sum stay as they are.
  void add_gradients(Unit& unit);
  /// Reduces the gradients that are there.
  void reduce(Unit& unit);
  /// Waits for the reductions of all units of a chunk of layers, and frees their inputs.
  void end_backward(const std::vector<Unit*>& units);
  /// Frees the shards' gradients.
  void zero_gradients(std::vector<Unit>& units);

 private:
  [[nodiscard]] const StepInputs& in() const { return state_.in(); }
  [[nodiscard]] const ParallelLayout& layout() const { return in().strategy.layout; }
  /// Bytes of an element in a shard, and as it computes.
  [[nodiscard]] Bytes stored() const { return parameter_size(in().training); }
  [[nodiscard]] Bytes computed() const { return weight_size(in().training); }
  void copy_alone(Unit& unit);
  void put_chunks_together(Unit& unit);
  void sum_replicated(const Unit& unit);
  void keep_or_release(Unit& unit, Device::Block reduced);

  RankState& state_;
  Device& device_;
  std::vector<bool> graded_;         ///< by tensor: its shard has a gradient
  Device::Block last_gathered_{-1};  ///< forward: kept until the next unit has copied out
  /// By chunk of layers: inputs of reductions, kept until the next unit's.
  std::vector<std::vector<Device::Block>> last_inputs_;
  Instant copied_out_;  ///< when the last unit has been
  Instant reduced_;     ///< when the last reduction is through
};

}  // namespace zplan::titan
