#include "cli/recipes/recipe.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>

#include "cli/document/text.h"
#include "cli/recipes/recipe_table.h"
#include "cli/recipes/refusals.h"
#include "models/base/embedded.h"
#include "models/base/error.h"
#include "models/base/json_reader.h"
#include "models/base/shell.h"

namespace zplan {

namespace embedded {
extern const std::vector<EmbeddedFile> recipe_data;
}

namespace {

std::set<std::string, std::less<>> keys_of(const Json& project) {
  std::istringstream words(project.at("keys").get<std::string>());
  std::set<std::string, std::less<>> keys;
  for (std::string word; words >> word;) keys.insert(word);
  return keys;
}

const std::map<std::string, std::set<std::string, std::less<>>, std::less<>>& known_keys() {
  static const auto all = [] {
    std::map<std::string, std::set<std::string, std::less<>>, std::less<>> made;
    const embedded::EmbeddedFile& file = embedded::recipe_data.front();
    const Json document = parse_json(file.text, std::string(file.name));
    for (const auto& [project, value] : document.items()) made[project] = keys_of(value);
    return made;
  }();
  return all;
}

bool has(const RecipeValue& root, std::string_view path) { return root.find_path(path) != nullptr; }

/// Which program a shell script calls says whose flags they are.
std::optional<RecipeFormat> format_of_command(const std::vector<std::string>& command) {
  const auto found = find_command(command);
  return found ? std::optional(found->format) : std::nullopt;
}

/// One key of these tells the format; of the others the one of which most keys are there, of as many the
/// first.
RecipeFormat format_of(const RecipeText& text) {
  using enum RecipeFormat;
  constexpr std::array kOneTells{torchtitan,       axolotl, accelerate, torchtune,
                                 llama_factory_v1, verl,    openrlhf};
  constexpr std::array kMostTell{llama_factory, swift_megatron, swift, trl};
  const auto found = [&](RecipeFormat format) {
    return std::ranges::count_if(recipe_table(format).telling,
                                 [&](std::string_view key) { return has(text.root, key); });
  };
  if (const auto format = format_of_command(text.command)) return *format;
  for (const RecipeFormat format : kOneTells)
    if (found(format) > 0) return format;
  // Options of scripts that take TrainingArguments beside them.
  for (const std::string_view key : {"train_file_dir", "lora_enable", "disable_flash_attn2", "freeze_merger"})
    if (has(text.root, key)) return transformers;
  const RecipeFormat best = *std::ranges::max_element(kMostTell, {}, found);
  if (found(best) > 0) return best;
  if (found(transformers) > 0) return has(text.root, "model_name_or_path") ? trl : transformers;
  // A rule without a key holds for files of that trainer alone.
  for (const auto& [format, name] : EnumNames<RecipeFormat>::table)
    if (const RecipeTable& table = recipe_table(format);
        std::ranges::none_of(table.trains_nothing, &std::string_view::empty, &NoTraining::key))
      refuse_no_training(text, table);
  throw InputError(text.file, "its keys are those of no trainer that zplan knows",
                   fmt::format("accepted: configs of {}", fmt::join(all_names<RecipeFormat>(), ", ")));
}

/// Returns the value as text on one line.
std::string shown(const RecipeValue& value) {
  switch (value.kind) {
    case RecipeKind::nothing: return "null";
    case RecipeKind::scalar: return value.text;
    case RecipeKind::map: return "{…}";
    case RecipeKind::list: break;
  }
  std::vector<std::string> items;
  for (const RecipeValue& each : value.items) items.push_back(shown(each));
  return fmt::format("[{}]", fmt::join(items, ", "));
}

/// Replaces scalars such as "${batch_size}" by the value that they name, as OmegaConf does.
void resolve_references(RecipeValue& value, const RecipeValue& root) {
  constexpr int kMostSteps = 8;  // of a reference to a reference
  for (RecipeEntry& each : value.entries) resolve_references(each.value, root);
  for (RecipeValue& each : value.items) resolve_references(each, root);
  for (int step = 0; step < kMostSteps; ++step) {
    if (value.kind != RecipeKind::scalar || !value.text.starts_with("${") || !value.text.ends_with("}"))
      return;
    const RecipeValue* named = root.find_path(std::string_view(value.text).substr(2, value.text.size() - 3));
    if (named == nullptr || named->kind != RecipeKind::scalar) return;
    value.text = named->text;
  }
}

/// One file's keys by one table.
class RecipeReader {
 public:
  /// Errors at keys are gathered in `errors` where that is given, else thrown.
  RecipeReader(const RecipeText& text, const RecipeTable& table, const RecipeAsked& asked,
               std::vector<InputError>* errors = nullptr)
      : text_(text), table_(table), asked_(asked), errors_(errors) {
    recipe_.file = text.file, recipe_.format = table.format;
    folder_ = std::filesystem::path(text.file).parent_path().string();
  }

