#include "models/inventories/fields.h"

#include <fmt/format.h>

#include <array>
#include <cmath>
#include <optional>
#include <utility>

namespace zplan {

namespace {

constexpr std::int64_t kMostItems = 10'000;

/// Returns the member that a path names ("attn_config.kv_n_heads"), nothing where there is none.
const Json* member_at(const Json& root, const std::string& path) {
  const Json* at = &root;
  for (std::size_t begin = 0; begin <= path.size();) {
    const std::size_t end = std::min(path.find('.', begin), path.size());
    if (!at->is_object()) return nullptr;
    const auto found = at->find(path.substr(begin, end - begin));
    if (found == at->end() || found->is_null()) return nullptr;
    at = &*found;
    begin = end + 1;
  }
  return at;
}

Json member_of(const Json& object, const std::string& path) {
  const Json* found = member_at(object, path);
  return found == nullptr ? Json() : *found;
}

/// transformers' newer words for kinds of layers. Source: transformers 5.23 configuration_utils.py.
std::string layer_word(const std::string& word) {
  static constexpr std::array<std::pair<std::string_view, std::string_view>, 4> kNewer{
      {{"mamba", "linear_attention"},
       {"attention", "full_attention"},
       {"deepseek_sparse_attention", "indexed_attention"},
       {"qwen_sparse_attention", "indexed_attention"}}};
  for (const auto& [old, newer] : kNewer)
    if (word == old) return std::string(newer);
  return word;
}

/// Nemotron-H's pattern of layers as a list. Source: transformers 5.23 configuration_nemotron_h.py.
Json layers_of_pattern(const std::string& pattern) {
  Json layers = Json::array();
  for (const char each : pattern)
    layers.push_back(each == 'M'   ? "linear_attention"
                     : each == 'E' ? "moe"
                     : each == '*' ? "full_attention"
                                   : "mlp");
  return layers;
}

bool is_whole(const Json& value) {
  return value.is_number_integer() &&
         !(value.is_number_unsigned() && value.get<std::uint64_t>() > static_cast<std::uint64_t>(INT64_MAX));
}

bool is_true(const Json& value) {
  if (value.is_boolean()) return value.get<bool>();
  if (value.is_number()) return value.get<double>() != 0;
  return (value.is_string() && !value.get_ref<const std::string&>().empty()) ||
         (value.is_structured() && !value.empty());
}

/// Returns the result for whole numbers, null where it is too large for one or divided by 0.
Json of_whole(char sign, std::int64_t a, std::int64_t b) {
  std::int64_t result = 0;
  switch (sign) {
    case '+': return __builtin_add_overflow(a, b, &result) ? Json() : Json(result);
    case '-': return __builtin_sub_overflow(a, b, &result) ? Json() : Json(result);
    case '*': return __builtin_mul_overflow(a, b, &result) ? Json() : Json(result);
    default: break;
  }
  if (b == 0 || (a == INT64_MIN && b == -1)) return {};
  const bool inexact = a % b != 0 && (a < 0) != (b < 0);
  return sign == '%' ? Json(a % b + (inexact ? b : 0)) : Json(a / b - (inexact ? 1 : 0));
}

Json of_real(const std::string& sign, double a, double b) {
  if (sign == "+") return a + b;
  if (sign == "-") return a - b;
  if (sign == "*") return a * b;
  if (b == 0) return {};
  if (sign == "/") return a / b;
  if (sign == "//") return std::floor(a / b);
  return a - b * std::floor(a / b);
}

Json calculated(const std::string& sign, const Json& a, const Json& b) {
  if (!a.is_number() || !b.is_number()) return {};
  if (is_whole(a) && is_whole(b) && sign != "/") {
    Json whole = of_whole(sign == "//" ? ':' : sign[0], a.get<std::int64_t>(), b.get<std::int64_t>());
    if (!whole.is_null()) return whole;
  }
  return of_real(sign, a.get<double>(), b.get<double>());
}

/// floor, ceil, and round as Python rounds: halves to even numbers.
Json rounded(const std::string& how, const Json& value) {
  if (is_whole(value) || !value.is_number()) return value.is_number() ? value : Json();
  const double given = value.get<double>();
  const double made = how == "ceil"    ? std::ceil(given)
                      : how == "floor" ? std::floor(given)
                                       : std::nearbyint(given);
  if (!(std::abs(made) < 0x1p60)) return {};
  return static_cast<std::int64_t>(made);
}

bool are_equal(const Json& a, const Json& b) {
  if (a.is_string() && b.is_string())
    return layer_word(a.get_ref<const std::string&>()) == layer_word(b.get_ref<const std::string&>());
  if (a.is_boolean() != b.is_boolean()) return false;
  return a == b;
}

/// One number may stand for all layers.
Json item_of(const Json& list, const Json& place) {
  if (!list.is_array()) return list;
  if (!is_whole(place)) return {};
  const auto at = place.get<std::int64_t>();
  return at < 0 || at >= static_cast<std::int64_t>(list.size()) ? Json() : list[static_cast<std::size_t>(at)];
}

bool has_item(const Json& list, const Json& value) {
  if (!list.is_array()) return false;
  for (const Json& each : list)
    if (are_equal(each, value)) return true;
  return false;
}

}  // namespace

ConfigFields::ConfigFields(const JsonReader& config, const Json& rules) : config_(config), rules_(rules) {}

const Json* ConfigFields::given(const std::string& path) const {
  if (const Json* found = member_at(config_.raw(), path)) return found;
  for (const auto& [other, own] : rules_.at("aliases").items())
    if (own == path)
      if (const Json* found = member_at(config_.raw(), other)) return found;
  return nullptr;
}

const Json& ConfigFields::field(const std::string& path) const {
  const auto known = known_.find(path);
  if (known != known_.end()) return known->second;
  static const Json kNone;
  if (!open_.insert(path).second) return kNone;
  Json value = filled_in(path);
  open_.erase(path);
  return known_.emplace(path, std::move(value)).first->second;
}

Json ConfigFields::filled_in(const std::string& path) const {
  const Json& rules = rules_.at("fields");
  const auto rule = rules.find(path);
  if (const Json* said = given(path)) {
    const bool is_list =
        rule != rules.end() &&
        (rule->contains("each") || (rule->contains("default") && rule->at("default").is_array()));
    if (said->is_string() && is_list) return layers_of_pattern(said->get<std::string>());
    const bool is_number = rule != rules.end() && rule->contains("else");
    const bool replaced = is_number && rule->contains("unless") && *said == rule->at("unless");
    if (!replaced && !(said->is_string() && is_number)) return *said;  // else "auto", or −1
  }
  return rule == rules.end() ? Json() : by_rule(*rule);
}

/// Returns words for a list of flags that older configs have in the place of a list of kinds: moe_layer_freq
/// for mlp_layer_types. Null where the config has none.
Json ConfigFields::words_of_flags(const Json& flags) const {
  const Json* said = given(flags.at("field").get<std::string>());
  if (said == nullptr || !said->is_array()) return {};
  Json words = Json::array();
  for (const Json& each : *said)
    words.push_back(each == 0 || each == false ? flags.at("off") : flags.at("on"));
  return words;
}

Json ConfigFields::as_given(const std::string& path) const {
  if (const Json* said = given(path)) return *said;
  const auto rule = rules_.at("fields").find(path);
  return rule != rules_.at("fields").end() && rule->contains("default") ? rule->at("default") : Json();
}

Json ConfigFields::by_rule(const Json& rule) const {
  if (const auto flags = rule.find("flags"); flags != rule.end())
    if (Json words = words_of_flags(*flags); words.is_array()) return words;
  if (const auto constant = rule.find("default"); constant != rule.end()) return *constant;
  if (const auto otherwise = rule.find("else"); otherwise != rule.end()) return value(*otherwise, {});
  const Json count = value(rule.at("count"), {});
  if (!is_whole(count) || count.get<std::int64_t>() > kMostItems) return {};
  Json list = Json::array();
  for (std::int64_t i = 0; i < count.get<std::int64_t>(); ++i) list.push_back(value(rule.at("each"), {i}));
  return list;
}

const Json& ConfigFields::looked_up(const Json& expression, const Places& places, Json& held) const {
  if (expression.is_string())
    if (const auto& name = expression.get_ref<const std::string&>(); !name.starts_with('#'))
      return field(name);
  held = value(expression, places);
  return held;
}

Json ConfigFields::value(const Json& expression, const Places& places) const {
  if (expression.is_string()) {
    const auto& name = expression.get_ref<const std::string&>();
    if (!name.starts_with('#')) return field(name);
    const auto at = static_cast<std::size_t>(name[1] - '0');
    return at < places.size() ? Json(places[at]) : Json();
  }
  if (!expression.is_array()) return expression;
  const auto& sign = expression.at(0).get_ref<const std::string&>();
  if (sign == "word") return expression.at(1);
  if (sign == "raw") return as_given(expression.at(1).get_ref<const std::string&>());
  if (sign == "if") return value(expression.at(holds(expression.at(1), places) ? 2 : 3), places);
  Json held;
  const Json& first = looked_up(expression.at(1), places, held);
  if (sign == "null") return first.is_null();
  if (sign == "on") return is_true(first);
  if (sign == "not") return !is_true(first);
  if (sign == "is") return are_equal(first, expression.at(2));
  if (sign == "len") return first.is_array() ? Json(static_cast<std::int64_t>(first.size())) : Json();
  if (sign == "ceil" || sign == "floor" || sign == "round") return rounded(sign, first);
  if (sign == "get") return member_of(first, expression.at(2).get_ref<const std::string&>());
  const Json second = value(expression.at(2), places);
  if (sign == "at") return item_of(first, second);
  if (sign == "in") return has_item(first, second);
  if (sign == "==") return !first.is_null() && are_equal(first, second);
  if (sign == "<")
    return first.is_number() && second.is_number() && first.get<double>() < second.get<double>();
  return calculated(sign, first, second);
}

bool ConfigFields::holds(const Json& expression, const Places& places) const {
  return is_true(value(expression, places));
}

std::int64_t ConfigFields::whole(const Json& expression, const Places& places, std::int64_t high) const {
  const Json found = value(expression, places);
  if (is_whole(found)) {
    const auto number = found.get<std::int64_t>();
    if (number >= 0 && number <= high) return number;
  } else if (found.is_number_float() && std::floor(found.get<double>()) == found.get<double>() &&
             found.get<double>() >= 0 && found.get<double>() <= static_cast<double>(high)) {
    return static_cast<std::int64_t>(found.get<double>());
  }
  fail(expression, found, high);
}

namespace {

/// Visits the fields of an expression.
template <class Visit>
void for_each_field(const Json& expression, const Visit& visit) {
  if (expression.is_string()) {
    if (const auto& name = expression.get_ref<const std::string&>(); !name.starts_with('#')) visit(name);
  } else if (expression.is_array() && expression.at(0) != "word") {
    const bool is_named = expression.at(0) == "is" || expression.at(0) == "get";
    const std::size_t end = is_named ? 2 : expression.size();
    for (std::size_t i = 1; i < end; ++i) for_each_field(expression.at(i), visit);
  }
}

}  // namespace

void ConfigFields::fail(const Json& expression, const Json& found, std::int64_t high) const {
  std::string names;
  for_each_field(expression, [&](const std::string& path) {
    const Json& value = field(path);
    if (value.is_null()) config_.fail(fmt::format("has no {}", in_quotes(path)), "this field is needed");
    if (const Json* said = given(path);
        said != nullptr && !value.is_number() && !value.is_array() && !value.is_boolean())
      throw InputError(fmt::format("{}#/{}", config_.place(), path), said->dump().substr(0, 40),
                       "accepted: a whole number");
    const std::string shown = fmt::format("{} {}", path, value.dump().substr(0, 40));
    if (names.find(shown) == std::string::npos) names += (names.empty() ? "" : ", ") + shown;
  });
  config_.fail(fmt::format("a size of {} from {}", found.is_null() ? "no number" : found.dump(), names),
               fmt::format("accepted: sizes from 0 to {}", high));
}

Json ConfigFields::filled_in() const {
  Json made = config_.raw();
  for (const auto& [path, rule] : rules_.at("fields").items()) {
    const Json& value = field(path);
    if (value.is_null()) continue;
    Json* at = &made;
    std::size_t begin = 0;
    for (std::size_t dot = path.find('.'); dot != std::string::npos; dot = path.find('.', begin)) {
      at = &(*at)[path.substr(begin, dot - begin)];
      if (!at->is_object()) *at = Json::object();
      begin = dot + 1;
    }
    (*at)[path.substr(begin)] = value;
  }
  return made;
}

}  // namespace zplan
