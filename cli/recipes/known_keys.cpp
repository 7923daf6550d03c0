#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>

#include "cli/recipes/recipe_table.h"
#include "models/base/embedded.h"
#include "models/base/json_reader.h"

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

}  // namespace

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

}  // namespace zplan
