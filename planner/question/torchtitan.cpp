#include "planner/question/torchtitan.h"

#include <fmt/format.h>

#include "planner/question/argument_list.h"

namespace zplan {

namespace {

using Value = std::optional<std::string>;

template <auto member>
bool differs(const TitanOptions& options) {
  return options.*member != TitanOptions{}.*member;
}

/// One of an enum's names.
template <auto member>
TitanArgument named(std::string_view name, std::string_view flag = {}) {
  using Of = std::remove_cvref_t<decltype(TitanOptions{}.*member)>;
  return {name, all_names<Of>(),
          [](TitanOptions& options, std::string_view given) {
            const auto value = from_name<Of>(given);
            if (value) options.*member = *value;
            return value.has_value();
          },
          [](const TitanOptions& options) {
            return differs<member>(options) ? Value(to_name(options.*member)) : std::nullopt;
          },
          flag};
}

/// Bounds of numbers: of any, and of slices, each of which stands in the tape of a micro-step (--tiled-mlp
/// has as many).
constexpr std::int64_t kMostOfTitan = 1LL << 24, kMostSlices = 256;

/// A whole number from 0 to `most`.
template <auto member, std::int64_t most = kMostOfTitan>
TitanArgument whole(std::string_view name, std::string_view flag = {}) {
  return {name,
          {fmt::format("a whole number from 0 to {}", most)},
          [](TitanOptions& options, std::string_view given) {
            const auto value = whole_argument(given, 0, most);
            if (value) options.*member = *value;
            return value.has_value();
          },
          [](const TitanOptions& options) {
            return differs<member>(options) ? Value(std::to_string(options.*member)) : std::nullopt;
          },
          flag};
}

}  // namespace

const std::vector<TitanArgument>& titan_arguments() {
  using T = TitanOptions;
  static const std::vector<TitanArgument> kArguments{
      named<&T::resharding>("fsdp_reshard_after_forward", "--parallelism.fsdp_reshard_after_forward"),
      {"no-enable_sequence_parallel",
       {},
       [](T& options, std::string_view given) {
         options.sequence_parallel = false;
         return given.empty();
       },
       [](const T& options) { return options.sequence_parallel ? std::nullopt : Value(""); },
       "--parallelism.no-enable_sequence_parallel"},
      named<&T::attention>("attn_backend"),
      named<&T::backend>("spmd_backend", "--parallelism.spmd_backend"),
      whole<&T::loss_chunks, kMostSlices>("num_chunks", "--loss.num_chunks"),
      whole<&T::local_batch>("local_batch_size"),
      named<&T::schedule>("pipeline_parallel_schedule", "--parallelism.pipeline_parallel_schedule"),
      whole<&T::first_stage_less>("pipeline_parallel_first_stage_less_layers",
                                  "--parallelism.pipeline_parallel_first_stage_less_layers"),
      whole<&T::last_stage_less>("pipeline_parallel_last_stage_less_layers",
                                 "--parallelism.pipeline_parallel_last_stage_less_layers"),
  };
  return kArguments;
}

void set_titan_argument(TitanOptions& options, std::string_view place, std::string_view word) {
  set_argument(titan_arguments(), options, place, word);
}

std::vector<std::string> titan_words(const TitanOptions& options) {
  return set_words(titan_arguments(), options);
}

bool reshards_layers(const TitanOptions& options, bool has_stages) {
  return options.resharding == Resharding::always ||
         (options.resharding == Resharding::by_default && !has_stages);
}

bool loses_last_gradients(const TitanOptions& options) { return options.loss_chunks > 0; }

bool skips_final_norm(const TitanOptions& options, const ParallelLayout& layout) {
  // DualPipeV runs some of the last part's backwards whole.
  return layout.pipeline > 1 && splits_backward(options.schedule) &&
         options.schedule != PipelineSchedule::dual_pipe_v && loses_last_gradients(options);
}

std::int64_t part_of_chunk(const TitanOptions& options, const ParallelLayout& layout, std::int64_t stage,
                           std::int64_t chunk) {
  return is_v_shaped(options.schedule) && chunk == 1 ? 2 * layout.pipeline - 1 - stage
                                                     : chunk * layout.pipeline + stage;
}

bool shares_tied(const TitanOptions& options, const ParallelLayout& layout) {
  return options.backend == SpmdBackend::partial_dtensor && layout.tensor == 1 && layout.expert == 1;
}

}  // namespace zplan
