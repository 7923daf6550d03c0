#include "planner/frameworks/deepspeed/config/not_counted.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "planner/frameworks/deepspeed/config/data.h"
#include "planner/frameworks/deepspeed/config/keys.h"

namespace zplan {

namespace {

const Json& settings() {
  static const Json list = deepspeed_data("not_counted.json").at("settings");
  return list;
}

/// What stands at `pointer`, or null.
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
