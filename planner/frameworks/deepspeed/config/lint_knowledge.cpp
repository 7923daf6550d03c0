#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <nlohmann/json.hpp>

#include "planner/frameworks/deepspeed/config/keys.h"
#include "planner/frameworks/deepspeed/config/lint_context.h"

namespace zplan {

namespace {

std::optional<double> limit(const Json& entry, const char* name) {
  return entry.contains(name) ? std::optional<double>(entry.at(name).get<double>()) : std::nullopt;
}

ValueRule read_rule(const Json& entry, bool checked) {
  ValueRule rule{.kind = parse_name<ValueKind>("kind", entry.at("kind").get<std::string>()),
                 .null = entry.value("null", false),
                 .gt = limit(entry, "gt"),
                 .ge = limit(entry, "ge"),
                 .lt = limit(entry, "lt"),
                 .le = limit(entry, "le"),
                 .any_case = entry.value("any_case", false),
                 .checked = checked,
                 .exact = entry.value("exact", false),
                 .raises = entry.value("raises", false),
                 .harmless = entry.value("harmless", false),
                 .say = entry.value("say", "")};
  if (entry.contains("choices")) rule.choices = entry.at("choices").get<std::vector<Json>>();
  return rule;
}

void read_values(const Json& keys, std::map<std::string, ValueRule>& rules) {
  for (const Json& section : keys.at("sections"))
    if (section.contains("values"))
      for (const auto& [key, entry] : section.at("values").items())
        rules[section.at("pointer").get<std::string>() + "/" + key] =
            read_rule(entry, section.at("unknown") == "rejected");
}

LintKnowledge read_knowledge(const Json& keys, const Json& file) {
  LintKnowledge known;
  read_values(keys, known.values);
  for (const auto& [pointer, entry] : file.at("values").items()) {
    const bool checked = known.values.contains(pointer) && known.values.at(pointer).checked;
    known.values[pointer] = read_rule(entry, checked);
  }
  known.nullable_sections = file.at("sections_that_may_be_null").get<std::vector<std::string>>();
  for (const Json& entry : file.at("without_effect"))
    known.without_effect.push_back(
        {entry.at("key"), entry.at("stages"), entry.value("unless", ""), entry.at("why")});
  for (const Json& entry : file.at("mistakes")) {
    const std::string fix = entry.value("fix", ""), to = entry.value("to", "");
    known.mistakes.push_back({.section = entry.at("section"),
                              .key = entry.at("key"),
                              .say = entry.at("say"),
                              .rename_to = fix == "rename" ? to : "",
                              .move_to = fix == "move" ? to : "",
                              .remove = fix == "remove"});
  }
  known.untested_optimizers = file.at("untested_optimizers").get<std::vector<std::string>>();
  return known;
}

// ---- how pydantic reads values in its lax mode

std::string trimmed(const std::string& text) {
  const std::size_t begin = text.find_first_not_of(" \t\r\n");
  if (begin == std::string::npos) return {};
  return text.substr(begin, text.find_last_not_of(" \t\r\n") + 1 - begin);
}

std::optional<bool> boolean_in(const Json& value) {
  if (value.is_boolean()) return value.get<bool>();
  if (value.is_number()) {
    if (value == 0) return false;
    return value == 1 ? std::optional(true) : std::nullopt;
  }
  if (!value.is_string()) return std::nullopt;
  const std::string word = lower_case(value.get<std::string>());
  for (const std::string_view yes : {"1", "true", "t", "yes", "y", "on"})
    if (word == yes) return true;
  for (const std::string_view no : {"0", "false", "f", "no", "n", "off"})
    if (word == no) return false;
  return std::nullopt;
}

/// Underscores between digits are pydantic's, and Python's.
std::optional<double> number_in(const Json& value) {
  if (value.is_number()) return value.get<double>();
  if (value.is_boolean()) return value.get<bool>() ? 1.0 : 0.0;
  if (!value.is_string()) return std::nullopt;
  std::string text = trimmed(value.get<std::string>());
  text.erase(std::remove(text.begin(), text.end(), '_'), text.end());
  if (text.starts_with('+')) text.erase(0, 1);
  double number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return number;
}

/// A text that holds a whole number has digits and perhaps ".0", no exponent.
bool is_whole_text(const Json& value) {
  return !value.is_string() || value.get_ref<const std::string&>().find_first_of("eEnN") == std::string::npos;
}

std::optional<double> integer_in(const Json& value) {
  const auto number = number_in(value);
  constexpr double kFloatsEnd = 9.2e18;  // of a float pydantic makes no more than 64 bits
  const bool whole = number && std::floor(*number) == *number &&
                     !(value.is_number_float() && std::abs(*number) > kFloatsEnd) && std::isfinite(*number);
  return whole && is_whole_text(value) ? number : std::nullopt;
}

bool is_kind(const ValueRule& rule, const Json& value) {
  switch (rule.kind) {
    case ValueKind::boolean: return value.is_boolean();
    case ValueKind::integer: return value.is_number() && integer_in(value).has_value();
    case ValueKind::number: return value.is_number();
    case ValueKind::text: return value.is_string();
    case ValueKind::texts:
      return value.is_array() &&
             std::all_of(value.begin(), value.end(), [](const Json& each) { return each.is_string(); });
    case ValueKind::list: return value.is_array();
    case ValueKind::object: return value.is_object();
    case ValueKind::never: return false;
    case ValueKind::choice:
    case ValueKind::any: return true;
  }
  return true;
}

bool can_convert(const ValueRule& rule, const Json& value) {
  if (!rule.checked || (rule.exact && value.is_boolean())) return false;
  if (rule.kind == ValueKind::boolean) return boolean_in(value).has_value();
  if (rule.kind == ValueKind::integer) return integer_in(value).has_value();
  return rule.kind == ValueKind::number && number_in(value).has_value();
}

bool in_range(const ValueRule& rule, const Json& value) {
  const auto number = number_in(value);
  if (!number || rule.kind == ValueKind::boolean) return true;
  return !(rule.gt && *number <= *rule.gt) && !(rule.ge && *number < *rule.ge) &&
         !(rule.lt && *number >= *rule.lt) && !(rule.le && *number > *rule.le);
}

bool is_choice(const ValueRule& rule, const Json& choice, const Json& value) {
  // Python's 1 == 1.0 == True, which is how an enum is looked up.
  if (choice.is_number() && (value.is_number() || value.is_boolean())) return choice == *number_in(value);
  if (choice.is_number() && rule.checked && value.is_string())
    return integer_in(value) == choice.get<double>();
  if (rule.any_case && choice.is_string() && value.is_string())
    return lower_case(choice.get<std::string>()) == lower_case(value.get<std::string>());
  return choice == value;
}

std::string range_text(const ValueRule& rule) {
  std::string text;
  if (rule.gt) text += fmt::format(" above {}", *rule.gt);
  if (rule.ge) text += fmt::format(" from {}", *rule.ge);
  if (rule.lt) text += fmt::format(" below {}", *rule.lt);
  if (rule.le) text += fmt::format(" to {}", *rule.le);
  return text;
}

/// The choice that a value stands for, or nothing.
std::optional<Json> chosen(const ValueRule& rule, const Json& value) {
  for (const Json& each : rule.choices)
    if (is_choice(rule, each, value)) return each;
  return std::nullopt;
}

}  // namespace

Fit fit_of(const ValueRule& rule, const Json& value) {
  if (value.is_null()) return rule.null || rule.kind == ValueKind::any ? Fit::right : Fit::wrong_kind;
  if (rule.kind == ValueKind::choice) {
    const auto choice = chosen(rule, value);
    if (!choice) return Fit::no_choice;
    // 2.0 for 2 and "BF16" for "bf16" are left as they are.
    return rule.any_case || value.type() == choice->type() || value.is_number() ? Fit::right : Fit::converted;
  }
  const bool right = is_kind(rule, value);
  if (!right && !can_convert(rule, value)) return Fit::wrong_kind;
  if (!in_range(rule, value)) return Fit::out_of_range;
  return right ? Fit::right : Fit::converted;
}

Json converted(const ValueRule& rule, const Json& value) {
  if (rule.kind == ValueKind::choice) return chosen(rule, value).value_or(value);
  if (rule.kind == ValueKind::boolean) return boolean_in(value).value_or(false);
  const double number = number_in(value).value_or(0);
  constexpr double kLargestInteger = 9e18;
  if (std::floor(number) == number && std::abs(number) < kLargestInteger)
    return static_cast<std::int64_t>(number);
  return number;
}

std::string accepted_by(const ValueRule& rule) {
  const std::string or_null = rule.null ? " or null" : "";
  switch (rule.kind) {
    case ValueKind::boolean: return "true or false" + or_null;
    case ValueKind::integer: return "a whole number" + range_text(rule) + or_null;
    case ValueKind::number: return "a number" + range_text(rule) + or_null;
    case ValueKind::text: return "a text in quotes" + or_null;
    case ValueKind::texts: return "a list of texts" + or_null;
    case ValueKind::list: return "a list" + or_null;
    case ValueKind::object: return "a JSON object" + or_null;
    case ValueKind::never: return "no such key";
    case ValueKind::any: return "anything";
    case ValueKind::choice: break;
  }
  std::vector<std::string> words;
  for (const Json& each : rule.choices) words.push_back(each.dump());
  return fmt::format("{}{}", fmt::join(words, ", "), or_null);
}

const LintKnowledge& lint_knowledge() {
  static const LintKnowledge known = read_knowledge(deepspeed_data("keys.json"), deepspeed_data("lint.json"));
  return known;
}

std::optional<std::string> without_effect(const Json& document, const std::string& pointer, int stage) {
  const DsSection& zero = *find_section(ds_keys(), "/zero_optimization");
  const std::string key = pointer.substr(pointer.rfind('/') + 1);
  const bool of_zero = pointer == zero.pointer + "/" + key;
  if (of_zero && json_name(zero, key).starts_with("stage3_") && stage < 3) return "only ZeRO-3 reads it";
  for (const WithoutEffect& each : lint_knowledge().without_effect) {
    if (each.key != pointer) continue;
    if (std::find(each.stages.begin(), each.stages.end(), stage) != each.stages.end()) return std::nullopt;
    const Json::json_pointer unless(each.unless);
    if (!each.unless.empty() && document.contains(unless)) {
      const Json& setting = document.at(unless);
      if (!setting.is_null() && setting != false) return std::nullopt;
    }
    return each.why;
  }
  return std::nullopt;
}

}  // namespace zplan
