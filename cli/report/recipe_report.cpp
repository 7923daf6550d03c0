#include "cli/report/recipe_report.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <nlohmann/json.hpp>

#include "cli/options/command_line.h"

namespace zplan {

namespace {

/// "--method qlora --dora"
std::string words_of(const RecipeOptions& options) {
  std::string words;
  for (const auto& [option, value] : options)
    words += fmt::format("{}{}{}", words.empty() ? "" : " ", option, value == kFlagGiven ? "" : " " + value);
  return words;
}

std::string lines_of(const std::vector<RecipeKey>& keys) {
  std::vector<std::string> named;
  for (const RecipeKey& each : keys) named.push_back(fmt::format("{} (line {})", each.key, each.line));
  return fmt::format("{}", fmt::join(named, ", "));
}

/// Which keys said what, and which said nothing.
std::vector<std::string> lines_of(const Recipe& recipe) {
  std::vector<std::string> used, defaults, unused, lines;
  for (const RecipeSetting& each : recipe.settings) {
    if (!each.unused.empty())
      unused.push_back(fmt::format("{} ({})", each.key, each.unused));
    else if (each.line == 0)
      defaults.push_back(words_of(each.options));
    else if (!each.options.empty())
      used.push_back(fmt::format("{}: {} -> {}", each.key, each.value, words_of(each.options)));
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

/// What no recipe says.
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
          {"unused", setting.unused.empty() ? Json(nullptr) : Json(setting.unused)}};
}

Json key_json(const RecipeKey& key) {
  return {{"key", key.key}, {"line", key.line}, {"why", key.why.empty() ? Json(nullptr) : Json(key.why)}};
}

}  // namespace

Json recipes_json(const std::vector<Recipe>& recipes) {
  Json out = Json::array();
  for (const Recipe& recipe : recipes) {
    Json settings = Json::array(), not_planned = Json::array(), unknown = Json::array();
    for (const RecipeSetting& each : recipe.settings) settings.push_back(setting_json(each));
    for (const RecipeKey& each : recipe.not_planned) not_planned.push_back(key_json(each));
    for (const RecipeKey& each : recipe.unknown) unknown.push_back(key_json(each));
    out.push_back({{"file", recipe.file},
                   {"format", std::string(to_name(recipe.format))},
                   {"settings", std::move(settings)},
                   {"not_planned", std::move(not_planned)},
                   {"irrelevant", recipe.irrelevant},
                   {"unknown", std::move(unknown)}});
  }
  return out;
}

}  // namespace zplan
