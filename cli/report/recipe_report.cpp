// Recipes: the keys that were read, and --recipe-out, which writes a plan into the keys of a recipe.

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <sstream>

#include "cli/document/json_values.h"
#include "cli/options/command_line.h"
#include "cli/recipes/recipe_text.h"
#include "cli/recipes/trainer_keys.h"
#include "cli/report/report.h"
#include "cli/report/report_text.h"
#include "models/base/files.h"
#include "models/base/json_reader.h"
#include "models/base/shell.h"
#include "planner/frameworks/deepspeed/config/ds_config.h"
#include "planner/frameworks/launch/accelerate_config.h"
#include "planner/frameworks/megatron/arguments.h"
#include "planner/frameworks/torchtitan/settings.h"
#include "planner/plan/plan.h"
#include "planner/question/framework.h"
#include "planner/search/levers.h"
#include "planner/search/search.h"

namespace zplan {

namespace {

std::string lines_of(const std::vector<RecipeKey>& keys) {
  std::vector<std::string> named;
  for (const RecipeKey& each : keys) named.push_back(fmt::format("{} (line {})", each.key, each.line));
  return fmt::format("{}", fmt::join(named, ", "));
}

/// Returns a line for the keys that set options, and lines for the others.
std::vector<std::string> lines_of(const Recipe& recipe) {
  std::vector<std::string> used, defaults, unused, lines;
  for (const RecipeSetting& each : recipe.settings) {
    if (!each.unused.empty())
      unused.push_back(fmt::format("{} ({})", each.key, each.unused));
    else if (each.line == 0)
      defaults.push_back(options_text(each.options));
    else if (!each.options.empty())
      used.push_back(fmt::format("{}: {} -> {}", each.key, each.value, options_text(each.options)));
  }
  lines.push_back(
      fmt::format("{}, of {}: {}", recipe.file, to_name(recipe.format),
                  used.empty() ? "no key is an option" : fmt::format("{}", fmt::join(used, "; "))));
  if (!defaults.empty()) lines.push_back(fmt::format("not in it: {}", fmt::join(defaults, ", ")));
  if (!unused.empty()) lines.push_back(fmt::format("not used: {}", fmt::join(unused, ", ")));
  for (const RecipeKey& each : recipe.not_planned)
    lines.push_back(fmt::format("not planned: {} (line {}): {}", each.key, each.line, each.why));
  if (!recipe.irrelevant.empty())
    lines.push_back(fmt::format("nothing to memory or time: {}", fmt::join(recipe.irrelevant, ", ")));
  if (!recipe.unknown.empty())
    lines.push_back(
        fmt::format("unknown keys, to {} as to zplan: {}", to_name(recipe.format), lines_of(recipe.unknown)));
  return lines;
}

/// Returns the options of the cluster that no recipe sets.
std::string still_open(const Options& options) {
  if (options.has("--instance")) return {};
  std::vector<std::string_view> open;
  if (!options.has("--gpus")) open.emplace_back("--gpus");
  if (!options.has("--gpu") && !options.has("--mem")) open.emplace_back("--gpu or --mem");
  return open.empty() ? "" : fmt::format("it does not say the cluster: {}", fmt::join(open, ", "));
}

}  // namespace

std::vector<std::string> recipe_lines(const Options& options) {
  std::vector<std::string> lines;
  for (const Recipe& each : options.recipes)
    for (std::string& line : lines_of(each)) lines.push_back(std::move(line));
  if (!lines.empty())
    if (std::string open = still_open(options); !open.empty()) lines.push_back(std::move(open));
  return lines;
}

namespace {

Json options_json(const RecipeOptions& options) {
  Json out = Json::object();
  for (const auto& [option, value] : options) out[option] = value == kFlagGiven ? Json(true) : Json(value);
  return out;
}

Json setting_json(const RecipeSetting& setting) {
  return {{"key", setting.key},
          {"line", setting.line == 0 ? Json(nullptr) : Json(setting.line)},
          {"value", setting.line == 0 ? Json(nullptr) : Json(setting.value)},
          {"options", options_json(setting.options)},
          {"unused", or_null(setting.unused)}};
}

Json key_json(const RecipeKey& key) {
  return {{"key", key.key}, {"line", key.line}, {"why", or_null(key.why)}};
}

Json recipe_json(const Recipe& recipe) {
  return {{"file", recipe.file},
          {"format", name_json(recipe.format)},
          {"settings", json_list(recipe.settings, setting_json)},
          {"not_planned", json_list(recipe.not_planned, key_json)},
          {"irrelevant", recipe.irrelevant},
          {"unknown", json_list(recipe.unknown, key_json)}};
}

}  // namespace

Json recipes_json(const std::vector<Recipe>& recipes) { return json_list(recipes, recipe_json); }

namespace {

/// The plan to write, and the question that it answers.
struct Target {
  const Plan* plan{};
  Question question;
  bool shards_otherwise{};  ///< than the recipe says
  std::string change;       ///< options beside the strategy's that make it fit
};

/// True if the plan has the framework, stage and offload that the question pins.
bool shards_as_asked(const Plan& plan, const Question& asked) {
  const Strategy& s = plan.strategy;
  const Offload offload{s.offload_optimizer, s.offload_parameters};
  return plan.framework == asked.training.framework &&
         (asked.space.zero_stages.empty() || asked.space.zero_stages == std::vector{s.zero_stage}) &&
         (asked.space.offloads.empty() || asked.space.offloads == std::vector{offload});
}

/// Returns what is advised where nothing fits as the recipe says.
Target target_of(const Advised& advised, const Report& report) {
  Target target{&advised.plan(), advised.question, !shards_as_asked(advised.plan(), report.question), {}};
  for (const LeverGain& each : advised.gains)
    target.change += fmt::format("{}{}", target.change.empty() ? "" : " ", each.lever->option);
  return target;
}

std::optional<Target> target_of(const Report& report) {
  const Options& options = report.options;
  if (const Plan* plan = report.answer.recommended()) {
    const bool typed = std::ranges::any_of(
        std::array{"--framework", "--zero", "--offload", "--ds-config", "--tp"},
        [&](std::string_view option) {
          return !options.ds_config_text && options.has(option) && given_value(report.arguments, option);
        });
    return Target{plan, question_of(*plan, report), typed || report.found != nullptr, {}};
  }
  if (report.advice != nullptr && report.advice->best) return target_of(*report.advice->best, report);
  if (!report.answer.alternative) return std::nullopt;
  Target target{&*report.answer.alternative, report.question, true, report.answer.alternative_change};
  target.shards_otherwise = !shards_as_asked(*target.plan, report.question);
  Training& training = target.question.training;
  training = with_framework(training, target.plan->framework);
  std::istringstream words(target.change);
  for (std::string word, before; words >> word; before = word) {
    if (before == "--method") training.method = from_name<Method>(word).value_or(training.method);
    if (word == "--fused-loss") training.fused_loss = true;
    if (before == "--save") training.beside.save = from_name<SavedModel>(word);
  }
  return target;
}

/// A recipe changed to a plan, and the config that it then names.
struct WrittenRecipe {
  std::string text;                  ///< of the recipe
  std::string config_file, config;   ///< empty where it names none
  std::vector<std::string> changes;  ///< "micro_batch_size: 2"
  std::vector<std::string> notes;    ///< settings that the recipe has no key for
};

class RecipeWriter {
 public:
  RecipeWriter(const Report& report, Target target)
      : report_(report),
        recipe_(report.options.recipes.front()),
        keys_(trainer_keys(recipe_.format)),
        target_(std::move(target)),
        text_(read_recipe_text(read_file(recipe_.file), recipe_.file)) {}

