#include "planner/question/trainers.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <utility>

#include "models/base/error.h"
#include "models/base/split.h"
#include "planner/question/framework.h"

namespace zplan {

namespace {

struct TrainerInfo {
  Trainer trainer{};
  TrainerRelease newest{};  ///< whose files the rows were read from
};
constexpr std::array kTrainers{
    TrainerInfo{Trainer::trl, {1, 16}},     TrainerInfo{Trainer::transformers, {5, 23}},
    TrainerInfo{Trainer::swift, {4, 6}},    TrainerInfo{Trainer::llama_factory, {0, 9}},
    TrainerInfo{Trainer::axolotl, {0, 19}}, TrainerInfo{Trainer::torchtune, {0, 6}},
    TrainerInfo{Trainer::litgpt, {0, 5}},
};

const TrainerInfo& info(Trainer trainer) {
  return *std::find_if(kTrainers.begin(), kTrainers.end(),
                       [&](const TrainerInfo& each) { return each.trainer == trainer; });
}

std::string names_of_trainers() {
  std::string names;
  for (const auto& [trainer, name] : EnumNames<Trainer>::table)
    names += fmt::format("{}{}", names.empty() ? "" : ", ", name);
  return names;
}

/// "1.16", or "1.16.2".
std::optional<TrainerRelease> release_of(std::string_view text) {
  TrainerRelease release;
  const char *at = text.data(), *const end = at + text.size();
  for (int* part : {&release.major, &release.minor}) {
    const auto [next, error] = std::from_chars(at, end, *part);
    if (error != std::errc() || *part < 0) return std::nullopt;
    if (next == end) return part == &release.minor ? std::optional(release) : std::nullopt;
    if (*next != '.') return std::nullopt;
    at = next + 1;
  }
  int patch = 0;
  const auto [next, error] = std::from_chars(at, end, patch);
  return error == std::errc() && next == end ? std::optional(release) : std::nullopt;
}

bool holds(const TrainerDefault& row, const Training& training, std::int64_t gpus) {
  const bool full = training.method == Method::full;
  const FrameworkSpec& framework = spec(training.framework);
  const bool plain = framework.sharded_instead.has_value();  // every GPU holds everything
  switch (row.when) {
    case TrainerCase::always: return true;
    case TrainerCase::full: return full;
    case TrainerCase::adapters: return !full;
    case TrainerCase::packed: return training.method == Method::qlora;
    case TrainerCase::plain: return plain && full;
    case TrainerCase::plain_adapters: return plain && training.method == Method::lora;
    case TrainerCase::deepspeed_adapters: return framework.reads_ds_config && training.method == Method::lora;
    case TrainerCase::not_replicated: return !plain || gpus == 1;
    case TrainerCase::next_tokens: return training.objective == Objective::sft;
    case TrainerCase::log_probabilities:
      return training.objective == Objective::sft || training.objective == Objective::dpo ||
             training.objective == Objective::kto || training.objective == Objective::grpo;
  }
  return false;
}

bool has_release(const TrainerDefault& row, TrainerRelease release) {
  return row.since <= release && (row.before == TrainerRelease{} || release < row.before);
}

template <class T>
T named_value(std::string_view value) {
  return from_name<T>(value).value();
}

/// Values of the table are numbers where their options take such.
std::int64_t integer(std::string_view value) {
  std::int64_t number = 0;
  std::from_chars(value.data(), value.data() + value.size(), number);
  return number;
}
double fraction(std::string_view value) {
  double number = 0;
  std::from_chars(value.data(), value.data() + value.size(), number);
  return number;
}

std::vector<std::string> words(std::string_view list) {
  const std::vector<std::string_view> parts = split(list, ',');
  return {parts.begin(), parts.end()};
}

struct Setter {
  std::string_view option;
  void (*set)(TrainerTarget target, std::string_view value);
};
using To = TrainerTarget;
using Word = std::string_view;
/// What the options of the table set. A name without dashes has no option of the command line.
constexpr std::array kSetters{
    Setter{"--checkpointing", [](To t, Word v) { t.checkpointing = named_value<Checkpointing>(v); }},
    Setter{"--attention", [](To t, Word v) { t.training.attention = named_value<Attention>(v); }},
    Setter{"--fused-head", [](To t, Word v) { t.training.fused_head = v == "on"; }},
    Setter{"--loss-chunks", [](To t, Word v) { t.training.loss_chunks = integer(v); }},
    Setter{"loss in slices of tokens",
           [](To t, Word v) {
             const Elements tokens(t.samples * t.training.sequence_length);
             t.training.loss_chunks = share(tokens, integer(v)).value;
           }},
    Setter{"--sliced-head", [](To t, Word v) { t.training.sliced_head = v == "on"; }},
    Setter{"--loss-shift", [](To t, Word v) { t.training.loss_shift = named_value<LossShift>(v); }},
    Setter{"--no-master-weights", [](To t, Word v) { t.training.master_weights = v == "off"; }},
    Setter{"--no-autocast-adapters", [](To t, Word v) { t.training.fp32_adapters = v == "off"; }},
    Setter{"--lora-rank", [](To t, Word v) { t.training.lora_rank = integer(v); }},
    Setter{"--lora-targets", [](To t, Word v) { t.training.lora_targets.modules = words(v); }},
    Setter{"--lora-dropout", [](To t, Word v) { t.training.lora_dropout = fraction(v); }},
    Setter{"--modules", [](To t, Word v) { t.training.modules = named_value<ModuleLibrary>(v); }},
    Setter{"reentrant checkpointing", [](To t, Word v) { t.training.reentrant_checkpointing = v == "on"; }},
};

const Setter* setter_of(std::string_view option) {
  const auto* const found = std::find_if(kSetters.begin(), kSetters.end(),
                                         [&](const Setter& each) { return each.option == option; });
  return found == kSetters.end() ? nullptr : found;
}

}  // namespace

const std::vector<TrainerDefault>& trainer_defaults() {
  using enum Trainer;
  using enum TrainerCase;
  static const std::vector<TrainerDefault> rows{
      {trl, {0, 24}, {}, always, "--checkpointing", "full", "trainer/base_config.py gradient_checkpointing"},
      {trl, {}, {0, 24}, always, "--checkpointing", "none", "transformers training_args.py"},
      {trl, {}, {}, always, "--attention", "sdpa", "trainer/utils.py create_model_from_path: transformers'"},
      {trl, {1, 15}, {}, log_probabilities, "--fused-head", "on", "trainer/sft_trainer.py add_fused_lm_head"},
      {trl,
       {1, 8},
       {1, 15},
       next_tokens,
       "loss in checkpointed slices of 256 tokens (chunked_nll)",
       "",
       "trainer/sft_config.py loss_type"},
      {trl,
       {0, 24},
       {1, 8},
       next_tokens,
       "entropy and accuracy of the logits, smaller than the loss's backward",
       "",
       "trainer/sft_trainer.py compute_loss"},
      {trl,
       {0, 27},
       {},
       plain_adapters,
       "--no-master-weights",
       "off",
       "trainer/utils.py create_model_from_path: dtype float32"},
      {trl,
       {1, 8},
       {},
       deepspeed_adapters,
       "--no-autocast-adapters",
       "on",
       "trainer/sft_trainer.py autocast_adapter_dtype"},
      {trl,
       {0, 27},
       {},
       packed,
       "--no-autocast-adapters",
       "on",
       "trainer/sft_trainer.py, of quantized models"},

      {transformers, {}, {}, always, "--checkpointing", "none", "training_args.py gradient_checkpointing"},
      {transformers, {4, 36}, {}, always, "--attention", "sdpa", "modeling_utils.py attn_implementation"},
      {transformers, {}, {4, 36}, always, "--attention", "eager", "modeling_utils.py"},
      {transformers,
       {},
       {4, 46},
       next_tokens,
       "--loss-shift",
       "logits-alone",
       "models/*/modeling_*.py forward"},
      {transformers,
       {4, 46},
       {4, 49},
       next_tokens,
       "--loss-shift",
       "logits",
       "loss/loss_utils.py ForCausalLMLoss"},
      {transformers, {5, 0}, {}, plain, "--no-master-weights", "on", "modeling_utils.py dtype auto"},
      {transformers,
       {},
       {5, 0},
       always,
       "reentrant checkpointing",
       "on",
       "modeling_utils.py gradient_checkpointing_enable: use_reentrant"},

      {swift,
       {},
       {},
       always,
       "--checkpointing",
       "full",
       "swift/trainers/arguments.py gradient_checkpointing"},
      {swift,
       {4, 0},
       {},
       not_replicated,
       "reentrant checkpointing",
       "on",
       "swift/trainers/mixin.py _fix_gradient_checkpointing"},
      {swift, {}, {}, always, "--attention", "sdpa", "swift/arguments/base_args/model_args.py attn_impl"},
      {swift,
       {},
       {},
       plain,
       "--no-master-weights",
       "on",
       "swift/arguments/base_args/model_args.py torch_dtype of config.json"},
      {swift, {}, {}, adapters, "--lora-rank", "8", "swift/arguments/tuner_args.py lora_rank"},
      {swift, {}, {}, adapters, "--lora-targets", "all-linear", "swift/arguments/tuner_args.py"},
      {swift, {}, {}, adapters, "--lora-dropout", "0.05", "swift/arguments/tuner_args.py lora_dropout"},

      {llama_factory,
       {},
       {},
       always,
       "--checkpointing",
       "full",
       "hparams/model_args.py disable_gradient_checkpointing"},
      {llama_factory,
       {0, 9},
       {},
       always,
       "reentrant checkpointing",
       "on",
       "hparams/model_args.py use_reentrant_gc"},
      {llama_factory, {}, {}, always, "--attention", "sdpa", "hparams/model_args.py flash_attn auto"},
      {llama_factory, {}, {}, adapters, "--lora-rank", "8", "hparams/finetuning_args.py lora_rank"},
      {llama_factory,
       {},
       {},
       adapters,
       "--lora-targets",
       "all-linear",
       "hparams/finetuning_args.py lora_target"},
      {llama_factory, {}, {}, adapters, "--lora-dropout", "0", "hparams/finetuning_args.py lora_dropout"},

      {axolotl, {}, {}, always, "--checkpointing", "none", "utils/schemas/config.py gradient_checkpointing"},
      {axolotl, {}, {}, always, "--attention", "sdpa", "utils/schemas/config.py: transformers'"},
      {axolotl, {}, {}, plain, "--no-master-weights", "on", "loaders/model.py torch_dtype"},
      {axolotl, {}, {}, adapters, "--lora-dropout", "0", "utils/schemas/peft.py lora_dropout"},

      {torchtune,
       {},
       {},
       always,
       "--checkpointing",
       "full",
       "recipes/configs/llama3_1 enable_activation_checkpointing"},
      {torchtune, {}, {}, always, "--attention", "sdpa", "modules/attention_utils.py"},
      {torchtune,
       {0, 3},
       {},
       next_tokens,
       "--loss-chunks",
       "8",
       "modules/loss/ce_chunked_output_loss.py num_output_chunks"},
      {torchtune, {0, 4}, {}, next_tokens, "--sliced-head", "on", "modules/transformer.py chunked_output"},
      {torchtune, {}, {}, plain, "--no-master-weights", "on", "recipes/configs dtype: bf16"},
      {torchtune, {}, {}, adapters, "--no-autocast-adapters", "on", "recipes/configs dtype: bf16"},
      {torchtune, {}, {}, adapters, "--lora-rank", "8", "recipes/configs/llama3_1 lora_rank"},
      {torchtune, {}, {}, adapters, "--lora-dropout", "0", "recipes/configs/llama3_1 lora_dropout"},
      {torchtune,
       {},
       {},
       always,
       "layers of its own: planned as transformers'",
       "",
       "modules/transformer.py"},

      {litgpt, {}, {}, always, "--modules", "litgpt", "litgpt/model.py"},
      {litgpt,
       {},
       {},
       next_tokens,
       "loss in slices of tokens",
       "128",
       "litgpt/utils.py chunked_cross_entropy"},
      {litgpt, {}, {}, always, "--checkpointing", "none", "litgpt/finetune/lora.py"},
      {litgpt, {}, {}, always, "--attention", "sdpa", "litgpt/model.py scaled_dot_product_attention"},
      {litgpt, {}, {}, adapters, "--lora-dropout", "0.05", "litgpt/finetune/lora.py lora_dropout"},
      {litgpt, {}, {}, adapters, "--lora-rank", "8", "litgpt/finetune/lora.py lora_r"},
  };
  return rows;
}

std::string to_text(const TrainerChoice& choice) {
  return fmt::format("{} {}.{}", to_name(choice.trainer), choice.release.major, choice.release.minor);
}

TrainerChoice parse_trainer(std::string_view place, std::string_view text) {
  const std::size_t at = text.find('@');
  const std::string_view name = text.substr(0, at);
  const auto trainer = from_name<Trainer>(name);
  if (!trainer) {
    std::vector<std::string> names;
    for (const auto& [each, known] : EnumNames<Trainer>::table) names.emplace_back(known);
    throw InputError(std::string(place), in_quotes(name), accepted_words(name, names));
  }
  if (at == std::string_view::npos) return {*trainer, info(*trainer).newest};
  const auto release = release_of(text.substr(at + 1));
  if (!release)
    throw InputError(
        std::string(place), in_quotes(std::string(text)),
        fmt::format("accepted: one of {}, or with a release such as {}@{}.{}", names_of_trainers(), name,
                    info(*trainer).newest.major, info(*trainer).newest.minor));
  return {*trainer, *release};
}

std::vector<AppliedDefault> apply_trainers(const std::vector<TrainerChoice>& choices, TrainerTarget target,
                                           std::int64_t gpus,
                                           const std::function<bool(std::string_view)>& given) {
  std::vector<AppliedDefault> applied;
  const auto is_set = [&](std::string_view option) {
    return given(option) || std::any_of(applied.begin(), applied.end(),
                                        [&](const auto& each) { return each.option == option; });
  };
  for (const TrainerChoice& choice : choices) {
    for (const TrainerDefault& row : trainer_defaults()) {
      if (row.trainer != choice.trainer || !has_release(row, choice.release)) continue;
      if (!holds(row, target.training, gpus) || is_set(row.option)) continue;
      if (!row.value.empty()) setter_of(row.option)->set(target, row.value);
      applied.push_back({choice, row.option, row.value, row.source});
    }
  }
  return applied;
}

}  // namespace zplan
