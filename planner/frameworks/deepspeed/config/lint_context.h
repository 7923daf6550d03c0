#pragma once
// The data and the context of lint rules. Data: kinds of values (keys.json), keys without effect, and
// frequent mistakes (lint.json). The context: the document, look-ups in it, and the findings.

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "planner/frameworks/deepspeed/config/keys.h"
#include "planner/frameworks/deepspeed/config/lint.h"

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
  std::string move_to;    ///< pointer of the key that is meant, in another section; empty: none
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

struct LintContext {
  const DsText& ds;
  const LintOptions& options;
  ConfigStyle style{};
  int stage{};  ///< as DeepSpeed resolves it; 0 where it stops at it
  std::vector<Finding> findings{};
  TextPlaces places{ds.text};
  std::unordered_map<std::string, const Json*> values{};  ///< pointer → value; see note_values()

  /// Notes where each value of the document is, so that at() finds it among many.
  void note_values();

  /// The text of a finding.
  struct Saying {
    std::string found;
    Outcome outcome{};
    std::string effect;
    std::string advice{};
    std::optional<LintFix> fix{};
    std::vector<LintFix> others{};
  };
  /// A finding at the key that `pointer` names, or at its value where it has no key.
  Finding& add(std::string_view rule, const std::string& pointer, Saying saying);

  /// The value at a pointer; null where there is none.
  [[nodiscard]] const Json& at(const std::string& pointer) const;
  /// True if the value at a pointer exists and is not null.
  [[nodiscard]] bool has(const std::string& pointer) const;
  /// The value of a switch: as DeepSpeed's pydantic sections read it, absent and "auto" as `fallback`.
  [[nodiscard]] bool flag(const std::string& pointer, bool fallback) const;
  /// A whole number, also one that is written as 5e8; nothing for everything else.
  [[nodiscard]] std::optional<std::int64_t> whole(const std::string& pointer) const;
  /// A text; empty for everything else.
  [[nodiscard]] std::string text(const std::string& pointer) const;
  /// The device of an offload section; "none" where there is none.
  [[nodiscard]] std::string device(const std::string& section) const;
  /// "bf16", "fp16" or "fp32", "" where the Trainer decides.
  [[nodiscard]] std::string precision() const;
  /// The option, or `sequence_parallel_size`, or 1.
  [[nodiscard]] std::int64_t sequence_parallel() const;

  [[nodiscard]] LintFix removal(const std::string& pointer) const;
  /// Writes `json` as the value of a key, over the value there or as a new member. Its object must exist.
  [[nodiscard]] LintFix writing(const std::string& pointer, const std::string& json) const;
};

/// "write A; or write B": the repairs of a finding, that of --fix first.
[[nodiscard]] std::string offered(const std::optional<LintFix>& fix, const std::vector<LintFix>& others);

/// The section of ZeRO.
inline const std::string kZero = "/zero_optimization";

template <class List>
[[nodiscard]] bool holds(const List& list, std::string_view word) {
  return std::find(list.begin(), list.end(), word) != list.end();
}

/// True if a key is a comment by its name: "_comment", "__comment__", "comment", "//", "_" and whatever
/// begins so.
[[nodiscard]] bool is_comment_key(std::string_view key);

/// A value as it is shown in a message: scalars as JSON, shortened; of the rest what they are.
[[nodiscard]] std::string shown_value(const Json& value);

/// True if the HF Trainer or accelerate fills in "auto" at a pointer.
[[nodiscard]] bool filled_by_trainer(std::string_view pointer);
/// True if DeepSpeed itself gives "auto" a meaning there.
[[nodiscard]] bool auto_is_native(std::string_view pointer);

// The groups of rules. Each adds its findings.
void lint_text_flaws(LintContext& context);
void lint_all_keys(LintContext& context);
void lint_arguments(LintContext& context);
void lint_values(LintContext& context);
void lint_auto(LintContext& context);
void lint_batch(LintContext& context);
void lint_sequence(LintContext& context);
void lint_experts(LintContext& context);
void lint_stage(LintContext& context);
void lint_precision(LintContext& context);
void lint_optimizer(LintContext& context);
void lint_scheduler(LintContext& context);

}  // namespace zplan
