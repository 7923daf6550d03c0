#include "cli/recipes/formats/megatron.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>

#include "cli/base/values.h"
#include "cli/recipes/trainer_keys.h"
#include "models/base/error.h"
#include "models/base/format.h"
#include "planner/question/megatron.h"
#include "planner/question/trainers.h"

namespace zplan {

namespace {

/// An argument of --megatron, and the key of a file that says it.
struct Spelled {
  std::string key;
  std::string_view argument;
  bool is_negated{};  ///< the argument is given where the key is false
};

/// An argument whose key has another name.
struct Renamed {
  std::string_view argument, key;
  bool is_negated{};
};
/// Arguments whose keys have another name in files of values. Source: ms-swift 4.6
/// swift/megatron/arguments/megatron_args.py; Megatron-Core 0.19.2 core/transformer/transformer_config.py.
constexpr std::array kRenamed{
    Renamed{"no-rope-fusion", "apply_rope_fusion", true},
    Renamed{"no-bias-swiglu-fusion", "bias_activation_fusion", true},
    Renamed{"no-overlap-p2p-communication", "overlap_p2p_comm", true},
    Renamed{"microbatch-group-size-per-virtual-pipeline-stage", "microbatch_group_size_per_vp_stage", false}};

std::string with_underscores(std::string_view name) {
  std::string key(name);
  std::ranges::replace(key, '-', '_');
  return key;
}

Spelled spelled_by_value(std::string_view argument) {
  constexpr std::string_view kNo = "no-";
  const auto* const renamed = std::ranges::find(kRenamed, argument, &Renamed::argument);
  if (renamed != kRenamed.end()) return {std::string(renamed->key), argument, renamed->is_negated};
  const bool negated = argument.starts_with(kNo);
  return {with_underscores(negated ? argument.substr(kNo.size()) : argument), argument, negated};
}

std::vector<Spelled> spelled_arguments(MegatronSpelling spelling) {
  std::vector<Spelled> all;
  for (const MegatronArgument& each : megatron_arguments())
    all.push_back(spelling == MegatronSpelling::values ? spelled_by_value(each.name)
                                                       : Spelled{with_underscores(each.name), each.name});
  return all;
}

const std::vector<Spelled>& spelled(MegatronSpelling spelling) {
  static const std::vector<Spelled> kSwitches = spelled_arguments(MegatronSpelling::switches);
  static const std::vector<Spelled> kValues = spelled_arguments(MegatronSpelling::values);
  return spelling == MegatronSpelling::values ? kValues : kSwitches;
}

const MegatronArgument* find_argument(std::string_view name) {
  const auto found = std::ranges::find(megatron_arguments(), name, &MegatronArgument::name);
  return found == megatron_arguments().end() ? nullptr : &*found;
}

/// Returns a key's value as words separated by blanks.
std::string words_of_value(const RecipePlace& place) {
  if (place.value.kind != RecipeKind::list) return place.scalar();
  std::vector<std::string> words;
  for (const RecipeValue& each : place.value.items) words.push_back(each.text);
  return fmt::format("{}", fmt::join(words, " "));
}

template <MegatronSpelling spelling>
RecipeOptions spelled_argument(const RecipePlace& place) {
  if (place.value.kind == RecipeKind::nothing) return {};
  const Spelled& said = *std::ranges::find(spelled(spelling), place.row.key, &Spelled::key);
  if (!find_argument(said.argument)->accepted.empty())
    return megatron_argument(place, said.argument, words_of_value(place));
  const auto on = place.boolean();
  if (!on) place.fail(in_quotes(words_of_value(place)), "accepted: true, false");
  return *on != said.is_negated ? RecipeOptions{{"--megatron", std::string(said.argument)}} : RecipeOptions{};
}

/// Returns the words that a trainer gives to --megatron by default.
std::vector<std::string_view> default_words(std::string_view trainer) {
  const auto found = std::ranges::find(trainers(), trainer, &Trainer::name);
  for (const TrainerDefault& each : found->defaults)
    if (each.when == TrainerCase::megatron && each.option == "--megatron") return split(each.value, ',');
  return {};
}

/// A key that matters, and its values that are planned.
struct Refused {
  std::string_view key;
  std::string_view planned;  ///< words separated by blanks
};
/// Source: Megatron-Core 0.19.2 training/arguments.py, core/transformer/transformer_config.py,
/// core/optimizer/optimizer_config.py, core/distributed/distributed_data_parallel_config.py.
constexpr std::array kRefused{Refused{"optimizer", "adam"},
                              Refused{"fp8_format", "none"},
                              Refused{"fp8_param_gather", "false"},
                              Refused{"fp4_format", "none"},
                              Refused{"fp4_param_gather", "false"},
                              Refused{"use_megatron_fsdp", "false"},
                              Refused{"use_torch_fsdp2", "false"},
                              Refused{"transformer_impl", "transformer_engine"},
                              Refused{"tp_comm_overlap", "false"},
                              Refused{"fine_grained_activation_offloading", "false"},
                              Refused{"cpu_offloading", "false"},
                              Refused{"cpu_offloading_num_layers", "0"},
                              Refused{"multi_latent_attention", "false"},
                              Refused{"moe_enable_deepep", "false"},
                              Refused{"moe_flex_dispatcher_backend", "none"},
                              Refused{"moe_pad_expert_input_to_capacity", "false"},
                              Refused{"moe_layer_recompute", "false"},
                              Refused{"overlap_moe_expert_parallel_comm", "false"},
                              Refused{"delay_wgrad_compute", "false"},
                              Refused{"defer_embedding_wgrad_compute", "false"},
                              Refused{"enable_cuda_graph", "false"},
                              Refused{"external_cuda_graph", "false"},
                              Refused{"cuda_graph_impl", "none"}};

std::vector<std::pair<std::string_view, std::string_view>> planned_words(const Refused& row) {
  std::vector<std::pair<std::string_view, std::string_view>> words;
  for (const std::string_view word : split(row.planned, ' ')) words.emplace_back(word, "");
  return words;
}

/// Returns a row for each argument that --megatron takes. Its key is Megatron's own name with underscores.
std::vector<RecipeRow> argument_rows(MegatronSpelling spelling) {
  std::vector<RecipeRow> rows;
  for (const Spelled& each : spelled(spelling))
    rows.push_back({each.key, "--megatron",
                    spelling == MegatronSpelling::values ? spelled_argument<MegatronSpelling::values>
                                                         : spelled_argument<MegatronSpelling::switches>});
  return rows;
}

std::vector<RecipeRow> refused_rows() {
  std::vector<RecipeRow> rows;
  for (const Refused& each : kRefused) rows.push_back({each.key, "", only_planned, planned_words(each)});
  return rows;
}

}  // namespace

RecipeOptions megatron_argument(const RecipePlace& place, std::string_view name, std::string_view value) {
  const std::string word = value.empty() ? std::string(name) : fmt::format("{}={}", name, value);
  MegatronOptions tried;
  try {
    set_megatron_argument(tried, place.row.key, word);
  } catch (const InputError& error) {
    place.fail(error.found(), error.accepted());
  }
  return {{"--megatron", word}};
}

std::optional<std::pair<std::string, std::string>> megatron_setting(std::string_view argument,
                                                                    std::string_view value,
                                                                    RecipeFormat format) {
  for (const ArgumentKey& each : trainer_keys(format).arguments)
    if (each.argument == argument)
      return std::pair{std::string(each.key), std::string(value.empty() ? "true" : value)};
  const std::string_view name = argument.substr(argument.find_first_not_of('-'));
  const auto& all = spelled(MegatronSpelling::values);
  const auto found = std::ranges::find(all, name, &Spelled::argument);
  if (found == all.end()) return std::nullopt;
  const std::string_view flag = found->is_negated ? "false" : "true";
  return std::pair{found->key, std::string(value.empty() ? flag : value)};
}

RecipeOptions only_planned(const RecipePlace& place) {
  const std::string value = lower_case(words_of_value(place));
  std::vector<std::string_view> accepted;
  for (const auto& [word, option] : place.row.words) {
    if (word == value || value.empty()) return {};
    accepted.push_back(word);
  }
  place.fail(fmt::format("{} under Megatron-Core is not planned yet", in_quotes(value)),
             fmt::format("accepted: {}", fmt::join(accepted, ", ")));
}

RecipeOptions distributed_optimizer(const RecipePlace& place) {
  const auto on = place.boolean();
  if (!on) place.fail(in_quotes(place.scalar()), "accepted: true, false");
  return {{"--zero", *on ? "1" : "0"}};
}

/// Megatron-Core refuses what is left out or contradicts. Source: Megatron-Core 0.19.2 training/arguments.py
/// validate_args; ms-swift 4.6 swift/megatron/arguments/megatron_args.py __post_init__.
RecipeOptions recompute_granularity(const RecipePlace& place) {
  const std::string kind = lower_case(place.scalar());
  const bool has_method = !place.other("recompute_method").empty();
  if (kind == "selective" && has_method)
    place.fail("selective with recompute_method, which Megatron-Core refuses", "accepted: one of the two");
  if (kind == "full")
    for (const std::string_view key : {"recompute_method", "recompute_num_layers"})
      if (place.other(key).empty())
        place.fail(fmt::format("full without {}, which Megatron-Core refuses", key),
                   "accepted: with recompute_method (uniform, block) and recompute_num_layers");
  return as_word(place);
}

/// Source: Megatron-Core 0.19.2 core/transformer/enums.py AttnBackend; ms-swift 4.6 megatron_args.py
/// _init_attention_backend.
RecipeOptions attention_backend(const RecipePlace& place) {
  std::string name = lower_case(place.scalar());
  if (name == "flash_3" || name == "flash_4")
    place.not_planned("FlashAttention 2 is planned: what later releases allocate is not known");
  if (name.starts_with("flash")) name = "flash";
  if (name == "auto") {
    place.not_planned("Transformer Engine chooses the kernel: cuDNN's fused attention is planned");
    name = "fused";
  }
  return megatron_argument(place, "attention-backend", name);
}

/// Source: Megatron-Core 0.19.2 core/transformer/transformer_config.py __post_init__. The loss is fused where
/// the trainer's default or a key says so.
RecipeOptions loss_kernel(const RecipePlace& place) {
  constexpr std::string_view kKey = "cross_entropy_loss_fusion";
  const bool is_unsaid = place.text.root.find(kKey) == nullptr;
  const bool by_default = place.recipe.format == RecipeFormat::swift_megatron;
  if (place.scalar() == "te" && (is_unsaid ? by_default : place.is_on(kKey)))
    place.fail(R"("te": Megatron-Core refuses Transformer Engine's fused cross entropy as unstable)",
               "accepted: native");
  return as_word(place);
}

std::vector<RecipeDefault> megatron_argument_defaults(std::string_view trainer, MegatronSpelling spelling) {
  std::vector<RecipeDefault> all{{"transformer_impl", "--megatron", "none"}};
  for (const std::string_view word : default_words(trainer)) {
    const std::string_view name = word.substr(0, word.find('='));
    const auto found = std::ranges::find(spelled(spelling), name, &Spelled::argument);
    if (found != spelled(spelling).end()) all.push_back({found->key, "--megatron", word});
  }
  return all;
}

std::vector<RecipeRow> with_megatron_rows(const std::vector<std::vector<RecipeRow>>& own,
                                          MegatronSpelling spelling) {
  std::vector<RecipeRow> all;
  for (const std::vector<RecipeRow>& rows : own) all.insert(all.end(), rows.begin(), rows.end());
  for (const auto& more : {argument_rows(spelling), refused_rows()})
    for (const RecipeRow& row : more)
      if (std::ranges::find(all, row.key, &RecipeRow::key) == all.end()) all.push_back(row);
  return all;
}

namespace {

/// Returns a degree that another key says, 1 where it says none.
std::int64_t degree_of(const RecipePlace& place, std::string_view key) {
  const std::int64_t said = to_whole_number(place.other(key)).value_or(1);
  return said > 0 && said <= kMostDegree ? said : 1;
}

/// Returns the GPUs that the script starts its run on; 0 where it does not say. Variables and flags say the
/// same: of several the last counts.
std::int64_t own_gpus(const RecipePlace& place) {
  const auto count = [](const std::string& said) {
    const std::int64_t number = to_whole_number(said).value_or(0);
    return number >= 1 && number <= kMostGpus ? number : 0;
  };
  std::int64_t gpus = 0, nodes = 1;
  for (const std::string_view key : {"NPROC_PER_NODE", "nproc_per_node"})
    if (const std::string said = place.other(key); !said.empty()) gpus = count(said);
  for (const std::string_view key : {"NNODES", "nnodes", "num_nodes"})
    if (const std::string said = place.other(key); !said.empty()) nodes = count(said);
  return gpus * nodes <= kMostGpus ? gpus * nodes : 0;
}

/// Returns the samples of a micro-step on that many GPUs; 0 where the script's degrees do not divide them.
std::int64_t samples_on(const RecipePlace& place, std::int64_t gpus) {
  for (const std::string_view key :
       {"tensor_model_parallel_size", "pipeline_model_parallel_size", "context_parallel_size"})
    gpus = gpus % degree_of(place, key) == 0 ? gpus / degree_of(place, key) : 0;
  return gpus * degree_of(place, "micro_batch_size");
}

}  // namespace

RecipeOptions megatron_global_batch(const RecipePlace& place, std::int64_t batch) {
  const std::int64_t samples = samples_on(place, place.asked.gpus.value_or(0)),
                     own = samples_on(place, own_gpus(place));
  // A batch that the script's own GPUs cannot make is left as it is: it is refused.
  const bool is_kept =
      samples == 0 || batch % samples == 0 || own == 0 || batch % own != 0 || place.is_given("--micro-batch");
  if (is_kept) return {{"--global-batch", std::to_string(batch)}};
  const std::int64_t next = (batch / samples + 1) * samples, each = degree_of(place, "micro_batch_size");
  place.not_planned(
      fmt::format("{} is not a multiple of micro-batch {} x {} data-parallel ranks, which Megatron refuses: "
                  "{} is planned",
                  batch, each, samples / each, next));
  return {{"--global-batch", std::to_string(next)}};
}

std::int64_t megatron_samples(const RecipePlace& place) {
  return samples_on(place, place.asked.gpus.value_or(own_gpus(place)));
}

std::int64_t megatron_micro_batches(const RecipePlace& place) {
  constexpr std::int64_t kUsual = 16;
  const std::int64_t batch = to_whole_number(place.other("global_batch_size")).value_or(kUsual),
                     samples = megatron_samples(place);
  return samples > 0 ? std::max<std::int64_t>(1, divide_up(batch, samples)) : 1;
}

RecipeOptions global_batch(const RecipePlace& place) {
  const std::int64_t batch = to_whole_number(place.scalar()).value_or(0);
  return batch < 1 || batch > kMostGlobalBatch ? as_text(place) : megatron_global_batch(place, batch);
}

}  // namespace zplan