  WrittenRecipe write() {
    if (target_.plan->strategy.torchtitan)
      torchtitan();
    else if (spec(target_.plan->framework).has_stages)
      arguments(megatron::arguments_of(*target_.plan, target_.question));
    else
      transformers();
    made_.text = changed_recipe(text_, changes_);
    for (const RecipeChange& each : changes_)
      made_.changes.push_back(each.value ? fmt::format("{}: {}", each.key, *each.value)
                                         : fmt::format("{} taken out", each.key));
    return std::move(made_);
  }

 private:
  /// Writes a plan whose modules are transformers'.
  void transformers() {
    batch();
    if (recipe_.format == RecipeFormat::accelerate)
      accelerate();
    else if (target_.shards_otherwise)
      sharding();
    method();
  }

  [[nodiscard]] std::optional<std::string> written(std::string_view key) const {
    const RecipeValue* value = text_.root.find_path(key);
    if (value == nullptr || value->kind == RecipeKind::nothing) return std::nullopt;
    return value->text;
  }

  void put(std::string_view key, const std::string& value) {
    const auto now = written(key);
    if (key.empty() || (now && lower_case(*now) == lower_case(value))) return;
    changes_.push_back({std::string(key), value});
  }

  void take_out(std::string_view key) {
    if (text_.root.find_path(key) != nullptr) changes_.push_back({std::string(key), std::nullopt});
  }

