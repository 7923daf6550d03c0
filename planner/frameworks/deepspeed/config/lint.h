#pragma once
// Finds everything that is wrong with a ds_config: each with its place, DeepSpeed's reaction, and a
// correction.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "models/base/names.h"
#include "planner/frameworks/deepspeed/config/ds_config.h"
#include "planner/frameworks/deepspeed/config/lint_text.h"
#include "planner/question/strategy.h"

namespace zplan {

enum class Severity { error, warning, note };
template <>
struct EnumNames<Severity> {
  static constexpr std::array<std::pair<Severity, std::string_view>, 3> table{
      {{Severity::error, "error"}, {Severity::warning, "warning"}, {Severity::note, "note"}}};
};

/// DeepSpeed's reaction to a mistake.
enum class Outcome {
  raises,         ///< stops with an exception
  ignored,        ///< goes on as if it were not there, without a word
  default_value,  ///< takes its default
  converted,      ///< takes it as another value
  runs            ///< does what is written, though that is hardly intended, or fails elsewhere
};
template <>
struct EnumNames<Outcome> {
  static constexpr std::array<std::pair<Outcome, std::string_view>, 5> table{
      {{Outcome::raises, "raises"},
       {Outcome::ignored, "ignored"},
       {Outcome::default_value, "default"},
       {Outcome::converted, "converted"},
       {Outcome::runs, "runs"}}};
};

/// One rule. All of them are in lint_rules(), which docs/lint.md lists and SARIF reports.
struct LintRule {
  std::string_view id;      ///< kebab-case; never changes its meaning
  Severity severity{};      ///< of its findings, unless the rule says otherwise
  std::string_view what;    ///< one line
  std::string_view source;  ///< where DeepSpeed 0.19.8, or who reads the file, does it
};
[[nodiscard]] const std::vector<LintRule>& lint_rules();
/// The rule, which must exist.
[[nodiscard]] const LintRule& lint_rule(std::string_view id);

struct LintFix {
  std::string what;  ///< "rename to \"gradient_clipping\""
  std::vector<TextEdit> edits;
};

struct Finding {
  std::string rule;
  Severity severity{};
  std::string pointer;  ///< RFC 6901; "" is the document
  LineColumn place{};
  Outcome outcome{};
  std::string found;              ///< what is written: unknown key "gradient_clipp1ng"
  std::string effect;             ///< what DeepSpeed makes of it
  std::string advice;             ///< what to write instead; may be empty
  std::optional<LintFix> fix{};   ///< the repair that keeps what was most likely meant
  std::vector<LintFix> others{};  ///< repairs that give up another part of it
};

/// Facts that the file alone does not state.
struct LintOptions {
  std::optional<ConfigStyle> style{};  ///< who fills in "auto"; absent: by what the file holds
  std::optional<std::int64_t> gpus{};
  std::optional<std::int64_t> tensor_parallel{};
  std::optional<std::int64_t> sequence_parallel{};
  std::string architecture{};        ///< of --model; empty: not known
  std::int64_t experts{};            ///< of its mixtures
  std::string compute_capability{};  ///< of the GPU: "7.5"; empty: not known
  std::string nvme_path{};           ///< folder for swap files; empty: not given
  DeepSpeedRelease release{};        ///< decides how gradients are clipped where no key says it
};

/// hf_auto where the HF Trainer fills something in the document, plain otherwise.
[[nodiscard]] ConfigStyle inferred_style(const Json& document);

/// Returns everything that is wrong with the text of a ds_config, by place in the file. `source` is its name
/// in messages. Throws InputError, naming line and column, where the text is no JSON even without its
/// comments.
[[nodiscard]] std::vector<Finding> lint(std::string_view text, const std::string& source,
                                        const LintOptions& options = {});

struct FixedText {
  std::string text;
  std::vector<Finding> fixed;  ///< what was repaired, in that order; places are of the text as it then was
};
/// Repairs everything whose meaning is clear: of several corrections the one that keeps most of what is
/// written, a batch or an offload above all. The rest of the text keeps its layout. Fixing a fixed text
/// changes nothing.
[[nodiscard]] FixedText fix(std::string_view text, const std::string& source,
                            const LintOptions& options = {});

[[nodiscard]] bool has_errors(const std::vector<Finding>& findings);

}  // namespace zplan
