#include "models/catalogue/catalogue.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "models/base/embedded.h"
#include "models/base/json_reader.h"
#include "models/catalogue/lookup.h"
#include "models/config.h"

namespace zplan {

namespace embedded {
extern const std::vector<EmbeddedFile> catalogue_files;
}

namespace {

std::vector<std::string> texts(const JsonReader& list) {
  std::vector<std::string> out;
  for (const JsonReader& item : list.items()) out.push_back(item.text());
  return out;
}

CatalogueEntry read_entry(const JsonReader& entry, const std::string& source) {
  entry.only_keys({"name", "aliases", "source", "revision", "config"});
  const auto aliases = entry.find("aliases");
  const JsonReader config = entry.at("config");
  if (!config.raw().is_object()) config.fail_type("the model's config.json, a JSON object");
  const JsonReader name = entry.at("name");
  if (name.text().empty()) name.fail_type("the name of the model");
  return {.name = name.text(),
          .aliases = aliases ? texts(*aliases) : std::vector<std::string>{},
          .source = entry.text_or("source", source),
          .revision = entry.text_or("revision", ""),
          .config = config.raw().dump()};
}

/// Reads an entry of a file that is compiled in, without parsing its config. Tests check these files, so that
/// not every start of the program has to.
CatalogueEntry built_in_entry(std::string_view text, std::string_view file) {
  CatalogueEntry entry{.name = {}, .aliases = {}, .source = std::string(file), .revision = {}, .config = {}};
  for (const auto& [key, value] : json_parts(text)) {
    if (key == "name") entry.name = json_string(value);
    if (key == "source") entry.source = json_string(value);
    if (key == "revision") entry.revision = json_string(value);
    if (key == "config") entry.config = value;
    if (key == "aliases")
      for (const JsonPart& each : json_parts(value)) entry.aliases.push_back(json_string(each.value));
  }
  return entry;
}

std::vector<CatalogueEntry> read_catalogue() {
  std::vector<CatalogueEntry> all;
  for (const auto& [name, text] : embedded::catalogue_files)
    for (const JsonPart& each : json_parts(text)) all.push_back(built_in_entry(each.value, name));
  std::sort(all.begin(), all.end(),
            [](const CatalogueEntry& a, const CatalogueEntry& b) { return a.name < b.name; });
  return all;
}

}  // namespace

std::vector<CatalogueEntry> read_entries(const Json& document, const std::string& source) {
  const JsonReader reader(document, source);
  if (document.is_object()) return {read_entry(reader, source)};
  std::vector<CatalogueEntry> entries;
  for (const JsonReader& item : reader.items()) entries.push_back(read_entry(item, source));
  return entries;
}

const std::vector<CatalogueEntry>& catalogue() {
  static const std::vector<CatalogueEntry> entries = read_catalogue();
  return entries;
}

Model catalogue_model(const CatalogueEntry& entry) {
  const Json config = Json::parse(entry.config);
  Model model = read_config(JsonReader(config, entry.name));
  model.name = entry.name;
  model.source = ModelSource::catalogue;
  model.origin =
      entry.revision.empty() ? entry.source : fmt::format("{}, revision {}", entry.source, entry.revision);
  return model;
}

}  // namespace zplan
