#include "models/base/json_parts.h"

#include <algorithm>
#include <nlohmann/json.hpp>

namespace zplan {

namespace {

constexpr std::string_view kSpace = " \t\r\n";

std::size_t skip_space(std::string_view text, std::size_t at) {
  return std::min(text.find_first_not_of(kSpace, at), text.size());
}

/// Behind the string that begins at `at`.
std::size_t behind_string(std::string_view text, std::size_t at) {
  for (++at; at < text.size() && text[at] != '"'; ++at)
    if (text[at] == '\\') ++at;
  return std::min(at + 1, text.size());
}

/// Behind the value that begins at `at`.
std::size_t behind_value(std::string_view text, std::size_t at) {
  int depth = 0;
  while (at < text.size()) {
    const char c = text[at];
    if (c == '"') {
      at = behind_string(text, at);
    } else {
      if (depth == 0 && (c == ',' || c == '}' || c == ']')) return at;
      if (c == '{' || c == '[') ++depth;
      if (c == '}' || c == ']') --depth;
      ++at;
    }
    if (depth == 0 && (c == '"' || c == '}' || c == ']')) return at;
  }
  return at;
}

}  // namespace

std::vector<JsonPart> json_parts(std::string_view text) {
  std::vector<JsonPart> parts;
  std::size_t at = skip_space(text, 0);
  if (at == text.size()) return parts;
  const bool has_keys = text[at] == '{';
  for (at = skip_space(text, at + 1); at < text.size() && text[at] != '}' && text[at] != ']';) {
    JsonPart part;
    if (has_keys) {
      const std::size_t end = behind_string(text, at);
      part.key = text.substr(at + 1, end - at - 2);
      at = skip_space(text, std::min(text.find(':', end), text.size() - 1) + 1);
    }
    const std::size_t end = behind_value(text, at);
    part.value = text.substr(at, end - at);
    parts.push_back(part);
    at = skip_space(text, end);
    if (at < text.size() && text[at] == ',') at = skip_space(text, at + 1);
  }
  return parts;
}

std::string_view json_member(std::string_view object, std::string_view key) {
  for (const JsonPart& each : json_parts(object))
    if (each.key == key) return each.value;
  return {};
}

std::string json_string(std::string_view text) {
  if (text.find('\\') != std::string_view::npos) return nlohmann::json::parse(text).get<std::string>();
  return std::string(text.substr(1, text.size() - 2));
}

}  // namespace zplan