  /// Returns how often gradients accumulate where no key says it.
  [[nodiscard]] std::string accumulation_unsaid() const {
    for (const RecipeSetting& each : recipe_.settings)
      for (const auto& [option, value] : each.options)
        if (each.line == 0 && option == "--grad-accum") return value;
    return std::string(keys_.nothing_accumulated);
  }

  void torchtitan() {
    arguments(titan::settings_of(*target_.plan, target_.question));
    if (recipe_.format == RecipeFormat::torchtitan)
      put("activation_checkpoint.mode", std::string(to_name(target_.plan->strategy.checkpointing)));
    else
      made_.notes.emplace_back("torchtitan reads no config of another trainer");
  }

  /// Writes the arguments of Megatron-Core or torchtitan that differ from what the file says, or from the
  /// trainer's default.
  void arguments(const std::vector<std::pair<std::string, std::string>>& arguments) {
    for (const ArgumentKey& each : keys_.arguments) {
      const auto said =
          std::ranges::find(arguments, each.argument, &std::pair<std::string, std::string>::first);
      const std::string value = said == arguments.end() ? std::string(each.absent)
                                : said->second.empty()  ? "true"
                                                        : said->second;
      const std::string now = lower_case(written(each.key).value_or(std::string(each.unsaid)));
      const bool is_usual = value == each.unsaid && value.find_first_of("0123456789") == std::string::npos;
      if (value.empty() || is_usual)
        take_out(each.key);
      else if (now != value)
        changes_.push_back({std::string(each.key), value});
    }
  }

  void batch() {
    const Strategy& s = target_.plan->strategy;
    const std::string micro = std::to_string(s.micro_batch_size);
    const std::string accumulated = std::to_string(s.gradient_accumulation_steps);
    const auto differs = [&](std::string_view key, const std::string& value, const std::string& unsaid) {
      return written(key) || value != unsaid;
    };
    const Question& asked = report_.question;
    const std::string unsaid =
        report_.found != nullptr ? "" : std::to_string(asked.space.micro_batch_size.value_or(0));
    if (differs(keys_.micro_batch, micro, unsaid)) put(keys_.micro_batch, micro);
    if (differs(keys_.accumulation, accumulated, accumulation_unsaid())) put(keys_.accumulation, accumulated);
    if (s.checkpointing == Checkpointing::selective)
      made_.notes.emplace_back("selective checkpointing is the training script's");
    else if (written(keys_.checkpointing) || report_.found != nullptr ||
             s.checkpointing != asked.space.checkpointing)
      put(keys_.checkpointing,
          std::string(s.checkpointing == Checkpointing::full ? keys_.checkpointed : keys_.unchecked));
  }

  void sharding() {
    const FrameworkSpec& about = spec(target_.plan->framework);
    const bool deepspeed = about.reads_ds_config;
    if (!about.reads_accelerate_config)
      for (const std::string_view key : keys_.fsdp) take_out(key);
    if (recipe_.format == RecipeFormat::torchtune) return torchtune();
    if (deepspeed) {
      made_.config_file = beside(".ds_config.json");
      made_.config = json_text(ds_config(*target_.plan, target_.question,
                                         {.style = style(), .nvme_path = report_.options.nvme_path}));
      put(keys_.deepspeed, made_.config_file);
    } else {
      take_out(keys_.deepspeed);
    }
    if (about.reads_accelerate_config) fully_sharded();
  }

