// Refuses recipes that train nothing, by their command or by their keys.

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <sstream>

#include "cli/recipes/recipe_table.h"
#include "models/base/error.h"

namespace zplan {

namespace {

/// Commands of tools that no format's table has.
constexpr std::array kOfNobody{RecipeCommand{.words = "vllm serve", .does = "serves a model"},
                               RecipeCommand{.words = "vllm bench", .does = "measures a server"},
                               RecipeCommand{.words = "lmdeploy serve", .does = "serves a model"},
                               RecipeCommand{.words = "sglang serve", .does = "serves a model"},
                               RecipeCommand{.words = "sglang.launch_server", .does = "serves a model"},
                               RecipeCommand{.words = "lm_eval", .does = "evaluates a model"},
                               RecipeCommand{.words = "lm-eval", .does = "evaluates a model"},
                               RecipeCommand{.words = "evalscope eval", .does = "evaluates a model"},
                               RecipeCommand{.words = "ollama run", .does = "runs a model"}};

std::vector<std::string> parts_of(std::string_view text) {
  std::istringstream words{std::string(text)};
  std::vector<std::string> parts;
  for (std::string word; words >> word;) parts.push_back(word);
  return parts;
}

/// "swift_infer" and "swift-infer" are one name.
std::string plain_name(std::string_view word) {
  std::string name(word);
  std::ranges::replace(name, '_', '-');
  return name;
}

/// The name of a program without its folder.
std::string_view program_of(std::string_view path) { return path.substr(path.rfind('/') + 1); }

/// True if `word` is the module or the file of `words`: swift.cli.sft, swift/cli/sft.py of "swift sft".
bool is_module(std::string_view word, const std::vector<std::string>& words) {
  if (words.size() != 2) return false;
  if (word.ends_with(".py")) word.remove_suffix(3);
  const std::string dotted = fmt::format("{}.cli.{}", words[0], words[1]);
  std::string name(word);
  std::ranges::replace(name, '/', '.');
  return plain_name(name) == plain_name(dotted) || plain_name(name).ends_with("." + plain_name(dotted));
}

bool begins(const std::vector<std::string>& command, std::size_t at, const std::vector<std::string>& words) {
  if (is_module(command[at], words)) return true;
  if (command.size() - at < words.size() || program_of(command[at]) != words[0]) return false;
  for (std::size_t i = 1; i < words.size(); ++i)
    if (plain_name(command[at + i]) != plain_name(words[i])) return false;
  return true;
}

/// Returns where the row's words stand in the command.
std::optional<std::size_t> place_of(const std::vector<std::string>& command, const RecipeCommand& row) {
  const std::vector<std::string> words = parts_of(row.words);
  for (std::size_t at = 0; at < command.size(); ++at)
    if (begins(command, at, words)) return at;
  return std::nullopt;
}

/// Returns what the table's trainer reads.
std::string accepted_by(std::string_view trains) {
  return fmt::format("accepted: {}", trains.empty() ? "a config or command of a training" : trains);
}

[[noreturn]] void refuse(const RecipeText& text, const RecipeCommand& command, std::string_view trains) {
  const std::string place = fmt::format("{}:{}", text.file, text.command_line);
  if (!command.not_planned.empty())
    throw InputError(place, fmt::format("{}: {} is not planned yet", command.words, command.not_planned),
                     accepted_by(trains));
  throw InputError(place, fmt::format("{} {}, it trains nothing", command.words, command.does),
                   accepted_by(trains));
}

bool holds(const RecipeText& text, const NoTraining& row) {
  for (const std::string& key : parts_of(row.unless))
    if (const RecipeValue* value = text.root.find_path(key); value != nullptr && !is_off(*value))
      return false;
  if (row.key.empty()) return true;
  const RecipeValue* value = text.root.find_path(row.key);
  if (value == nullptr) return false;
  if (row.values.empty()) return !is_off(*value);
  const std::vector<std::string> values = parts_of(row.values);
  return value->kind == RecipeKind::scalar &&
         std::ranges::find(values, lower_case(value->text)) != values.end();
}

}  // namespace

bool is_off(const RecipeValue& value) {
  if (value.kind == RecipeKind::list) return value.items.empty();
  if (value.kind == RecipeKind::map) return value.entries.empty();
  const std::string word = lower_case(value.text);
  return word.empty() || word == "false" || word == "no" || word == "off" || word == "0" || word == "none";
}

std::optional<FoundCommand> find_command(const std::vector<std::string>& words) {
  for (const auto& [format, name] : EnumNames<RecipeFormat>::table)
    for (const RecipeCommand& row : recipe_table(format).commands)
      if (place_of(words, row)) return FoundCommand{format, &row};
  return std::nullopt;
}

void refuse_no_training(const RecipeText& text) {
  if (const auto found = find_command(text.command)) {
    const RecipeCommand& row = *found->command;
    if (!row.does.empty() || !row.not_planned.empty()) refuse(text, row, recipe_table(found->format).trains);
    return;
  }
  for (const RecipeCommand& row : kOfNobody)
    if (place_of(text.command, row)) refuse(text, row, {});
}

void refuse_no_training(const RecipeText& text, const RecipeTable& table) {
  for (const NoTraining& row : table.trains_nothing) {
    if (!holds(text, row)) continue;
    const RecipeValue* value = row.key.empty() ? nullptr : text.root.find_path(row.key);
    const std::string found = fmt::format("{} {}, it trains nothing", table.title, row.does);
    if (value == nullptr) throw InputError(text.file, found, accepted_by(table.trains));
    throw InputError(fmt::format("{}:{}: {}", text.file, value->line, row.key), found,
                     accepted_by(table.trains));
  }
}

}  // namespace zplan
