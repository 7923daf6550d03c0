#include "models/catalogue/catalogue.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "models/base/embedded.h"
#include "models/catalogue/entries.h"
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
          .config = config.raw()};
}

std::vector<CatalogueEntry> read_catalogue() {
  std::vector<CatalogueEntry> all;
  for (const auto& [name, text] : embedded::catalogue_files) {
    // Not parse_json: the tests check these files once and for all, every start of the program would pay for
    // it.
    for (CatalogueEntry& entry : read_entries(Json::parse(text), std::string(name)))
      all.push_back(std::move(entry));
  }
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
  Model model = read_config(JsonReader(entry.config, entry.name));
  model.name = entry.name;
  model.source = ModelSource::catalogue;
  model.origin =
      entry.revision.empty() ? entry.source : fmt::format("{}, revision {}", entry.source, entry.revision);
  return model;
}

}  // namespace zplan
