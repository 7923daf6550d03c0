#include "planner/question/megatron.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <sstream>
#include <type_traits>

#include "planner/question/argument_list.h"

namespace zplan {

namespace {

using M = MegatronOptions;
using Value = std::optional<std::string>;
using Words = std::vector<std::string>;

template <class T>
struct Inner {
  using type = T;
};
template <class T>
struct Inner<std::optional<T>> {
  using type = T;
};
/// The type of the member's value, given or not.
template <auto member>
using Of = typename Inner<std::remove_cvref_t<decltype(M{}.*member)>>::type;

/// True if `options` has another value of the member than Megatron's own.
template <auto member>
bool differs(const M& options) {
  return options.*member != M{}.*member;
}

/// A switch, which sets the member to `on`.
template <auto member, bool on = true>
MegatronArgument flag(std::string_view name) {
  return {name,
          {},
          [](M& options, std::string_view given) {
            options.*member = on;
            return given.empty();
          },
          [](const M& options) { return differs<member>(options) ? Value("") : std::nullopt; }};
}

MegatronArgument of_config(MegatronArgument argument) {
  argument.of_config = true;
  return argument;
}

/// Bounds of numbers, so that no sum or product of two exceeds 64 bits: of degrees and layers, of a bucket's
/// elements, and of predictions, each with a layer of its own (models have as many layers at most).
constexpr std::int64_t kMostOfAny = 1LL << 24, kMostElements = 1LL << 40, kMostPredictions = 1024;

/// A whole number from 1 to `most`.
template <auto member, std::int64_t most = kMostOfAny>
MegatronArgument number(std::string_view name) {
  return {name,
          {fmt::format("a whole number from 1 to {}", most)},
          [](M& options, std::string_view given) {
            const auto value = whole_argument(given, 1, most);
            if (value) options.*member = Of<member>(*value);
            return value.has_value();
          },
          [](const M& options) {
            if (!differs<member>(options)) return Value();
            if constexpr (requires { (options.*member).value; })
              return Value(std::to_string((options.*member).value));
            else
              return Value(std::to_string(options.*member));
          }};
}

/// One of an enum's names.
template <auto member>
MegatronArgument choice(std::string_view name) {
  return {name, all_names<Of<member>>(),
          [](M& options, std::string_view given) {
            const auto value = from_name<Of<member>>(given);
            if (value) options.*member = *value;
            return value.has_value();
          },
          [](const M& options) {
            return differs<member>(options) ? Value(to_name(options.*member)) : std::nullopt;
          }};
}

Words words_of(std::string_view text) {
  std::istringstream stream{std::string(text)};
  Words words;
  for (std::string word; stream >> word;) words.push_back(word);
  return words;
}

/// A number in [0, 1].
template <auto member>
MegatronArgument fraction(std::string_view name) {
  return {name,
          {"a number from 0 to 1"},
          [](M& options, std::string_view given) {
            const auto [end, error] =
                std::from_chars(given.data(), given.data() + given.size(), options.*member);
            const bool is_whole = error == std::errc() && end == given.data() + given.size();
            return is_whole && options.*member >= 0 && options.*member <= 1;
          },
          [](const M& options) {
            return differs<member>(options) ? Value(fmt::format("{}", options.*member)) : std::nullopt;
          }};
}

/// One of the types that the optimizer takes for the member.
template <auto member, StateType... types>
MegatronArgument type(std::string_view name) {
  return {name,
          {std::string(to_name(types))...},
          [](M& options, std::string_view given) {
            const auto value = from_name<StateType>(given);
            if (value) options.*member = *value;
            return value && ((*value == types) || ...);
          },
          [](const M& options) {
            return differs<member>(options) ? Value(to_name(options.*member)) : std::nullopt;
          }};
}

/// --moe-aux-loss-coeff: whether a loss balances the experts. Its coefficient changes nothing that is
/// planned; 0.01 is that of Megatron's own recipes.
MegatronArgument balancing_loss() {
  return {"moe-aux-loss-coeff",
          {"a number from 0"},
          [](M& options, std::string_view given) {
            double value = 0;
            const auto [end, error] = std::from_chars(given.data(), given.data() + given.size(), value);
            options.balancing_loss = value > 0;
            return error == std::errc() && end == given.data() + given.size() && value >= 0;
          },
          [](const M& options) { return options.balancing_loss ? Value("0.01") : std::nullopt; }};
}

/// --moe-router-dtype: fp32, or that of the hidden states.
MegatronArgument router_type() {
  return {"moe-router-dtype",
          {"fp32"},
          [](M& options, std::string_view given) {
            options.router_in_fp32 = given == "fp32";
            return options.router_in_fp32;
          },
          [](const M& options) { return options.router_in_fp32 ? Value("fp32") : std::nullopt; }};
}

/// --pipeline-model-parallel-layout, of decoder layers.
MegatronArgument chunk_layout() {
  return {"pipeline-model-parallel-layout",
          {"a layout of decoder layers such as Ettt|tt|tt|tL"},
          [](M& options, std::string_view given) {
            options.layers_of_chunks = chunk_layers_of(given).value_or(std::vector<std::int64_t>());
            return !options.layers_of_chunks.empty();
          },
          [](const M& options) {
            return options.layers_of_chunks.empty() ? std::nullopt
                                                    : Value(chunk_layout_of(options.layers_of_chunks));
          }};
}

/// Whole numbers from 1.
template <auto member>
MegatronArgument numbers(std::string_view name) {
  return {name,
          {fmt::format("whole numbers from 1 to {}, separated by spaces", kMostOfAny)},
          [](M& options, std::string_view given) {
            (options.*member).clear();
            for (const std::string& word : words_of(given)) {
              const auto value = whole_argument(word, 1, kMostOfAny);
              if (!value) return false;
              (options.*member).push_back(*value);
            }
            return !(options.*member).empty();
          },
          [](const M& options) {
            return differs<member>(options) ? Value(fmt::format("{}", fmt::join(options.*member, " ")))
                                            : std::nullopt;
          }};
}

/// One of an enum's names, where it is given.
template <auto member>
MegatronArgument choice_or_none(std::string_view name) {
  return {
      name, all_names<Of<member>>(),
      [](M& options, std::string_view given) {
        options.*member = from_name<Of<member>>(given);
        return (options.*member).has_value();
      },
      [](const M& options) { return options.*member ? Value(to_name(*(options.*member))) : std::nullopt; }};
}

/// Names of an enum.
template <auto member>
MegatronArgument names(std::string_view name) {
  using Each = typename Of<member>::value_type;
  return {name, all_names<Each>(),
          [](M& options, std::string_view given) {
            (options.*member).clear();
            for (const std::string& word : words_of(given)) {
              const auto value = from_name<Each>(word);
              if (!value) return false;
              (options.*member).push_back(*value);
            }
            return !(options.*member).empty();
          },
          [](const M& options) {
            if (!differs<member>(options)) return Value();
            std::vector<std::string_view> all;
            for (const Each each : options.*member) all.push_back(to_name(each));
            return Value(fmt::format("{}", fmt::join(all, " ")));
          }};
}

}  // namespace

bool MegatronOptions::recomputes(RecomputedModule module) const {
  return std::ranges::find(recomputed_modules, module) != recomputed_modules.end();
}

std::int64_t grouped_layers(const MegatronOptions& options) {
  return block_layers(options) ? 1 : std::max<std::int64_t>(options.recomputed_layers, 1);
}

std::optional<std::int64_t> block_layers(const MegatronOptions& options) {
  if (options.recompute_method != RecomputeMethod::block) return std::nullopt;
  return std::max<std::int64_t>(options.recomputed_layers, 1);
}

const std::vector<MegatronArgument>& megatron_arguments() {
  static const std::vector<MegatronArgument> kArguments{
      flag<&M::sequence_parallel>("sequence-parallel"),
      flag<&M::overlap_grad_reduce>("overlap-grad-reduce"),
      flag<&M::overlap_param_gather>("overlap-param-gather"),
      flag<&M::gradients_in_bf16>("grad-reduce-in-bf16"),
      flag<&M::fused_cross_entropy>("cross-entropy-loss-fusion"),
      choice<&M::loss_fusion>("cross-entropy-fusion-impl"),
      flag<&M::adds_in_product, false>("no-gradient-accumulation-fusion"),
      flag<&M::makes_mask, false>("no-create-attention-mask-in-dataloader"),
      choice<&M::dispatcher>("moe-token-dispatcher-type"),
      flag<&M::groups_experts>("moe-grouped-gemm"),
      balancing_loss(),
      router_type(),
      flag<&M::router_pre_softmax>("moe-router-pre-softmax"),
      flag<&M::permute_fusion>("moe-permute-fusion"),
      flag<&M::overlaps_shared_experts>("moe-shared-expert-overlap"),
      flag<&M::counts_embedding>("account-for-embedding-in-pipeline-split"),
      flag<&M::counts_loss>("account-for-loss-in-pipeline-split"),
      flag<&M::fuses_rotation, false>("no-rope-fusion"),
      flag<&M::fuses_swiglu, false>("no-bias-swiglu-fusion"),
      flag<&M::counts_tokens>("calculate-per-token-loss"),
      of_config(flag<&M::exchanges_shapes>("variable-seq-lengths")),
      choice<&M::attention>("attention-backend"),
      names<&M::context_exchanges>("cp-comm-type"),
      numbers<&M::context_hierarchy>("hierarchical-context-parallel-sizes"),
      number<&M::predictions, kMostPredictions>("mtp-num-layers"),
      number<&M::bucket_size, kMostElements>("ddp-bucket-size"),
      number<&M::bucket_count>("ddp-num-buckets"),
      flag<&M::pads_buckets>("ddp-pad-buckets-for-high-nccl-busbw"),
      flag<&M::averages_in_collective>("ddp-average-in-collective"),
      flag<&M::sums_in_fp32>("ddp-reduce-scatter-with-fp32-accumulation"),
      number<&M::optimizer_instances>("num-distributed-optimizer-instances"),
      flag<&M::precision_aware>("use-precision-aware-optimizer"),
      type<&M::main_grads, StateType::fp32, StateType::bf16>("main-grads-dtype"),
      type<&M::main_params, StateType::fp32, StateType::fp16>("main-params-dtype"),
      type<&M::first_moments, StateType::fp32, StateType::fp16, StateType::bf16, StateType::fp8>(
          "exp-avg-dtype"),
      type<&M::second_moments, StateType::fp32, StateType::fp16, StateType::bf16, StateType::fp8>(
          "exp-avg-sq-dtype"),
      flag<&M::offloads_optimizer>("optimizer-cpu-offload"),
      fraction<&M::offload_fraction>("optimizer-offload-fraction"),
      number<&M::first_stage_layers>("decoder-first-pipeline-num-layers"),
      number<&M::last_stage_layers>("decoder-last-pipeline-num-layers"),
      chunk_layout(),
      number<&M::group_of_micro_batches>("microbatch-group-size-per-virtual-pipeline-stage"),
      flag<&M::overlaps_transfers, false>("no-overlap-p2p-communication"),
      flag<&M::overlaps_warmup_and_flush>("overlap-p2p-communication-warmup-flush"),
      choice_or_none<&M::recompute_method>("recompute-method"),
      number<&M::recomputed_layers>("recompute-num-layers"),
      names<&M::recomputed_modules>("recompute-modules"),
      flag<&M::divides_inputs>("distribute-saved-activations"),
  };
  return kArguments;
}

void set_megatron_argument(MegatronOptions& options, std::string_view place, std::string_view word) {
  set_argument(megatron_arguments(), options, place, word);
}

std::vector<std::string> megatron_words(const MegatronOptions& options) {
  return set_words(megatron_arguments(), options);
}

MegatronOptions recommended_megatron_options() {
  MegatronOptions options;
  options.sequence_parallel = options.overlap_grad_reduce = options.overlap_param_gather = true;
  options.makes_mask = false;
  options.dispatcher = RowDispatcher::alltoall;
  options.groups_experts = options.balancing_loss = true;
  return options;
}

}  // namespace zplan
