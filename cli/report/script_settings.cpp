#include "cli/report/script_settings.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>

#include "cli/recipes/formats/megatron.h"
#include "cli/recipes/trainer_keys.h"
#include "cli/report/report.h"
#include "models/base/shell.h"
#include "planner/frameworks/megatron/arguments.h"
#include "planner/frameworks/torchtitan/settings.h"
#include "planner/question/framework.h"
#include "planner/question/rollout.h"
#include "planner/sharding/plan_split.h"

namespace zplan {

namespace {

constexpr std::string_view kSelective = "selective checkpointing by a context_fn of torch.utils.checkpoint";
constexpr std::string_view kFusedLoss = "a fused or chunked cross-entropy, which never holds all logits";

bool loads_packed(const Training& t) { return t.method == Method::qlora && is_bitsandbytes(t.quantization); }

/// Adds settings in the order in which a reader goes through a script.
class ScriptWriter {
 public:
  explicit ScriptWriter(std::vector<ScriptSetting>& all) : all_(all) {}

  /// Adds `key=value`, as Python and shells write it.
  void add(ScriptPlace place, std::string_view key, std::string value) {
    std::string text = fmt::format("{}={}", key, value);
    all_.push_back({place, std::string(key), std::move(value), std::move(text)});
  }
  void add_text(ScriptPlace place, std::string_view key, const std::string& value) {
    add(place, key, fmt::format("\"{}\"", value));
  }
  void add_flag(ScriptPlace place, std::string_view key, bool value) {
    add(place, key, value ? "True" : "False");
  }
  /// Adds `key: value`, as YAML writes it.
  void add_key(ScriptPlace place, std::string_view key, std::string_view value) {
    all_.push_back({place, std::string(key), std::string(value), fmt::format("{}: {}", key, value)});
  }
  void add_code(std::string_view what) {
    all_.push_back({ScriptPlace::code, "", std::string(what), std::string(what)});
  }

  void add_environment(const Training& t) {
    if (t.expandable_segments)
      add(ScriptPlace::environment, "PYTORCH_CUDA_ALLOC_CONF", "expandable_segments:True");
  }