  Recipe read() {
    for (const RecipeRow& row : launcher_rows())
      if (is_launcher(row.key)) take(row);
    for (const RecipeRow& row : table_.rows) take(row);
    for (const RecipeDefault& each : table_.defaults) fill(each);
    sort_rest(text_.root, "");
    for (const RepeatedKey& each : text_.repeated)
      recipe_.settings.push_back({.key = each.key,
                                  .line = each.line,
                                  .value = {},
                                  .options = {},
                                  .unused = fmt::format("line {} says it again", each.later_line)});
    return std::move(recipe_);
  }

 private:
  void take(const RecipeRow& row) {
    const RecipeValue* value = text_.root.find_path(row.key);
    if (value == nullptr) return;
    if (row.translate == nullptr) {
      if (!is_off(*value))
        recipe_.not_planned.push_back({std::string(row.key), value->line, std::string(row.not_planned)});
      return;
    }
    RecipeSetting setting{.key = std::string(row.key),
                          .line = value->line,
                          .value = shown(*value),
                          .options = {},
                          .unused = {}};
    if (value->source > 0) setting.file = source_of(text_, *value);
    if (const std::string open = open_in(*value); !open.empty() && !is_known_model(row, *value)) {
      if (!is_given(row.option) && matters(row)) refuse_open(row, *value, open);
      setting.unused = is_given(row.option) ? fmt::format("{} is given", row.option)
                                            : fmt::format("the script does not set {}", open);
      recipe_.settings.push_back(std::move(setting));
      return;
    }
    if (is_given(row.option))
      setting.unused = fmt::format("{} is given", row.option);
    else
      setting.options = translated(row, *value);
    if (setting.options.empty() && is_noted(row.key)) return;
    recipe_.settings.push_back(std::move(setting));
  }

  /// Returns the options of a key. Where errors are gathered, one that is refused has none.
  RecipeOptions translated(const RecipeRow& row, const RecipeValue& value) {
    try {
      return row.translate({text_, row, value, folder_, asked_, recipe_});
    } catch (const InputError& error) {
      if (errors_ == nullptr) throw;
      errors_->push_back(error);
      return {};
    }
  }

  /// Returns what a script leaves open in the value, as it is written there.
  static std::string open_in(const RecipeValue& value) {
    if (!value.open.empty()) return value.open;
    for (const RecipeValue& each : value.items)
      if (!each.open.empty()) return each.open;
    return {};
  }

  /// A model's folder may be open where its name is not.
  static bool is_known_model(const RecipeRow& row, const RecipeValue& value) {
    const std::string_view name = std::string_view(value.text).substr(value.text.rfind('/') + 1);
    const bool is_model =
        row.translate == as_model || row.translate == as_packed_model || row.option.ends_with("model");
    return is_model && !name.empty() && name.find_first_of("$`") == std::string_view::npos;
  }

