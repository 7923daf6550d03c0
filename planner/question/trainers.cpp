#include "planner/question/trainers.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <utility>

#include "models/base/error.h"
#include "models/base/format.h"
#include "planner/question/framework.h"
#include "planner/question/megatron.h"

namespace zplan {

namespace {

const Trainer* find_trainer(std::string_view name) {
  const auto found = std::ranges::find(trainers(), name, &Trainer::name);
  return found == trainers().end() ? nullptr : &*found;
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
    case TrainerCase::answers: return compares_answers(training);
    case TrainerCase::distillation: return distils(training);
    case TrainerCase::completions: return training.objective == Objective::grpo;
    case TrainerCase::megatron: return training.modules.name == kMegatron.name;
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

/// Returns the number that a value of the table spells.
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

void set_megatron(TrainerTarget target, std::string_view list) {
  if (target.megatron == nullptr) return;
  *target.megatron = {};
  if (list == "none") return;
  for (const std::string_view word : split(list, ','))
    set_megatron_argument(*target.megatron, "--trainer", word);
}

struct Setter {
  std::string_view option;
  void (*set)(TrainerTarget target, std::string_view value);
};
using To = TrainerTarget;
using Word = std::string_view;
/// Sets what each option of the table names. A name without dashes has no option of the command line.
constexpr std::array kSetters{
    Setter{"--framework",
           [](To t, Word v) { t.training = with_framework(t.training, named_value<Framework>(v)); }},
    Setter{"--optimizer", [](To t, Word v) { t.training.optimizer = named_value<Optimizer>(v); }},
    Setter{"--quantization", [](To t, Word v) { t.training.quantization = named_value<Quantization>(v); }},
    Setter{"--expandable-segments", [](To t, Word v) { t.training.expandable_segments = v == "on"; }},
    Setter{"fp32 moments of embeddings", [](To t, Word v) { t.training.wide_embedding_moments = v == "on"; }},
    Setter{"--checkpointing", [](To t, Word v) { t.checkpointing = named_value<Checkpointing>(v); }},
    Setter{"--checkpoint-offload",
           [](To t, Word v) { t.checkpoint_offload = named_value<CheckpointOffload>(v); }},
    Setter{"--compile", [](To t, Word v) { t.training.compile = named_value<Compile>(v); }},
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
    Setter{"log-probabilities of answers",
           [](To t, Word v) { t.training.answer_loss = named_value<AnswerLoss>(v); }},
    Setter{"torch.autocast", [](To t, Word v) { t.training.autocast = v == "on"; }},
    Setter{"--no-master-weights", [](To t, Word v) { t.training.master_weights = v == "off"; }},
    Setter{"--no-autocast-adapters", [](To t, Word v) { t.training.fp32_adapters = v == "off"; }},
    Setter{"--lora-rank", [](To t, Word v) { t.training.lora_rank = integer(v); }},
    Setter{"--lora-targets", [](To t, Word v) { t.training.lora_targets.modules = words(v); }},
    Setter{"--lora-dropout", [](To t, Word v) { t.training.lora_dropout = fraction(v); }},
    Setter{"--modules", [](To t, Word v) { choose_modules(t.training.modules, "--modules", v); }},
    Setter{"policy scored before training",
           [](To t, Word v) {
             t.training.rollout.scoring =
                 v == "always" ? PolicyScoring::always : PolicyScoring::where_steps_part;
           }},
    Setter{"temperature divides logits in place",
           [](To t, Word v) { t.training.rollout.whole_logits.divides_in_place = v == "on"; }},
    Setter{"entropy of logits",
           [](To t, Word v) { t.training.rollout.whole_logits.omits_entropy = v == "off"; }},
    Setter{"reference's forward inside the loss",
           [](To t, Word v) { t.training.rollout.whole_logits.compares_inside = v == "on"; }},
    Setter{"divergence in slices of 512 tokens",
           [](To t, Word v) { t.training.distillation.in_slices = v == "on"; }},
    Setter{"teacher sharded by FSDP2",
           [](To t, Word v) { t.training.distillation.whole_teacher = v == "off"; }},
    Setter{"--megatron", set_megatron},
    Setter{"reentrant checkpointing", [](To t, Word v) { t.training.reentrant_checkpointing = v == "on"; }},
};

const Setter* setter_of(std::string_view option) {
  const auto* const found = std::find_if(kSetters.begin(), kSetters.end(),
                                         [&](const Setter& each) { return each.option == option; });
  return found == kSetters.end() ? nullptr : found;
}

}  // namespace

const std::vector<Trainer>& trainers() {
  using enum TrainerCase;
  static const std::vector<Trainer> rows{
      {.name = "trl",
       .newest = {1, 16},
       .defaults =
           {
               {always, "--checkpointing", "full", "trainer/base_config.py gradient_checkpointing", {0, 24}},
               {always, "--checkpointing", "none", "transformers training_args.py", {}, {0, 24}},
               {always, "--attention", "sdpa", "trainer/utils.py create_model_from_path: transformers'"},
               {log_probabilities, "--fused-head", "on", "trainer/sft_trainer.py add_fused_lm_head", {1, 15}},
               {completions,
                "policy scored before training",
                "between optimizer steps",
                "trainer/grpo_trainer.py _generate_and_score_completions",
                {},
                {0, 23}},
               {completions,
                "temperature divides logits in place",
                "on",
                "trainer/grpo_trainer.py logits.div_",
                {1, 0},
                {1, 10}},
               {completions,
                "log-probabilities and entropy in one kernel: planned as before",
                "",
                "trainer/utils.py selective_log_softmax_and_entropy",
                {1, 14},
                {1, 15}},
               {completions,
                "entropy of logits",
                "off",
                "trainer/grpo_trainer.py _compute_loss",
                {},
                {0, 20}},
               {completions,
                "reference's forward inside the loss",
                "on",
                "trainer/grpo_trainer.py _compute_loss",
                {0, 18},
                {0, 19}},
               {distillation, "teacher sharded by FSDP2", "off",
                "experimental/gkd/gkd_trainer.py prepare_model"},
               {next_tokens,
                "loss in checkpointed slices of 256 tokens (chunked_nll)",
                "",
                "trainer/sft_config.py loss_type",
                {1, 8},
                {1, 15}},
               {next_tokens,
                "entropy and accuracy of the logits, smaller than the loss's backward",
                "",
                "trainer/sft_trainer.py compute_loss",
                {0, 24},
                {1, 8}},
               {plain,
                "--no-master-weights",
                "off",
                "trainer/utils.py create_model_from_path: dtype float32",
                {0, 27}},
               {plain_adapters,
                "--no-master-weights",
                "off",
                "trainer/utils.py create_model_from_path: dtype float32",
                {0, 27}},
               {deepspeed_adapters,
                "--no-autocast-adapters",
                "on",
                "trainer/sft_trainer.py autocast_adapter_dtype",
                {1, 8}},
               {packed,
                "--no-autocast-adapters",
                "on",
                "trainer/sft_trainer.py, of quantized models",
                {0, 27}},
           }},
      {.name = "transformers",
       .newest = {5, 23},
       .defaults =
           {
               {always, "--checkpointing", "none", "training_args.py gradient_checkpointing"},
               {always, "--attention", "sdpa", "modeling_utils.py attn_implementation", {4, 36}},
               {always, "--attention", "eager", "modeling_utils.py", {}, {4, 36}},
               {next_tokens, "--loss-shift", "logits-alone", "models/*/modeling_*.py forward", {}, {4, 46}},
               {next_tokens,
                "--loss-shift",
                "logits",
                "loss/loss_utils.py ForCausalLMLoss",
                {4, 46},
                {4, 49}},
               {plain, "--no-master-weights", "on", "modeling_utils.py dtype auto", {5, 0}},
               {always,
                "reentrant checkpointing",
                "on",
                "modeling_utils.py gradient_checkpointing_enable: use_reentrant",
                {},
                {5, 0}},
           }},
      {.name = "swift",
       .newest = {4, 6},
       .defaults =
           {
               {megatron, "--checkpointing", "selective",
                "swift/megatron/arguments/megatron_args.py recompute_granularity"},
               {megatron, "--attention", "flash",
                "swift/megatron/arguments/megatron_args.py attention_backend"},
               // gradient_accumulation_fusion is switched off where Apex is not installed.
               {megatron, "--megatron",
                "attention-backend=flash,cross-entropy-loss-fusion,no-gradient-accumulation-fusion,"
                "no-create-attention-mask-in-dataloader,no-rope-fusion,calculate-per-token-loss,"
                "variable-seq-lengths,moe-token-dispatcher-type=alltoall,moe-grouped-gemm,"
                "moe-router-dtype=fp32",
                "swift/megatron/arguments/megatron_args.py; mcore-bridge 1.6.5 config/model_config.py"},
               {always, "--checkpointing", "full", "swift/trainers/arguments.py gradient_checkpointing"},
               {not_replicated,
                "reentrant checkpointing",
                "on",
                "swift/trainers/mixin.py _fix_gradient_checkpointing",
                {4, 0}},
               {always, "--attention", "sdpa", "swift/arguments/base_args/model_args.py attn_impl"},
               {plain, "--no-master-weights", "on",
                "swift/arguments/base_args/model_args.py torch_dtype of config.json"},
               {completions, "policy scored before training", "always",
                "swift/rlhf_trainers/grpo_trainer.py _prepare_batch_inputs"},
               {completions,
                "temperature divides logits in place",
                "on",
                "swift/rlhf_trainers/grpo_trainer.py _get_logps_via_local_forward",
                {4, 0}},
               {completions, "entropy of logits", "off", "swift/rlhf_trainers/grpo_trainer.py log_entropy"},
               {distillation, "divergence in slices of 512 tokens", "on",
                "swift/rlhf_trainers/gkd_loss.py jsd_loss"},
               {adapters, "--lora-rank", "8", "swift/arguments/tuner_args.py lora_rank"},
               {adapters, "--lora-targets", "all-linear", "swift/arguments/tuner_args.py"},
               {adapters, "--lora-dropout", "0.05", "swift/arguments/tuner_args.py lora_dropout"},
           }},
      {.name = "llama-factory",
       .newest = {0, 9},
       .defaults =
           {
               {always, "--checkpointing", "full", "hparams/model_args.py disable_gradient_checkpointing"},
               {always, "reentrant checkpointing", "on", "hparams/model_args.py use_reentrant_gc", {0, 9}},
               {always, "--attention", "sdpa", "hparams/model_args.py flash_attn auto"},
               {answers, "log-probabilities of answers", "whole-fp32",
                "train/trainer_utils.py get_batch_logps"},
               {adapters, "--lora-rank", "8", "hparams/finetuning_args.py lora_rank"},
               {adapters, "--lora-targets", "all-linear", "hparams/finetuning_args.py lora_target"},
               {adapters, "--lora-dropout", "0", "hparams/finetuning_args.py lora_dropout"},
           }},
      {.name = "axolotl",
       .newest = {0, 19},
       .defaults =
           {
               {always, "--checkpointing", "none", "utils/schemas/config.py gradient_checkpointing"},
               {always, "--attention", "sdpa", "utils/schemas/config.py: transformers'"},
               {plain, "--no-master-weights", "on", "loaders/model.py torch_dtype"},
               {adapters, "--lora-dropout", "0", "utils/schemas/peft.py lora_dropout"},
           }},
      {.name = "torchtune",
       .newest = {0, 7},
       .defaults =
           {
               {always, "--checkpointing", "full",
                "recipes/configs/llama3_1 enable_activation_checkpointing"},
               {always, "--attention", "sdpa", "modules/attention_utils.py"},
               {next_tokens,
                "--loss-chunks",
                "8",
                "modules/loss/ce_chunked_output_loss.py num_output_chunks",
                {0, 3}},
               {next_tokens, "--sliced-head", "on", "modules/transformer.py chunked_output", {0, 4}},
               {answers, "log-probabilities of answers", "whole",
                "rlhf/sequence_processing.py get_batch_log_probs"},
               {always, "torch.autocast", "off", "recipes/full_finetune_single_device.py dtype"},
               {full, "--no-master-weights", "on", "recipes/full_finetune_distributed.py dtype"},
               {adapters, "--no-autocast-adapters", "on", "recipes/configs dtype: bf16"},
               {adapters, "--lora-rank", "8", "recipes/configs/llama3_1 lora_rank"},
               {adapters, "--lora-dropout", "0", "recipes/configs/llama3_1 lora_dropout"},
               {always, "fp32 moments of embeddings", "off",
                "recipes/full_finetune_single_device.py _setup_optimizer"},
               {always, "layers of its own: planned as transformers'", "", "modules/transformer.py"},
           }},
      {.name = "litgpt",
       .newest = {0, 5},
       .modules = "litgpt",
       .modules_source = "litgpt/model.py",
       .defaults =
           {
               {next_tokens, "loss in slices of tokens", "128", "litgpt/utils.py chunked_cross_entropy"},
               {always, "--checkpointing", "none", "litgpt/finetune/lora.py"},
               {always, "--attention", "sdpa", "litgpt/model.py scaled_dot_product_attention"},
               {always, "fp32 moments of embeddings", "off", "litgpt/utils.py instantiate_torch_optimizer"},
               {adapters, "--lora-dropout", "0.05", "litgpt/finetune/lora.py lora_dropout"},
               {adapters, "--lora-rank", "8", "litgpt/finetune/lora.py lora_r"},
           }},
      {.name = "unsloth",
       .newest = {2026, 10},
       .modules = "unsloth",
       .modules_source = "unsloth/models/llama.py",
       .beside = "trl",
       .defaults =
           {
               {always, "--framework", "torch", "unsloth/models/loader.py: one GPU, or DDP"},
               {always, "--checkpointing", "full", "unsloth/models/llama.py get_peft_model"},
               {always, "--checkpoint-offload", "unsloth",
                "unsloth/models/llama.py use_gradient_checkpointing=\"unsloth\""},
               {always, "--attention", "sdpa", "unsloth/utils/attention_dispatch.py, without flash-attn"},
               {adapters, "torch.autocast", "on", "SFTConfig bf16"},
               {full, "torch.autocast", "off", "unsloth/models/rl.py, of a model loaded in 16 bits"},
               {full, "--no-master-weights", "on", "unsloth/models/loader.py full_finetuning"},
               {full, "--compile", "layer", "unsloth/models/_block_compile.py"},
               {always, "reentrant checkpointing", "on", "unsloth_zoo/gradient_checkpointing.py"},
               {adapters, "--lora-rank", "16", "unsloth/models/llama.py get_peft_model r"},
               {adapters, "--lora-targets", "q_proj,k_proj,v_proj,o_proj,gate_proj,up_proj,down_proj",
                "unsloth/models/llama.py get_peft_model target_modules"},
               {packed, "--quantization", "nf4-double", "unsloth/models/llama.py bnb_4bit_use_double_quant"},
               {always, "--optimizer", "adamw8bit", "unsloth/models/rl.py optim"},
               {always, "--expandable-segments", "on", "unsloth/__init__.py PYTORCH_CUDA_ALLOC_CONF"},
           }},
      {.name = "megatron-lm",
       .newest = {0, 19},
       .defaults =
           {
               {megatron, "--checkpointing", "none", "megatron/training/arguments.py recompute_granularity"},
               {megatron, "--megatron", "none", "megatron/training/arguments.py"},
           }},
  };
  return rows;
}

std::string to_text(const TrainerChoice& choice) {
  return fmt::format("{} {}.{}", choice.trainer, choice.release.major, choice.release.minor);
}

std::vector<std::string> trainer_names() {
  std::vector<std::string> names;
  for (const Trainer& each : trainers()) names.emplace_back(each.name);
  return names;
}

TrainerChoice parse_trainer(std::string_view place, std::string_view text) {
  const std::size_t at = text.find('@');
  const std::string_view name = text.substr(0, at);
  const Trainer* trainer = find_trainer(name);
  if (trainer == nullptr)
    throw InputError(std::string(place), in_quotes(name), accepted_words(name, trainer_names()));
  const TrainerRelease newest = trainer->newest;
  if (at == std::string_view::npos) return {trainer->name, newest};
  const auto release = release_of(text.substr(at + 1));
  if (!release)
    throw InputError(std::string(place), in_quotes(std::string(text)),
                     fmt::format("accepted: one of {}, or with a release such as {}@{}.{}",
                                 fmt::join(trainer_names(), ", "), name, newest.major, newest.minor));
  return {trainer->name, *release};
}

std::vector<AppliedDefault> apply_trainers(const std::vector<TrainerChoice>& choices, TrainerTarget target,
                                           std::int64_t gpus,
                                           const std::function<bool(std::string_view)>& given) {
  std::vector<AppliedDefault> applied;
  const auto is_set = [&](std::string_view option) {
    return given(option) || std::any_of(applied.begin(), applied.end(),
                                        [&](const auto& each) { return each.option == option; });
  };
  const auto apply = [&](const TrainerChoice& choice, std::string_view option, std::string_view value,
                         std::string_view source) {
    if (is_set(option)) return;
    if (!value.empty()) setter_of(option)->set(target, value);
    applied.push_back({choice, option, value, source});
  };
  for (const TrainerChoice& choice : choices) {
    const Trainer& trainer = *find_trainer(choice.trainer);
    if (!trainer.modules.empty()) apply(choice, "--modules", trainer.modules, trainer.modules_source);
    for (const TrainerDefault& row : trainer.defaults)
      if (has_release(row, choice.release) && holds(row, target.training, gpus))
        apply(choice, row.option, row.value, row.source);
  }
  return applied;
}

}  // namespace zplan
