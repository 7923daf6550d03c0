// Configs that a command names.

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <filesystem>

#include "cli/recipes/recipe_text.h"
#include "models/base/json_reader.h"

namespace zplan {

namespace {

namespace fs = std::filesystem;

constexpr std::int64_t kLargest = 1U << 20;

bool is_below(const fs::path& folder, const fs::path& path) {
  return std::mismatch(folder.begin(), folder.end(), path.begin(), path.end()).first == folder.end();
}

/// Devices and what the kernel shows of itself are no configs. `folder`: the one that the name was looked for
/// in. A name or a link that leads out of it leads to files that the recipe has no business with, unless they
/// are below the working folder or next to the recipe's folder.
bool is_config_file(const fs::path& path, const fs::path& folder, const fs::path& recipe) {
  std::error_code error;
  if (!fs::is_regular_file(path, error) || error) return false;
  const fs::path whole = fs::canonical(path, error);
  constexpr std::array<std::string_view, 3> kKernel{"/proc", "/sys", "/dev"};
  if (error || std::ranges::any_of(kKernel, [&](std::string_view each) { return is_below(each, whole); }))
    return false;
  const fs::path beside = fs::canonical(recipe.empty() ? fs::path(".") : recipe, error).parent_path();
  const std::array<fs::path, 3> allowed{fs::canonical(folder.empty() ? fs::path(".") : folder, error),
                                        fs::current_path(error), beside};
  const bool is_allowed = std::ranges::any_of(
      allowed, [&](const fs::path& each) { return each.has_relative_path() && is_below(each, whole); });
  return is_allowed && fs::file_size(path, error) <= std::uintmax_t{kLargest} && !error;
}

void set_source(RecipeValue& value, std::size_t source) {
  value.source = source;
  for (RecipeValue& each : value.items) set_source(each, source);
  for (RecipeEntry& each : value.entries) set_source(each.value, source);
}

/// Lays the flags of a command over a config's keys.
void lay_over(RecipeValue& below, const RecipeValue& above, const std::string& path) {
  for (const RecipeEntry& each : above.entries) {
    const std::string whole = path.empty() ? each.key : path + "." + each.key;
    if (each.value.kind == RecipeKind::map && below.find_path(whole) != nullptr)
      lay_over(below, each.value, whole);
    else
      put_path(below, whole, each);
  }
}

}  // namespace

bool may_name(const RecipeText& recipe, const fs::path& path) {
  const fs::path folder = fs::path(recipe.file).parent_path();
  return is_config_file(path, folder, folder);
}

std::optional<NamedFile> find_named(const RecipeText& recipe, const std::string& name) {
  const std::string plain = name.starts_with("./") ? name.substr(2) : name;
  if (const auto written = recipe.files.find(plain); written != recipe.files.end())
    return NamedFile{plain, written->second, true};
  if (name.empty() || name.find('\0') != std::string::npos || name.size() > 1000) return std::nullopt;
  constexpr int kHighest = 6;
  fs::path folder = fs::path(recipe.file).parent_path();
  std::vector<fs::path> folders{fs::path(), folder};
  for (int i = 0; i < kHighest && folder.has_relative_path(); ++i) {
    folder = folder.parent_path();
    folders.push_back(folder);
  }
  for (const fs::path& each : folders)
    if (const fs::path path = each / name; is_config_file(path, each, fs::path(recipe.file).parent_path()))
      return NamedFile{path.lexically_normal().string(), read_file(path.string(), kLargest), false};
  return std::nullopt;
}

RecipeText with_named_config(RecipeText script) {
  if (!script.config) return script;
  const std::string name = script.config->text;
  const std::string place = fmt::format("{}:{}", script.file, script.config->line);
  if (!script.config->open.empty())
    throw InputError(place,
                     fmt::format("{}: the script does not set {}", in_quotes(name), script.config->open),
                     "accepted: the config itself as --recipe");
  const auto found = find_named(script, name);
  if (!found)
    throw InputError(place, fmt::format("{}: there is no such file", in_quotes(name)),
                     "accepted: a config that is there, from the working folder or one above the script");
  RecipeText config = read_recipe_text(found->text, found->path);
  script.sources.push_back(found->is_written ? fmt::format("{}: {}", script.file, found->path) : found->path);
  set_source(config.root, script.sources.size());
  // The environment of ms-swift's configs. Source: ms-swift 4.6 swift/cli/main.py.
  RecipeValue root = config.root;
  if (const RecipeValue* environment = config.root.find("ENV"); environment != nullptr) {
    std::erase_if(root.entries, [](const RecipeEntry& each) { return each.key == "ENV"; });
    lay_over(root, *environment, {});
  }
  lay_over(root, script.root, {});
  script.root = std::move(root);
  return script;
}

}  // namespace zplan