  /// Epochs count only with a number of samples, and nodes go with the GPUs.
  [[nodiscard]] bool matters(const RecipeRow& row) const {
    return row.option != "--epochs" && row.option != "--eval-batch" &&
           (row.option != "--nodes" || !is_given("--gpus"));
  }

  [[noreturn]] void refuse_open(const RecipeRow& row, const RecipeValue& value,
                                const std::string& open) const {
    const bool is_model = row.option == "--model";
    const std::string place =
        fmt::format("{}:{}: {}", source_of(text_, value), value.line, is_model ? "--model" : row.key);
    const std::string name = open.starts_with("$") && open.find_first_of("({:", 1) == std::string::npos
                                 ? open.substr(1)
                                 : std::string();
    std::string accepted =
        name.empty() ? "accepted: a value in the script" : fmt::format("accepted: {}=… in the script", name);
    if (row.option.starts_with("--")) accepted += fmt::format(", or {} beside --recipe", row.option);
    throw InputError(place, fmt::format("{}the script does not set {}", is_model ? "missing: " : "", open),
                     accepted);
  }

  [[nodiscard]] bool is_launcher(std::string_view key) const {
    return std::ranges::find(text_.launcher, key) != text_.launcher.end();
  }

  /// Source: torch 2.11 torch/distributed/run.py; DeepSpeed 0.19 launcher/runner.py.
  static const std::vector<RecipeRow>& launcher_rows() {
    static const std::vector<RecipeRow> rows{
        {"nproc_per_node", "--gpus", as_processes},
        {"num_gpus", "--gpus", as_processes},
        {"nnodes", "--nodes", as_nodes},
        {"num_nodes", "--nodes", as_nodes},
        {"include", "--gpus", as_included},
        {"hostfile", "", nullptr, {}, "nodes of a file: --gpus and --nodes say them"}};
    return rows;
  }

  /// True if an earlier row of the same key applied.
  bool is_noted(std::string_view key) const {
    return std::ranges::any_of(recipe_.settings,
                               [&](const RecipeSetting& setting) { return setting.key == key; });
  }

  bool is_given(std::string_view option) const {
    return !option.empty() && std::ranges::find(asked_.given, option) != asked_.given.end();
  }

  /// True if the file has the key, with a value.
  [[nodiscard]] bool is_there(std::string_view key) const {
    const RecipeValue* value = text_.root.find_path(key);
    return value != nullptr && value->kind != RecipeKind::nothing;
  }

  bool says(std::string_view option) const {
    return std::ranges::any_of(recipe_.settings, [&](const RecipeSetting& setting) {
      return std::ranges::any_of(setting.options, [&](const auto& each) { return each.first == option; });
    });
  }

  void fill(const RecipeDefault& from) {
    if (is_given(from.option) || (adds_up(from.option) ? is_there(from.key) : says(from.option))) return;
    RecipeOptions options{{std::string(from.option), std::string(from.value)}};
    if (from.made != nullptr) {
      const RecipeRow row{from.key, from.option};
      options = from.made({text_, row, text_.root, folder_, asked_, recipe_});
    }
    if (options.empty()) return;
    recipe_.settings.push_back(
        {.key = std::string(from.key), .line = 0, .value = {}, .options = std::move(options), .unused = {}});
  }

  /// Keys without a row, and sections of which some keys have one.
  void sort_rest(const RecipeValue& map, const std::string& above) {
    for (const RecipeEntry& each : map.entries) {
      const std::string path = above.empty() ? each.key : above + "." + each.key;
      if (above.empty() && is_launcher(path)) {
        if (!is_noted(path)) recipe_.irrelevant.push_back(path);
      } else if (has_row(path)) {
        if (each.value.kind == RecipeKind::map && has_rows_below(path)) sort_rest(each.value, path);
      } else if (each.value.kind == RecipeKind::map && has_rows_below(path)) {
        sort_rest(each.value, path);
      } else if (has_rows_below(path) && (!each.value.text.empty() || !each.value.items.empty())) {
        recipe_.not_planned.push_back({path, each.line, "its keys are read where it is a section"});
      } else if (is_known_key(table_.format, path) || is_environment(each.key)) {
        recipe_.irrelevant.push_back(path);
      } else {
        recipe_.unknown.push_back({path, each.line, {}});
      }
    }
  }

