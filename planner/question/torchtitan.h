#pragma once
// Options of torchtitan that change what a rank holds, computes or sends. Defaults: torchtitan 0.3.0
// config/configs.py, components/loss.py, distributed/pipeline_parallel.py.

#include <array>
#include <compare>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "models/base/names.h"
#include "planner/layout/parallel_layout.h"

namespace zplan {

/// Resharding is torchtitan's --parallelism.fsdp_reshard_after_forward. `by_default` reshards layers and the
/// embedding behind their forward unless there are pipeline stages, and never the head's unit.
enum class Resharding { by_default, always, never };
template <>
struct EnumNames<Resharding> {
  static constexpr std::array<std::pair<Resharding, std::string_view>, 3> table{
      {{Resharding::by_default, "default"}, {Resharding::always, "always"}, {Resharding::never, "never"}}};
};

/// TitanAttention is the attention that a torchtitan model is built with: compiled FlexAttention, or
/// FlashAttention over documents of a batch.
enum class TitanAttention { flex, varlen };
template <>
struct EnumNames<TitanAttention> {
  static constexpr std::array<std::pair<TitanAttention, std::string_view>, 2> table{
      {{TitanAttention::flex, "flex"}, {TitanAttention::varlen, "varlen"}}};
};

/// PipelineSchedule is one of torch's pipeline schedules, by the name of its class.
enum class PipelineSchedule {
  one_forward_one_backward,
  gpipe,
  interleaved,
  looped_breadth_first,
  interleaved_zero_bubble,
  zero_bubble_v,
  dual_pipe_v
};
template <>
struct EnumNames<PipelineSchedule> {
  static constexpr std::array<std::pair<PipelineSchedule, std::string_view>, 7> table{
      {{PipelineSchedule::one_forward_one_backward, "1F1B"},
       {PipelineSchedule::gpipe, "GPipe"},
       {PipelineSchedule::interleaved, "Interleaved1F1B"},
       {PipelineSchedule::looped_breadth_first, "LoopedBFS"},
       {PipelineSchedule::interleaved_zero_bubble, "InterleavedZeroBubble"},
       {PipelineSchedule::zero_bubble_v, "ZBVZeroBubble"},
       {PipelineSchedule::dual_pipe_v, "DualPipeV"}}};
};
/// Returns true if a rank holds several chunks of layers under the schedule.
[[nodiscard]] constexpr bool takes_chunks(PipelineSchedule schedule) {
  return schedule != PipelineSchedule::one_forward_one_backward && schedule != PipelineSchedule::gpipe;
}
/// Returns true if the schedule runs some backwards in two parts, gradients of inputs and gradients of
/// weights.
[[nodiscard]] constexpr bool splits_backward(PipelineSchedule schedule) {
  return schedule == PipelineSchedule::interleaved_zero_bubble ||
         schedule == PipelineSchedule::zero_bubble_v || schedule == PipelineSchedule::dual_pipe_v;
}
/// Returns true if a rank's second chunk of layers lies as far from the model's end as its first from the
/// begin.
[[nodiscard]] constexpr bool is_v_shaped(PipelineSchedule schedule) {
  return schedule == PipelineSchedule::zero_bubble_v || schedule == PipelineSchedule::dual_pipe_v;
}

/// SpmdBackend says how torchtitan's tensor-parallel ranks exchange: calls of its own on local tensors, or
/// DTensors in a part of the model or in all of it.
enum class SpmdBackend { spmd_types, partial_dtensor, full_dtensor };
template <>
struct EnumNames<SpmdBackend> {
  static constexpr std::array<std::pair<SpmdBackend, std::string_view>, 3> table{
      {{SpmdBackend::spmd_types, "spmd_types"},
       {SpmdBackend::partial_dtensor, "partial_dtensor"},
       {SpmdBackend::full_dtensor, "full_dtensor"}}};
};

/// TitanOptions are given where a strategy runs in torchtitan. Degrees of parallelism are the layout's;
/// activation checkpointing is Strategy's.
struct TitanOptions {
  static constexpr std::int64_t kLossChunks = 8;

  Resharding resharding{Resharding::by_default};
  bool sequence_parallel{true};  ///< hidden states between layers are divided among tensor-parallel ranks
  TitanAttention attention{TitanAttention::flex};
  /// Slices of a sample that head and loss run on, forward and backward (ChunkedLossWrapper); 0: the loss of
  /// whole logits.
  std::int64_t loss_chunks{kLossChunks};
  PipelineSchedule schedule{PipelineSchedule::one_forward_one_backward};
  SpmdBackend backend{SpmdBackend::spmd_types};
  /// Samples of each data-parallel rank in one pass through a pipeline, of which a step has several where it
  /// has more samples; 0: one pass.
  std::int64_t local_batch{};
  /// Layers by which the first and the last stage have fewer than the others, for the embedding and the head.
  std::int64_t first_stage_less{1}, last_stage_less{1};
  bool operator==(const TitanOptions&) const = default;
  auto operator<=>(const TitanOptions&) const = default;
};

/// TitanArgument is one of torchtitan's settings, by the last part of its name.
struct TitanArgument {
  std::string_view name;
  std::vector<std::string> accepted;  ///< its values, for messages; empty: a switch, which takes none
  /// Sets the value. Returns false where it is not accepted.
  bool (*set)(TitanOptions& options, std::string_view value);
  /// Returns the value, empty of a switch; nothing where torchtitan does the same without it.
  std::optional<std::string> (*value)(const TitanOptions& options);
  std::string_view flag;  ///< of torchtitan's command line; empty: a model's config sets it
};
/// Returns the settings, in the order in which command lines list them.
[[nodiscard]] const std::vector<TitanArgument>& titan_arguments();
/// Sets the setting that `word` gives: "name", or "name=value". Throws InputError, which names `place` and
/// what is accepted.
void set_titan_argument(TitanOptions& options, std::string_view place, std::string_view word);
/// Returns the words that set what differs from torchtitan's own defaults.
[[nodiscard]] std::vector<std::string> titan_words(const TitanOptions& options);

/// Returns true if the layers' parameters are released behind their forward.
[[nodiscard]] bool reshards_layers(const TitanOptions& options, bool has_stages);
/// Returns true if the last stage's parameters around its layers get no gradient in the second part of
/// a backward in two parts. The loss in slices releases them before the first part looks for parameters in
/// the graph, and it finds what they are sharded to. Source: torch 2.14.1 distributed/pipelining/_backward.py
/// stage_backward_input; torchtitan 0.3.0 components/loss.py.
[[nodiscard]] bool loses_last_gradients(const TitanOptions& options);
/// Returns true if no backward gives the final norm a gradient, so that it has no optimizer states.
[[nodiscard]] bool skips_final_norm(const TitanOptions& options, const ParallelLayout& layout);
/// Returns the part of the model, of layout.pipeline · layout.virtual_stages, that chunk `chunk` of stage
/// `stage` is.
[[nodiscard]] std::int64_t part_of_chunk(const TitanOptions& options, const ParallelLayout& layout,
                                         std::int64_t stage, std::int64_t chunk);
/// Returns true if a tied embedding and head are one parameter. Elsewhere torchtitan divides each into
/// a parameter of its own before it ties them again, so FSDP shards them as two.
[[nodiscard]] bool shares_tied(const TitanOptions& options, const ParallelLayout& layout);

}  // namespace zplan