 private:
  std::vector<ScriptSetting>& all_;
};

/// Adds what no argument of a trainer says of the loss.
void add_loss_in_code(ScriptWriter& script, const Training& t, bool liger_says_it) {
  if (t.fused_loss && !liger_says_it) script.add_code(kFusedLoss);
  if (t.fused_head) script.add_code("TRL's loss without logits, of SFTTrainer since 1.16");
  if (t.cut_loss) script.add_code("cce_patch(model) of cut_cross_entropy.transformers");
  if (t.compile == Compile::layer) script.add_code("layer.compile() of each decoder layer");
  if (t.float8 == Float8::tensorwise_gather)
    script.add_code(
        "convert_to_float8_training(model, config=Float8LinearConfig("
        "enable_fsdp_float8_all_gather=True)) without lm_head");
  else if (t.float8 != Float8::none)
    script.add_code(
        fmt::format("convert_to_float8_training(model, config=Float8LinearConfig."
                    "from_recipe_name(\"{}\")) without lm_head",
                    to_name(t.float8)));
  if (t.loss_chunks > 1)
    script.add_code(fmt::format("the cross-entropy in {} slices of the tokens{}", t.loss_chunks,
                                t.sliced_head ? ", the head too" : ""));
}

// ---- a script around the Hugging Face Trainer. Sources: transformers 5.23 training_args.py,
// modeling_utils.py, utils/quantization_config.py; peft 0.21 tuners/lora/config.py.

void add_batch(ScriptWriter& script, const Strategy& s) {
  using enum ScriptPlace;
  script.add(trainer, "per_device_train_batch_size", fmt::format("{}", s.micro_batch_size));
  script.add(trainer, "gradient_accumulation_steps", fmt::format("{}", s.gradient_accumulation_steps));
}

/// Adds the lengths of samples, and what generates them. Sources: TRL 1.16 trainer/grpo_config.py,
/// TRL 1.8 experimental/ppo/ppo_config.py.
void add_lengths(ScriptWriter& script, const Training& t) {
  using enum ScriptPlace;
  if (t.objective != Objective::grpo && t.objective != Objective::ppo)
    return script.add(data, "max_length", fmt::format("{}", t.sequence_length));
  script.add_code(fmt::format("prompts of at most {} tokens", prompt_tokens(t)));
  const Rollout& rollout = t.rollout;
  const std::string completion = fmt::format("{}", completion_tokens(t));
  if (t.objective == Objective::ppo) return script.add(data, "response_length", completion);
  script.add(data, "max_completion_length", completion);
  script.add(data, "num_generations", fmt::format("{}", rollout.generations));
  if (rollout.engine == RolloutEngine::trainer) return;
  script.add_flag(data, "use_vllm", true);
  script.add_text(data, "vllm_mode", std::string(to_name(rollout.engine)));
  if (rollout.engine != RolloutEngine::colocate) return;
  script.add(data, "vllm_gpu_memory_utilization", fmt::format("{}", rollout.engine_share));
  if (rollout.sleep_level > 0) script.add_flag(data, "vllm_enable_sleep_mode", true);
}

/// The class of TRL that holds the settings of an objective.
std::string_view config_class(Objective objective) {
  switch (objective) {
    case Objective::sft: break;
    case Objective::dpo: return "DPOConfig";
    case Objective::orpo: return "ORPOConfig";
    case Objective::simpo: return "CPOConfig";
    case Objective::kto: return "KTOConfig";
    case Objective::reward: return "RewardConfig";
    case Objective::grpo: return "GRPOConfig";
    case Objective::ppo: return "PPOConfig";
    case Objective::gkd: return "GKDConfig";
  }
  return "tokenizer or SFTConfig";
}

void add_checkpointing(ScriptWriter& script, const Plan& plan, const Training& t) {
  using enum ScriptPlace;
  const Checkpointing kind = plan.strategy.checkpointing;
  // accelerate's config checkpoints FSDP2's units, and refuses both at once; of a model that transformers
  // sharded it has none.
  const bool by_config = spec(plan.framework).reads_accelerate_config && kind == Checkpointing::full &&
                         !follows_plan(t, plan.strategy);
  script.add_flag(trainer, "gradient_checkpointing", kind == Checkpointing::full && !by_config);
  if (by_config) script.add_key(config, "fsdp_activation_checkpointing", "true");
  if (kind == Checkpointing::full && t.reentrant_checkpointing)
    script.add(trainer, "gradient_checkpointing_kwargs", R"({"use_reentrant": True})");
  if (kind == Checkpointing::selective) script.add_code(kSelective);
  switch (plan.strategy.long_context.checkpoint_offload) {
    case CheckpointOffload::shared: return script.add_flag(trainer, "activation_offloading", true);
    case CheckpointOffload::each:
      return script.add_code("torchtune.training.OffloadActivations() around the forward");
    default: return;
  }
}

void add_liger(ScriptWriter& script, const Training& t) {
  using enum ScriptPlace;
  const bool kernels = t.modules.kernels == kLiger.kernels;
  if (kernels) script.add_flag(trainer, "use_liger_kernel", true);
  if (kernels && !t.fused_loss)
    script.add(trainer, "liger_kernel_config", R"({"fused_linear_cross_entropy": False})");
  if (t.compile == Compile::model) script.add_flag(trainer, "torch_compile", true);
  add_loss_in_code(script, t, kernels);
}

std::string torch_type(Precision precision) {
  return precision == Precision::bf16   ? "torch.bfloat16"
         : precision == Precision::fp16 ? "torch.float16"
                                        : "torch.float32";
}

std::string torch_type(QuantStorage storage) {
  return storage == QuantStorage::bf16   ? "torch.bfloat16"
         : storage == QuantStorage::fp16 ? "torch.float16"
                                         : "torch.float32";
}

std::string attention_name(Attention attention) {
  return attention == Attention::flash ? "flash_attention_2" : std::string(to_name(attention));
}

void add_adapters(ScriptWriter& script, const Training& t) {
  using enum ScriptPlace;
  if (t.method == Method::full) return;
  script.add(adapters, "r", fmt::format("{}", t.lora_rank));
  if (t.dora) script.add_flag(adapters, "use_dora", true);
  if (!loads_packed(t)) return;
  const QuantizationSpec& about = spec(t.quantization);
  script.add_flag(packing, about.bits == 8 ? "load_in_8bit" : "load_in_4bit", true);
  if (!is_nf4(t.quantization)) return;
  script.add_text(packing, "bnb_4bit_quant_type", "nf4");
  if (about.nested) script.add_flag(packing, "bnb_4bit_use_double_quant", true);
  if (shards_packed(t)) script.add(packing, "bnb_4bit_quant_storage", torch_type(t.quant_storage));
}

std::vector<ScriptSetting> of_script(const Plan& plan, const Question& q) {
  using enum ScriptPlace;
  std::vector<ScriptSetting> all;
  ScriptWriter script(all);
  const Training& t = q.training;
  script.add_environment(t);
  add_liger(script, t);
  add_checkpointing(script, plan, t);
  add_batch(script, plan.strategy);
  add_lengths(script, t);
  if (t.precision != Precision::fp32) script.add_flag(trainer, to_name(t.precision), true);
  const std::string_view optimizer = spec(t.optimizer).trainer_name;
  if (!optimizer.empty()) script.add_text(trainer, "optim", std::string(optimizer));
  script.add_text(model_loader, "attn_implementation", attention_name(t.attention));
  if (t.beside.load_dtype) script.add(model_loader, "dtype", torch_type(*t.beside.load_dtype));
  add_adapters(script, t);
  return all;
}

/// Returns the calls of a script with Unsloth. Source: unsloth 2026.10.9 models/llama.py, models/rl.py.
std::vector<ScriptSetting> of_unsloth(const Plan& plan, const Question& q) {
  std::vector<ScriptSetting> all;
  ScriptWriter script(all);
  const Training& t = q.training;
  const Strategy& s = plan.strategy;
  const bool checkpoints = s.checkpointing == Checkpointing::full;
  const bool on_host = checkpoints && checkpoint_offload(t, s) == CheckpointOffload::buffered;
  const std::string_view checkpointing = on_host ? "\"unsloth\"" : checkpoints ? "True" : "False";
  const bool trains_whole = t.method == Method::full;
  if (trains_whole) {
    script.add_code(
        fmt::format("FastLanguageModel.from_pretrained(full_finetuning=True, max_seq_length={}, "
                    "use_gradient_checkpointing={})",
                    t.sequence_length, checkpointing));
  } else {
    script.add_code(fmt::format("FastLanguageModel.from_pretrained(load_in_4bit={}, max_seq_length={})",
                                t.method == Method::qlora ? "True" : "False", t.sequence_length));
    script.add_code(fmt::format("FastLanguageModel.get_peft_model(r={}, use_gradient_checkpointing={})",
                                t.lora_rank, checkpointing));
  }
  script.add_code(fmt::format(
      "SFTConfig(per_device_train_batch_size={}, gradient_accumulation_steps={}, "
      "optim=\"{}\", max_length={}{})",
      s.micro_batch_size, s.gradient_accumulation_steps, spec(t.optimizer).trainer_name, t.sequence_length,
      t.compile == Compile::layer && !trains_whole ? ", padding_free=False" : ""));
  return all;
}

// ---- a trainer's config

/// Adds keys of a recipe in its own spelling.
class RecipeWords {
 public:
  RecipeWords(std::vector<ScriptSetting>& all, const Recipe& recipe) : all_(all) {
    const std::string ending = std::filesystem::path(recipe.file).extension().string();
    is_config_ = ending == ".yaml" || ending == ".yml" || ending == ".json";
  }