  /// Writes FSDP2: into axolotl's own keys; the other trainers are launched with a config of accelerate.
  void fully_sharded() {
    const Strategy& s = target_.plan->strategy;
    if (recipe_.format == RecipeFormat::axolotl) {
      put("fsdp_version", "2");
      // axolotl refuses bitsandbytes' AdamW in 8 bits under FSDP2 and names torchao's, of the same size.
      if (const auto optimizer = written("optimizer");
          optimizer == "adamw_bnb_8bit" || optimizer == "adamw_8bit")
        put("optimizer", "adamw_torch_8bit");
      put("fsdp_config.reshard_after_forward", s.zero_stage == 3 ? "true" : "false");
      put("fsdp_config.offload_params", s.offload_parameters == OffloadDevice::none ? "false" : "true");
      if (text_.root.find("fsdp_config") == nullptr)
        put("fsdp_config.auto_wrap_policy", "TRANSFORMER_BASED_WRAP");
      return;
    }
    for (const std::string_view key : keys_.fsdp) take_out(key);
    made_.config_file = beside(".accelerate.yaml");
    made_.config = yaml_text(accelerate_config(*target_.plan, target_.question));
    made_.notes.push_back(
        fmt::format("FSDP2 is the launcher's: accelerate launch --config_file {}", made_.config_file));
    if (s.checkpointing != Checkpointing::full) return;
    // fsdp_activation_checkpointing is in that config; both at once are refused.
    std::erase_if(changes_, [&](const RecipeChange& each) { return each.key == keys_.checkpointing; });
    put(keys_.checkpointing, std::string(keys_.unchecked));
  }

  void torchtune() {
    const FrameworkSpec& about = spec(target_.plan->framework);
    if (about.reads_ds_config) made_.notes.emplace_back("torchtune shards by FSDP2 alone: --framework fsdp");
    if (!about.reads_accelerate_config) return;
    const Strategy& s = target_.plan->strategy;
    put("fsdp_cpu_offload", s.offload_parameters == OffloadDevice::none ? "False" : "True");
    if (s.zero_stage == 2 || written("fsdp_reshard_after_forward"))
      put("fsdp_reshard_after_forward", s.zero_stage == 3 ? "True" : "False");
  }

  void accelerate() {
    const Strategy& s = target_.plan->strategy;
    const FrameworkSpec& about = spec(target_.plan->framework);
    const std::string type = written("distributed_type").value_or("");
    if (about.reads_ds_config && type == "DEEPSPEED") {
      put("deepspeed_config.zero_stage", std::to_string(s.zero_stage));
      put("deepspeed_config.offload_optimizer_device", std::string(to_name(s.offload_optimizer)));
      put("deepspeed_config.offload_param_device", std::string(to_name(s.offload_parameters)));
      put("deepspeed_config.gradient_accumulation_steps", std::to_string(s.gradient_accumulation_steps));
    } else if (about.reads_accelerate_config && type == "FSDP") {
      put("fsdp_config.fsdp_reshard_after_forward", s.zero_stage == 3 ? "true" : "false");
      put("fsdp_config.fsdp_offload_params", s.offload_parameters == OffloadDevice::none ? "false" : "true");
      put("fsdp_config.fsdp_activation_checkpointing",
          s.checkpointing == Checkpointing::full ? "true" : "false");
    } else if (target_.shards_otherwise) {
      made_.notes.push_back(
          fmt::format("{} needs another config than this: --emit writes it", target_.plan->id()));
    }
    changes_.erase(std::remove_if(changes_.begin(), changes_.end(),
                                  [](const RecipeChange& each) { return each.key.empty(); }),
                   changes_.end());
    if (s.micro_batch_size != 1)
      made_.notes.push_back(
          fmt::format("the batch is the script's: per_device_train_batch_size={}", s.micro_batch_size));
  }

  void method() {
    std::istringstream words(target_.change);
    for (std::string word, before; words >> word; before = word) {
      const std::vector<RecipeChange>* changes = nullptr;
      if (before == "--method") changes = word == "lora" ? &keys_.lora : &keys_.qlora;
      if (word == "--fused-loss") changes = &keys_.fused_loss;
      if (changes != nullptr) {
        for (const RecipeChange& each : *changes)
          if (is_list(*each.value))
            made_.notes.push_back(fmt::format("to be among its {}: {}", each.key, *each.value));
          else
            put(each.key, *each.value);
        if (changes->empty()) made_.notes.push_back(fmt::format("not a key of it: {}", target_.change));
      }
      if (before == "--quant-storage") storage(word);
    }
  }

