#include "planner/frameworks/deepspeed/config/keys.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "models/base/embedded.h"
#include "models/base/names.h"

namespace zplan {

namespace {

std::vector<std::string> texts(const Json& list) { return list.get<std::vector<std::string>>(); }

/// In the list of a pydantic section a Python name stands behind its JSON name, which alone has a value.
std::map<std::string, std::string> read_names(const std::vector<std::string>& keys, const Json& values) {
  std::map<std::string, std::string> names;
  for (std::size_t i = 1; i < keys.size(); ++i)
    if (!values.contains(keys[i])) names[keys[i]] = keys[i - 1];
  return names;
}

DsSection read_section(const Json& entry) {
  DsSection section{entry.at("pointer"), entry.at("unknown") == "rejected", texts(entry.at("keys"))};
  if (section.rejects_unknown) section.json_names = read_names(section.keys, entry.at("values"));
  if (entry.contains("replaced_by"))
    section.replaced_by = entry.at("replaced_by").get<std::map<std::string, std::string>>();
  return section;
}

std::map<std::string, Arguments> read_arguments(const Json& constructors) {
  std::map<std::string, Arguments> read;
  for (const auto& [name, arguments] : constructors.items())
    read[name] = arguments.is_null() ? Arguments() : Arguments(texts(arguments));
  return read;
}

DsKeys read_keys(const Json& file) {
  DsKeys keys;
  for (const Json& section : file.at("sections")) keys.sections.push_back(read_section(section));
  for (const auto& [pointer, removed] : file.at("removed").items()) keys.removed[pointer] = texts(removed);
  keys.optimizers = read_arguments(file.at("optimizers"));
  keys.schedulers = read_arguments(file.at("schedulers"));
  keys.required = file.at("required").get<std::map<std::string, std::vector<std::string>>>();
  keys.auto_pointers = texts(file.at("auto"));
  return keys;
}

}  // namespace

namespace embedded {
extern const std::vector<EmbeddedFile> deepspeed_data;
}

Json deepspeed_data(std::string_view name) {
  const std::string path = "frameworks/deepspeed/config/" + std::string(name);
  for (const embedded::EmbeddedFile& file : embedded::deepspeed_data)
    if (file.name == path) return parse_json(file.text, path);
  return {};
}

const DsKeys& ds_keys() {
  static const DsKeys keys = read_keys(deepspeed_data("keys.json"));
  return keys;
}

const DsSection* find_section(const DsKeys& keys, std::string_view pointer) {
  const auto at = std::find_if(keys.sections.begin(), keys.sections.end(),
                               [&](const DsSection& each) { return each.pointer == pointer; });
  return at == keys.sections.end() ? nullptr : &*at;
}

std::string json_name(const DsSection& section, const std::string& key) {
  const auto name = section.json_names.find(key);
  return name == section.json_names.end() ? key : name->second;
}

const Arguments* find_optimizer(const DsKeys& keys, const std::string& type) {
  auto at = keys.optimizers.find(lower_case(type));
  if (at == keys.optimizers.end()) at = keys.optimizers.find(type);
  return at == keys.optimizers.end() ? nullptr : &at->second;
}

bool is_auto(const Json& value) { return value.is_string() && value.get_ref<const std::string&>() == "auto"; }
bool is_auto(const JsonReader& value) { return is_auto(value.raw()); }

}  // namespace zplan
