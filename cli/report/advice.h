#pragma once
// Reports the advice of an answer: plans that train faster than the question's own, or that fit where none of
// its own does.

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "cli/document/document.h"
#include "cli/report/report.h"

namespace zplan {

/// A line of advice. Those that are indented belong to the one before.
struct AdviceLine {
  std::string text;
  Tone tone{Tone::plain};
  bool is_command{};  ///< it is not wrapped
  bool indented{};
};

/// Returns the advice, most important first; nothing where the report has none, or nothing is worth a change.
[[nodiscard]] std::vector<AdviceLine> advice_lines(const Report& report);
void add_advice(Document& doc, const Report& report);

/// Returns the advised plan; null where nothing is worth a change.
[[nodiscard]] const Advised* improving_advice(const Report& report);

/// Returns the commands that plan what is advised: one, or none where nothing is worth a change.
[[nodiscard]] std::vector<std::string> advised_commands(const Report& report);

/// Returns the commands that plan what is offered, which trains something else.
[[nodiscard]] std::vector<std::string> offered_commands(const Report& report);

/// Returns "advice" of the JSON report; null where the report has none.
[[nodiscard]] Json advice_json(const Report& report);

}  // namespace zplan