  void add(std::string_view key, const std::string& value) {
    if (key.empty()) return;
    all_.push_back({ScriptPlace::trainer, std::string(key), value,
                    is_config_ ? fmt::format("{}: {}", key, value) : fmt::format("--{} {}", key, value)});
  }
  void add(const std::vector<RecipeChange>& changes) {
    for (const RecipeChange& each : changes)
      if (each.value) add(each.key, *each.value);
  }

 private:
  std::vector<ScriptSetting>& all_;
  bool is_config_{};
};

std::vector<ScriptSetting> of_recipe(const Plan& plan, const Question& q, const Recipe& recipe) {
  std::vector<ScriptSetting> all;
  ScriptWriter script(all);
  RecipeWords words(all, recipe);
  const TrainerKeys& keys = trainer_keys(recipe.format);
  const Training& t = q.training;
  const Strategy& s = plan.strategy;
  script.add_environment(t);
  words.add(keys.micro_batch, fmt::format("{}", s.micro_batch_size));
  words.add(keys.accumulation, fmt::format("{}", s.gradient_accumulation_steps));
  words.add(keys.sequence, fmt::format("{}", t.sequence_length));
  words.add(changes_for(keys.precisions, t.precision));
  words.add(changes_for(keys.attentions, t.attention));
  words.add(keys.optimizer, std::string(spec(t.optimizer).trainer_name));
  const bool is_full = s.checkpointing == Checkpointing::full;
  words.add(keys.checkpointing, std::string(is_full ? keys.checkpointed : keys.unchecked));
  if (s.checkpointing == Checkpointing::selective) script.add_code(kSelective);
  const bool by_liger = t.fused_loss && t.modules.kernels == kLiger.kernels && !keys.fused_loss.empty();
  if (by_liger) words.add(keys.fused_loss);
  add_loss_in_code(script, t, by_liger);
  if (loads_packed(t) && shards_packed(t))
    words.add(keys.quant_storage, torch_type(t.quant_storage).substr(std::string_view("torch.").size()));
  if (t.method == Method::lora) words.add(keys.lora);
  if (t.method == Method::qlora) words.add(keys.qlora);
  return all;
}

/// Returns the arguments in the keys of a trainer that spells them its own way. An argument that a plan lacks
/// has a value there, too.
std::vector<ScriptSetting> of_megatron(const Plan& plan, const Question& question, const Recipe& recipe) {
  std::vector<ScriptSetting> all;
  RecipeWords words(all, recipe);
  const auto arguments = megatron::arguments_of(plan, question);
  for (const auto& [name, value] : arguments)
    if (const auto said = megatron_setting(name, value, recipe.format)) words.add(said->first, said->second);
  for (const ArgumentKey& each : trainer_keys(recipe.format).arguments)
    if (!each.absent.empty() &&
        std::ranges::find(arguments, each.argument, &megatron::Argument::first) == arguments.end())
      words.add(each.key, std::string(each.absent));
  return all;
}

/// Returns the arguments of Megatron's own script, which say all that a plan assumes.
std::vector<ScriptSetting> of_megatron(const Plan& plan, const Question& question) {
  std::vector<ScriptSetting> all;
  for (const megatron::Argument& each : megatron::arguments_of(plan, question))
    all.push_back({ScriptPlace::code, each.first, each.second, megatron::shell_text(each)});
  return all;
}

/// Returns torchtitan's settings: in the keys of a recipe of its own, else of its command line.
std::vector<ScriptSetting> of_torchtitan(const Plan& plan, const Question& question, const Recipe* recipe) {
  std::vector<ScriptSetting> all;
  if (recipe != nullptr && recipe->format == RecipeFormat::torchtitan) {
    RecipeWords words(all, *recipe);
    const auto settings = titan::settings_of(plan, question);
    for (const ArgumentKey& each : trainer_keys(recipe->format).arguments)
      if (const auto said = std::ranges::find(settings, each.argument, &titan::Setting::first);
          said != settings.end())
        words.add(each.key, said->second);
    words.add("activation_checkpoint.mode", std::string(to_name(plan.strategy.checkpointing)));
    return all;
  }
  for (const auto& [name, value] : titan::settings_of(plan, question))
    all.push_back({ScriptPlace::code, name, value, value.empty() ? name : name + " " + shell_quote(value)});
  return all;
}

}  // namespace

std::vector<ScriptSetting> script_settings(const Plan& plan, const Question& question, const Recipe* recipe) {
  if (plan.strategy.torchtitan) return of_torchtitan(plan, question, recipe);
  if (spec(plan.framework).has_stages)
    return recipe != nullptr && recipe->format == RecipeFormat::swift_megatron
               ? of_megatron(plan, question, *recipe)
               : of_megatron(plan, question);
  const bool has_keys = recipe != nullptr && recipe->format != RecipeFormat::accelerate;
  if (has_keys) return of_recipe(plan, question, *recipe);
  const bool runs_unsloth = question.training.modules.name == kUnsloth.name;
  return runs_unsloth ? of_unsloth(plan, question) : of_script(plan, question);
}

std::vector<ScriptSetting> script_of(const Plan& plan, const Report& report) {
  const std::vector<Recipe>& recipes = report.options.recipes;
  return script_settings(plan, question_of(plan, report), recipes.empty() ? nullptr : &recipes.front());
}

std::vector<std::string> script_calls(const std::vector<ScriptSetting>& settings, Objective objective) {
  const std::array<std::pair<ScriptPlace, std::string_view>, 5> calls_of_places{
      {{ScriptPlace::trainer, "TrainingArguments"},
       {ScriptPlace::data, config_class(objective)},
       {ScriptPlace::model_loader, "from_pretrained"},
       {ScriptPlace::adapters, "LoraConfig"},
       {ScriptPlace::packing, "BitsAndBytesConfig"}}};
  const auto texts = [&](ScriptPlace place) {
    std::vector<std::string> all;
    for (const ScriptSetting& each : settings)
      if (each.place == place) all.push_back(each.text);
    return all;
  };
  std::vector<std::string> calls = texts(ScriptPlace::environment);
  for (std::string& each : texts(ScriptPlace::code)) calls.push_back(std::move(each));
  for (const auto& [place, call] : calls_of_places)
    if (const std::vector<std::string> all = texts(place); !all.empty())
      calls.push_back(fmt::format("{}({})", call, fmt::join(all, ", ")));
  return calls;
}

std::vector<std::string> changed_settings(const std::vector<ScriptSetting>& now,
                                          const std::vector<ScriptSetting>& wanted) {
  std::vector<std::string> changed;
  for (const ScriptSetting& each : wanted)
    if (std::ranges::find(now, each) == now.end()) changed.push_back(each.text);
  return changed;
}

}  // namespace zplan
