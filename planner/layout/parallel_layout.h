#pragma once
// The arrangement of the ranks of a training run, and the process groups that follow from it.

#include <array>
#include <compare>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "models/base/names.h"

namespace zplan {

/// Degrees of parallelism; their product, those of experts aside, is the number of ranks. Neighbouring ranks
/// differ in the first axis, then in the next: the order of accelerate's and torchtitan's device meshes, and
/// of DeepSpeed's groups.
struct ParallelLayout {
  std::int64_t tensor{1};     ///< ranks that divide each layer's tensors (AutoTP)
  std::int64_t sequence{1};   ///< ranks that divide a sample's tokens by heads in attention (Ulysses)
  std::int64_t context{1};    ///< ranks that divide a sample's tokens and pass keys on in a ring
  std::int64_t shard{1};      ///< data-parallel ranks that share one copy of what is sharded
  std::int64_t replicate{1};  ///< copies of what is sharded (hybrid sharding); 1: every rank shares one
  std::int64_t pipeline{1};   ///< stages that divide the layers
  /// Chunks of layers that each stage holds, as interleaved schedules have them; no axis: ranks do not differ
  /// in it.
  std::int64_t virtual_stages{1};
  /// Ranks that divide a layer's experts; they are among the others, not beside them.
  std::int64_t expert{1};
  /// Ranks that divide each expert's tensors (Megatron-Core), among the others too.
  std::int64_t expert_tensor{1};
  /// Expert-parallel groups are of every (world / expert)-th rank instead of neighbours: DeepSpeed's
  /// use_data_before_expert_parallelism.
  bool data_before_expert{};
  auto operator<=>(const ParallelLayout&) const = default;

  /// Ranks that train on different samples.
  [[nodiscard]] std::int64_t data_ranks() const { return shard * replicate; }
  /// Ranks that divide a sample's tokens among them.
  [[nodiscard]] std::int64_t token_ranks() const { return sequence * context; }
  /// Ranks that share one copy of what is sharded: those that divide a sample's tokens hold the same
  /// parameters, so ZeRO and FSDP shard over them too (DeepSpeed's sequence-data-parallel group, accelerate's
  /// mesh dimension dp_shard_cp).
  [[nodiscard]] std::int64_t shard_ranks() const { return token_ranks() * shard; }
  /// Ranks whose gradients are averaged.
  [[nodiscard]] std::int64_t gradient_ranks() const { return shard_ranks() * replicate; }
  /// Ranks that divide the experts of a layer and their tensors.
  [[nodiscard]] std::int64_t expert_ranks() const { return expert * expert_tensor; }
  /// All ranks.
  [[nodiscard]] std::int64_t world() const { return tensor * sequence * context * data_ranks() * pipeline; }
  /// Returns the layout without the axes that leave a rank's model and tokens unchanged. One recorded
  /// micro-step serves all layouts that agree in it.
  [[nodiscard]] ParallelLayout of_model() const;
  /// Returns the layout with `shard` set so that it fills a world of `ranks`, at least 1.
  [[nodiscard]] ParallelLayout filling(std::int64_t ranks) const;
};

/// An axis as it is named, typed and written in a strategy's id. A new axis begins with its row in kAxes.
struct Axis {
  std::string_view name;  ///< in sentences
  std::string_view id;    ///< of "tp4+zero3"; empty: not part of the id
  std::int64_t ParallelLayout::*degree;
  bool divides_model;  ///< it changes what one rank computes: the tape is another
  bool within_node;    ///< its groups may not reach across the network
};
inline constexpr std::array<Axis, 8> kAxes{{
    {"tensor parallel", "tp", &ParallelLayout::tensor, true, true},
    {"sequence parallel", "sp", &ParallelLayout::sequence, true, false},
    {"context parallel", "cp", &ParallelLayout::context, true, false},
    {"data parallel", "", &ParallelLayout::shard, false, false},
    {"replicas", "", &ParallelLayout::replicate, false, false},
    {"pipeline parallel", "pp", &ParallelLayout::pipeline, true, false},
    {"expert parallel", "ep", &ParallelLayout::expert, true, false},
    {"expert tensor parallel", "etp", &ParallelLayout::expert_tensor, true, true},
}};

/// Process groups by what they are made for. `data` is that over which gradients are averaged; `model` are
/// the ranks that divide one copy of the model (tensor and pipeline parallel), `sample` those that divide a
/// sample (tensor and context parallel), `expert_model` those that divide a layer's experts and their
/// tensors, `world` all.
enum class Group {
  data,
  tensor,
  sequence,
  context,
  sample,
  expert,
  expert_tensor,
  expert_model,
  expert_data,
  pipeline,
  model,
  world
};
template <>
struct EnumNames<Group> {
  static constexpr std::array<std::pair<Group, std::string_view>, 12> table{
      {{Group::data, "data"},
       {Group::tensor, "tensor"},
       {Group::sequence, "sequence"},
       {Group::context, "context"},
       {Group::sample, "sample"},
       {Group::expert, "expert"},
       {Group::expert_tensor, "expert-tensor"},
       {Group::expert_model, "expert-model"},
       {Group::expert_data, "expert-data"},
       {Group::pipeline, "pipeline"},
       {Group::model, "model"},
       {Group::world, "world"}}};
};

/// Ranks `first`, `first + stride`, … of the world.
struct ProcessGroup {
  std::int64_t size{1};
  std::int64_t stride{1};
  bool operator==(const ProcessGroup&) const = default;

  /// The place of rank `rank` of the world in its group of this kind.
  [[nodiscard]] std::int64_t place_of(std::int64_t rank) const { return rank / stride % size; }
};
[[nodiscard]] ProcessGroup process_group(const ParallelLayout& layout, Group group);

/// "tp4+", or nothing where no axis with an id is used.
[[nodiscard]] std::string id_prefix(const ParallelLayout& layout);

/// World says where ranks are, which decides whether a group stays within a node.
struct World {
  std::int64_t gpus{1};
  std::int64_t gpus_per_node{1};
};

/// Why the layout does not go with the world's GPUs, a sentence each; empty where it does.
[[nodiscard]] std::vector<std::string> layout_faults(const ParallelLayout& layout, World world);

}  // namespace zplan