  /// Other entries of a list are the user's.
  [[nodiscard]] static bool is_list(const std::string& value) { return value.starts_with('['); }

  void storage(const std::string& type) {
    if (recipe_.format == RecipeFormat::trl || recipe_.format == RecipeFormat::swift)
      put("bnb_4bit_quant_storage", type == "bf16" ? "bfloat16" : type == "fp16" ? "float16" : "float32");
  }

  [[nodiscard]] ConfigStyle style() const {
    if (report_.options.has("--config-style")) return report_.options.config_style;
    return recipe_.format == RecipeFormat::swift ? ConfigStyle::ms_swift : ConfigStyle::hf_auto;
  }

  /// Returns a file in the folder of the recipe: "new.ds_config.json" for "new.yaml".
  [[nodiscard]] std::string beside(std::string_view ending) const {
    const std::string& out = report_.options.recipe_out;
    const std::filesystem::path path = out == "-" ? recipe_.file : out;
    return (path.parent_path() / (path.stem().string() + std::string(ending))).string();
  }

  const Report& report_;
  const Recipe& recipe_;
  const TrainerKeys& keys_;
  Target target_;
  RecipeText text_;
  std::vector<RecipeChange> changes_;
  WrittenRecipe made_;
};

/// Returns nothing where no plan fits and there is no alternative.
std::optional<WrittenRecipe> written_recipe(const Report& report) {
  if (report.options.recipes.empty()) return std::nullopt;
  std::optional<Target> target = target_of(report);
  if (!target) return std::nullopt;
  return RecipeWriter(report, *std::move(target)).write();
}

/// Returns the start with the file and the number of processes filled in.
std::string filled(std::string start, const std::string& file, const Cluster& cluster) {
  const auto fill = [&](std::string_view mark, const std::string& value) {
    if (const std::size_t at = start.find(mark); at != std::string::npos)
      start.replace(at, mark.size(), value);
  };
  if (cluster.gpus_per_node == 1 && cluster.nodes == 1) fill("NPROC_PER_NODE={gpus} ", "");
  fill("{gpus}", std::to_string(cluster.gpus_per_node));
  fill("{file}", shell_quote(file));
  return start;
}

}  // namespace

std::vector<std::string> recipe_commands(const Report& report) {
  const Options& options = report.options;
  if (options.recipes.empty() || options.recipes.front().start.empty()) return {};
  const std::optional<WrittenRecipe> made = written_recipe(report);
  if (!made) return {};
  const Recipe& recipe = options.recipes.front();
  const Cluster& cluster = report.question.cluster;
  if (made->changes.empty() && made->config_file.empty()) return {filled(recipe.start, recipe.file, cluster)};
  if (!options.recipe_out.empty() && options.recipe_out != "-")
    return {filled(recipe.start, options.recipe_out, cluster)};
  const std::string file = "new" + std::filesystem::path(recipe.file).extension().string();
  return {command_line(with_options(report.arguments, {{"--recipe-out", file}})),
          filled(recipe.start, file, cluster)};
}

void write_recipe(const Report& report, std::ostream& out, std::ostream& err) {
  const std::string& file = report.options.recipe_out;
  if (file.empty()) return;
  const std::optional<WrittenRecipe> made = written_recipe(report);
  if (!made) {
    err << fmt::format(
        "zplan: nothing fits: {} is not written{}\n", file,
        report.found == nullptr ? "; zplan search divides the samples of a step otherwise" : "");
    return;
  }
  const std::string& config = made->config_file;
  if (file == "-") {
    if (!config.empty())
      err << fmt::format("zplan: {} is not written, --recipe-out FILE writes it beside the file\n",
                         printable(config));
    out << made->text;
  } else {
    if (config.empty()) {
      write_file(file, made->text, "--recipe-out");
    } else {
      write_files({file, made->text}, {config, made->config}, "--recipe-out");
      err << fmt::format("zplan: wrote {}\n", printable(config));
    }
    err << fmt::format("zplan: wrote {}{}\n", printable(file),
                       made->changes.empty() ? ": nothing to change" : ", changed:");
  }
  for (const std::string& each : made->changes) err << fmt::format("  {}\n", printable(each));
  for (const std::string& each : made->notes) err << fmt::format("  {}\n", printable(each));
}

}  // namespace zplan
