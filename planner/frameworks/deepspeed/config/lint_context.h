#pragma once
// The context of lint rules: the document, look-ups in it, and the findings.

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

#include "planner/frameworks/deepspeed/config/keys.h"
#include "planner/frameworks/deepspeed/config/lint.h"

namespace zplan {

struct LintContext {
  const DsText& ds;
  const LintOptions& options;
  ConfigStyle style{};
  int stage{};  ///< as DeepSpeed resolves it; 0 where it stops at it
  std::vector<Finding> findings{};

  /// The text of a finding.
  struct Saying {
    std::string found;
    Outcome outcome{};
    std::string effect;
    std::string advice{};
    std::optional<LintFix> fix{};
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
};

/// The section of ZeRO.
inline const std::string kZero = "/zero_optimization";

template <class List>
[[nodiscard]] bool holds(const List& list, std::string_view word) {
  return std::find(list.begin(), list.end(), word) != list.end();
}

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