  /// NAME=value in front of a command.
  [[nodiscard]] bool is_environment(const std::string& key) const {
    return text_.syntax == RecipeSyntax::shell && std::ranges::all_of(key, [](char c) {
             return (c >= 'A' && c <= 'Z') || c == '_' || (c >= '0' && c <= '9');
           });
  }

  [[nodiscard]] bool has_row(const std::string& path) const {
    return std::ranges::any_of(table_.rows, [&](const RecipeRow& row) { return row.key == path; });
  }

  [[nodiscard]] bool has_rows_below(const std::string& path) const {
    return std::ranges::any_of(table_.rows,
                               [&](const RecipeRow& row) { return row.key.starts_with(path + "."); });
  }

  const RecipeText& text_;
  const RecipeTable& table_;
  const RecipeAsked& asked_;
  std::vector<InputError>* errors_;
  std::string folder_;
  Recipe recipe_;
};

/// Reads what accelerate launch says of a script's command: its config, and its flags over that.
std::optional<Recipe> launched_by(const RecipeText& script, const RecipeAsked& asked) {
  if (script.launch.entries.empty() && !script.launch_config) return std::nullopt;
  RecipeText launch{
      .file = script.file, .text = script.text, .syntax = RecipeSyntax::shell, .root = script.launch};
  launch.config = script.launch_config, launch.files = script.files;
  launch = with_named_config(std::move(launch));
  return RecipeReader(launch, recipe_table(RecipeFormat::accelerate), asked).read();
}

}  // namespace

bool adds_up(std::string_view option) { return option == "--megatron" || option == "--torchtitan"; }

bool is_known_key(RecipeFormat format, std::string_view path) {
  const std::string_view project = format == RecipeFormat::trl ? "transformers" : to_name(format);
  const auto found = known_keys().find(project);
  if (found == known_keys().end()) return false;
  std::string_view key = path.substr(path.rfind('.') + 1);
  if (found->second.contains(key)) return true;
  // Sections of FSDP are read with and without the prefix.
  constexpr std::string_view kPrefix = "fsdp_";
  return key.starts_with(kPrefix) && found->second.contains(key.substr(kPrefix.size()));
}

const RecipeTable& recipe_table(RecipeFormat format) {
  switch (format) {
    case RecipeFormat::axolotl: return axolotl_table();
    case RecipeFormat::llama_factory: return llama_factory_table();
    case RecipeFormat::llama_factory_v1: return llama_factory_v1_table();
    case RecipeFormat::trl: return trl_table();
    case RecipeFormat::torchtune: return torchtune_table();
    case RecipeFormat::swift: return swift_table();
    case RecipeFormat::swift_megatron: return swift_megatron_table();
    case RecipeFormat::megatron_lm: return megatron_lm_table();
    case RecipeFormat::accelerate: return accelerate_table();
    case RecipeFormat::openrlhf: return openrlhf_table();
    case RecipeFormat::verl: return verl_table();
    case RecipeFormat::torchtitan: return torchtitan_table();
    case RecipeFormat::transformers: break;
  }
  return transformers_table();
}

std::string_view trainers_of(RecipeFormat format) { return recipe_table(format).trainers; }

namespace {

std::string filled(std::string text, std::string_view name, const std::string& value) {
  const std::size_t at = text.find(name);
  return at == std::string::npos ? text : text.replace(at, name.size(), value);
}

}  // namespace

std::string recipe_command(const std::vector<Recipe>& recipes, std::int64_t gpus,
                           std::string_view objective) {
  const auto launches = [](const Recipe& each) { return each.format == RecipeFormat::accelerate; };
  const auto training = std::ranges::find_if_not(recipes, launches);
  const auto launch = std::ranges::find_if(recipes, launches);
  const std::string launcher =
      launch == recipes.end() ? std::string() : " --config_file " + shell_quote(launch->file);
  if (training == recipes.end()) return launcher.empty() ? "" : "accelerate launch" + launcher + " train.py";
  const std::string file = shell_quote(training->file);
  if (training->file.ends_with(".sh")) return "bash " + file;
  const RecipeTable& table = recipe_table(training->format);
  const std::string pattern =
      table.launches == nullptr ? std::string(table.launch) : table.launches(*training, gpus, objective);
  if (pattern.empty()) return {};
  constexpr std::array<std::string_view, 5> kOfTrl{"sft", "dpo", "kto", "grpo", "reward"};
  if (training->format == RecipeFormat::trl && std::ranges::find(kOfTrl, objective) == kOfTrl.end())
    return {};
  std::string line = filled(pattern, "{file}", file);
  line = filled(filled(line, "{gpus}", std::to_string(gpus)), "{objective}", std::string(objective));
  if (launch != recipes.end() && training->format == RecipeFormat::trl)
    line += " --accelerate_config " + shell_quote(launch->file);
  return line;
}

namespace {

/// Returns the text of a recipe that trains, with the config that its command names.
RecipeText text_of_training(std::string text, const std::string& file) {
  RecipeText read = read_recipe_text(std::move(text), file);
  refuse_no_training(read);
  read = with_named_config(std::move(read));
  const RecipeTable& table = recipe_table(format_of(read));
  refuse_no_training(read, table);
  if (table.has_references) resolve_references(read.root, RecipeValue(read.root));
  return read;
}

/// Losses of next tokens that never hold all logits have no part in objectives over log-probabilities and
/// rewards: transformers' models make whole logits where they are given no labels. Source: LLaMA-Factory
/// 0.9.6 model/model_utils/liger_kernel.py require_logits; TRL 1.16 trainer/dpo_trainer.py; liger_kernel 0.7
/// transformers/model/llama.py.
void leave_out_losses_of_labels(Recipe& recipe) {
  std::string_view objective = "sft";
  for (const RecipeSetting& setting : recipe.settings)
    for (const auto& [option, value] : setting.options)
      if (option == "--objective") objective = value;
  if (objective == "sft") return;
  const auto is_of_labels = [](const auto& option) {
    return option.first == "--fused-loss" || option.first == "--cut-cross-entropy" ||
           (option.first == "--loss-chunks" && option.second != "1");
  };
  for (RecipeSetting& setting : recipe.settings)
    if (std::erase_if(setting.options, is_of_labels) > 0 && setting.options.empty())
      setting.unused = fmt::format("does nothing under {}, which takes whole logits", objective);
}

}  // namespace

RecipeRefusals recipe_refusals(std::string text, const std::string& file, const RecipeAsked& asked) {
  const RecipeText read = text_of_training(std::move(text), file);
  RecipeRefusals found{.format = format_of(read), .errors = {}};
  static_cast<void>(RecipeReader(read, recipe_table(found.format), asked, &found.errors).read());
  return found;
}

Recipe read_recipe(std::string text, const std::string& file, const RecipeAsked& asked) {
  const RecipeText read = text_of_training(std::move(text), file);
  const RecipeTable& table = recipe_table(format_of(read));
  Recipe recipe = RecipeReader(read, table, asked).read();
  leave_out_losses_of_labels(recipe);
  if (read.syntax == RecipeSyntax::shell)
    recipe.start = "bash {file}";
  else if (table.start != nullptr)
    recipe.start = table.start(read);
  for (const RecipeNote& each : read.notes) recipe.not_planned.push_back({each.what, each.line, each.why});
  if (auto launch = launched_by(read, asked)) recipe.launched_by.push_back(std::move(*launch));
  return recipe;
}

}  // namespace zplan
