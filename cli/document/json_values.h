#pragma once
// Values as JSON.

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "models/base/json_reader.h"
#include "models/base/names.h"

namespace zplan {

/// Returns the name of an enumerator.
template <class E>
[[nodiscard]] Json name_json(E value) {
  return std::string(to_name(value));
}

/// Returns the value, or null where there is none.
template <class T>
[[nodiscard]] Json or_null(const std::optional<T>& value) {
  return value ? Json(*value) : Json(nullptr);
}

/// Returns text, or null where it is empty.
[[nodiscard]] inline Json or_null(const std::string& text) {
  return text.empty() ? Json(nullptr) : Json(text);
}

/// Returns the list of what `make` makes of each item.
template <class Items, class Make>
[[nodiscard]] Json json_list(const Items& items, const Make& make) {
  Json out = Json::array();
  for (const auto& each : items) out.push_back(make(each));
  return out;
}

/// Returns a value as a field of CSV: nothing for null, other numbers than whole ones with nine digits.
[[nodiscard]] inline std::string csv_text(const Json& value) {
  if (value.is_null()) return "";
  if (value.is_string()) return value.get<std::string>();
  return value.is_number_float() ? fmt::format("{:.9g}", value.get<double>()) : value.dump();
}

}  // namespace zplan
