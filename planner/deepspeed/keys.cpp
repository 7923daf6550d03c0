#include "planner/deepspeed/keys.h"

#include <fmt/format.h>

#include <algorithm>

#include "models/base/embedded.h"
#include "models/base/names.h"

namespace zplan {

namespace embedded {
extern const std::vector<EmbeddedFile> deepspeed_data;
}

namespace {

Json embedded_json(std::string_view name) {
  for (const embedded::EmbeddedFile& file : embedded::deepspeed_data)
    if (file.name == name) return parse_json(file.text, std::string(name));
  return {};
}

std::vector<std::string> texts(const Json& list) { return list.get<std::vector<std::string>>(); }

DsSection read_section(const Json& entry) {
  DsSection section{entry.at("pointer"), entry.at("unknown") == "rejected", texts(entry.at("keys"))};
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
  keys.auto_pointers = texts(file.at("auto"));
  return keys;
}

bool holds(const std::vector<std::string>& list, std::string_view word) {
  return std::find(list.begin(), list.end(), word) != list.end();
}

std::string lower(std::string text) {
  for (char& c : text)
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  return text;
}

template <class Map>
std::vector<std::string> names(const Map& map) {
  std::vector<std::string> all;
  for (const auto& [name, ignored] : map) all.push_back(name);
  return all;
}

/// One walk over a document: errors are thrown, warnings collected.
struct Walk {
  const DsKeys& keys;
  std::vector<std::string> warnings{};

  void object(const JsonReader& at, const std::string& pointer);
  void known_key(const JsonReader& at, const DsSection& section, const std::string& key);
  void unknown_key(const JsonReader& at, const DsSection& section, const std::string& key);
  void removed_key(const JsonReader& at, const std::string& pointer, const std::string& key) const;
  void auto_value(const JsonReader& value, const std::string& pointer, bool pydantic);
};

void Walk::removed_key(const JsonReader& at, const std::string& pointer, const std::string& key) const {
  const auto removed = keys.removed.find(pointer);
  if (removed == keys.removed.end() || !holds(removed->second, key)) return;
  at.fail(fmt::format("{} was removed from DeepSpeed, which stops at it", in_quotes(key)),
          "accepted: no such key");
}

void Walk::unknown_key(const JsonReader& at, const DsSection& section, const std::string& key) {
  const std::string accepted = accepted_words(key, section.keys);
  // At the top level DeepSpeed ignores it too, but a setting that is lost there is a whole section.
  if (section.rejects_unknown || section.pointer.empty())
    at.fail(fmt::format("unknown key {}", in_quotes(key)), accepted);
  const auto near = nearest_word(key, section.keys);
  warnings.push_back(fmt::format("{}: DeepSpeed ignores the unknown key {}{}", at.place(), in_quotes(key),
                                 near ? fmt::format(", did you mean \"{}\"?", *near) : ""));
}

void Walk::known_key(const JsonReader& at, const DsSection& section, const std::string& key) {
  const auto replaced = section.replaced_by.find(key);
  if (replaced != section.replaced_by.end())
    warnings.push_back(
        fmt::format("{}/{} is deprecated: {} took its place", at.place(), key, replaced->second));
  const auto value = at.find(key);
  if (!value) return;
  const std::string pointer = section.pointer + "/" + key;
  if (is_auto(*value))
    auto_value(*value, pointer, section.rejects_unknown);
  else
    object(*value, pointer);
}

void Walk::auto_value(const JsonReader& value, const std::string& pointer, bool pydantic) {
  if (holds(keys.auto_pointers, pointer) || pointer == "/data_types/keep_in_fp32_modules") return;
  if (pointer.starts_with("/zero_optimization/zenflow/")) return;
  warnings.push_back(fmt::format("{}: neither the HF Trainer nor accelerate fills in this \"auto\"{}",
                                 value.place(), pydantic ? ", and DeepSpeed takes its default" : ""));
}

void Walk::object(const JsonReader& at, const std::string& pointer) {
  if (!at.raw().is_object()) return;
  const DsSection* section = find_section(keys, pointer);
  if (!section) return;
  for (const std::string& key : at.keys()) {
    removed_key(at, pointer, key);
    if (holds(section->keys, key))
      known_key(at, *section, key);
    else
      unknown_key(at, *section, key);
  }
}

void check_arguments(const JsonReader& section, const Arguments& known) {
  const auto params = section.find("params");
  if (params && known) params->only_keys(*known);
}

void check_optimizer(const DsKeys& keys, const JsonReader& section) {
  const auto params = section.find("params");
  if (params && params->has("max_grad_norm"))
    params->fail("\"max_grad_norm\", which DeepSpeed takes nowhere",
                 "accepted: gradient_clipping at the top level");
  const JsonReader type = section.at("type");
  const Arguments* known = find_optimizer(keys, type.text());
  if (!known) type.fail(in_quotes(type.text()), accepted_words(type.text(), names(keys.optimizers)));
  check_arguments(section, *known);
}

void check_scheduler(const DsKeys& keys, const JsonReader& section) {
  // Other types are classes of torch.optim.lr_scheduler: no plan depends on them.
  const auto known = keys.schedulers.find(section.at("type").text());
  if (known != keys.schedulers.end()) check_arguments(section, known->second);
}

}  // namespace

const DsKeys& ds_keys() {
  static const DsKeys keys = read_keys(embedded_json("deepspeed/keys.json"));
  return keys;
}

const DsSection* find_section(const DsKeys& keys, std::string_view pointer) {
  const auto at = std::find_if(keys.sections.begin(), keys.sections.end(),
                               [&](const DsSection& each) { return each.pointer == pointer; });
  return at == keys.sections.end() ? nullptr : &*at;
}

const Arguments* find_optimizer(const DsKeys& keys, const std::string& type) {
  auto at = keys.optimizers.find(lower(type));
  if (at == keys.optimizers.end()) at = keys.optimizers.find(type);
  return at == keys.optimizers.end() ? nullptr : &at->second;
}

bool is_auto(const Json& value) { return value.is_string() && value.get_ref<const std::string&>() == "auto"; }
bool is_auto(const JsonReader& value) { return is_auto(value.raw()); }

std::vector<std::string> check_keys(const JsonReader& config) {
  const DsKeys& keys = ds_keys();
  if (!config.raw().is_object()) config.fail_type("a JSON object");
  Walk walk{keys};
  walk.object(config, "");
  if (const auto optimizer = config.find("optimizer")) check_optimizer(keys, *optimizer);
  if (const auto scheduler = config.find("scheduler")) check_scheduler(keys, *scheduler);
  return walk.warnings;
}

}  // namespace zplan
