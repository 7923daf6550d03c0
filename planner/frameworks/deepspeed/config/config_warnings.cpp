#include "planner/frameworks/deepspeed/config/config_warnings.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>

#include "planner/frameworks/deepspeed/config/config_warnings.h"
#include "planner/frameworks/deepspeed/config/keys.h"
#include "planner/frameworks/deepspeed/config/lint.h"
#include "planner/frameworks/deepspeed/config/lint_context.h"

namespace zplan {

namespace {

// ---- the rules of lint

/// Rules at which a plan stops: DeepSpeed stops too, or a misspelt setting is lost, at the top level perhaps
/// a whole section.
constexpr std::array<std::string_view, 16> kStops{
    "unknown-key",           "unknown-section-key", "removed-key",
    "deprecated-beside-new", "two-names",           "optimizer-type",
    "optimizer-argument",    "scheduler-type",      "scheduler-argument",
    "missing-type",          "max-grad-norm",       "two-precisions",
    "odd-allgather-bucket",  "nvme-without-path",   "batch-autotp-zero3",
    "not-an-object"};
/// Rules that become warnings: the config is planned all the same.
constexpr std::array<std::string_view, 6> kSaid{"misplaced-key",  "ignored-key",      "ignored-section-key",
                                                "deprecated-key", "shadowed-section", "auto-nobody-fills"};

std::string place(const JsonReader& config, const std::string& pointer) {
  return pointer.empty() ? config.place() : config.place() + "#" + pointer;
}

std::string object_of(const std::string& pointer) { return pointer.substr(0, pointer.rfind('/')); }

/// A key that should not be there is named in what was found, and its object is the place.
bool is_of_key(const Finding& finding) {
  return finding.rule.ends_with("-key") || finding.rule.ends_with("-argument") ||
         finding.rule == "max-grad-norm" || finding.rule == "two-names";
}

[[noreturn]] void fail(const JsonReader& config, const Finding& finding) {
  throw InputError(place(config, is_of_key(finding) ? object_of(finding.pointer) : finding.pointer),
                   finding.found, finding.advice);
}

std::string sentence(const JsonReader& config, const Finding& finding) {
  if (finding.rule == "auto-nobody-fills")
    return fmt::format("{}: neither the HF Trainer nor accelerate fills in this \"auto\"{}",
                       place(config, finding.pointer),
                       finding.outcome == Outcome::default_value ? ", and DeepSpeed takes its default" : "");
  if (finding.rule == "deprecated-key")
    return fmt::format("{} is deprecated: {}", place(config, finding.pointer), finding.advice);
  return fmt::format("{}: DeepSpeed ignores the {}, {}", place(config, object_of(finding.pointer)),
                     finding.found, finding.advice);
}

// ---- settings that no plan counts

const Json& settings() {
  static const Json list = deepspeed_data("not_counted.json").at("settings");
  return list;
}

/// Returns the value at `pointer`, or null.
const Json& value_at(const Json& document, const std::string& pointer) {
  static const Json nothing;
  const Json::json_pointer where(pointer);
  return document.contains(where) ? document.at(where) : nothing;
}

/// The setting's value: by its JSON name or by DeepSpeed's field name, which is accepted too.
const Json& given(const Json& document, const Json& setting) {
  const std::string key = setting.at("key");
  const Json& value = value_at(document, key);
  if (!value.is_null() || !setting.contains("field")) return value;
  return value_at(document, key.substr(0, key.rfind('/') + 1) + setting.at("field").get<std::string>());
}

bool applies(const Json& document, const Json& setting, int stage) {
  if (setting.contains("stages")) {
    const Json& stages = setting.at("stages");
    if (std::find(stages.begin(), stages.end(), Json(stage)) == stages.end()) return false;
  }
  if (!setting.contains("when")) return true;
  return value_at(document, setting.at("when").at("key")) == setting.at("when").at("is");
}

}  // namespace

std::vector<std::string> check_keys(const JsonReader& config) {
  std::vector<std::string> warnings;
  for (const Finding& finding : lint(config.raw().dump(), config.place())) {
    if (holds(kStops, finding.rule)) fail(config, finding);
    if (holds(kSaid, finding.rule)) warnings.push_back(sentence(config, finding));
  }
  return warnings;
}

std::vector<std::string> not_counted(const JsonReader& config, int stage) {
  std::vector<std::string> found;
  for (const Json& setting : settings()) {
    const Json& value = given(config.raw(), setting);
    if (value.is_null() || is_auto(value) || value == setting.at("default")) continue;
    if (!applies(config.raw(), setting, stage)) continue;
    const std::string shown =
        value.is_structured()
            ? ""
            : " = " + (value.is_string() ? in_quotes(value.get<std::string>()) : value.dump());
    found.push_back(fmt::format("not counted: {}#{}{} ({})", config.place(),
                                setting.at("key").get<std::string>(), shown,
                                setting.at("what").get<std::string>()));
  }
  return found;
}

}  // namespace zplan
