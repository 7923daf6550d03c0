#pragma once
// Data of lint: kinds of values (keys.json), keys without effect, and frequent mistakes (lint.json).

#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "models/base/json_reader.h"
#include "models/base/names.h"

namespace zplan {

enum class ValueKind { boolean, integer, number, text, texts, list, object, choice, any, never };
template <>
struct EnumNames<ValueKind> {
  static constexpr std::array<std::pair<ValueKind, std::string_view>, 10> table{
      {{ValueKind::boolean, "boolean"},
       {ValueKind::integer, "integer"},
       {ValueKind::number, "number"},
       {ValueKind::text, "text"},
       {ValueKind::texts, "texts"},
       {ValueKind::list, "list"},
       {ValueKind::object, "object"},
       {ValueKind::choice, "choice"},
       {ValueKind::any, "any"},
       {ValueKind::never, "never"}}};
};

/// The values that a key accepts.
struct ValueRule {
  ValueKind kind{ValueKind::any};
  bool null{};                                   ///< null is the same as leaving the key out
  std::optional<double> gt{}, ge{}, lt{}, le{};  ///< greater than, at least, less than, at most
  std::vector<Json> choices{};
  bool any_case{};    ///< of choices: upper and lower case are the same
  bool checked{};     ///< pydantic reads it: it converts what it can, and raises for the rest
  bool exact{};       ///< a validator of its own takes no booleans
  bool raises{};      ///< not pydantic, but DeepSpeed checks it all the same
  bool harmless{};    ///< DeepSpeed does not stop at a value that is refused
  std::string say{};  ///< what happens to values that are refused, where that is special
};

/// The result of checking a value by its rule.
enum class Fit { right, converted, wrong_kind, out_of_range, no_choice };

/// Checks a value: as pydantic does if the rule is `checked`, else without pydantic's conversions.
[[nodiscard]] Fit fit_of(const ValueRule& rule, const Json& value);
/// Returns the value that pydantic converts to, as JSON: "true" becomes true.
[[nodiscard]] Json converted(const ValueRule& rule, const Json& value);
/// "a whole number from 0", "true or false".
[[nodiscard]] std::string accepted_by(const ValueRule& rule);

struct WithoutEffect {
  std::string key;          ///< pointer
  std::vector<int> stages;  ///< at which something reads it; empty: nowhere
  std::string unless;       ///< pointer of a setting with which it is read after all; may be empty
  std::string why;
};

/// A key that DeepSpeed has not and people write.
struct Mistake {
  std::string section, key;
  std::string say;
  std::string rename_to;  ///< the key that is meant; empty: none
  bool remove{};          ///< whether taking it out is what is meant
};

struct LintKnowledge {
  std::map<std::string, ValueRule> values;  ///< by pointer
  std::vector<std::string> nullable_sections;
  std::vector<WithoutEffect> without_effect;
  std::vector<Mistake> mistakes;
  std::vector<std::string> untested_optimizers;  ///< of DeepSpeed's own, those that ZeRO does not list
};
[[nodiscard]] const LintKnowledge& lint_knowledge();

/// Returns why a key has no effect at `stage`; nothing if it has one. Keys of ZeRO-3 are known by their
/// prefix.
[[nodiscard]] std::optional<std::string> without_effect(const Json& document, const std::string& pointer,
                                                        int stage);

}  // namespace zplan
