#pragma once
// A planned scenario: made off the GUI thread, read-only afterwards.

#include <QString>
#include <memory>
#include <vector>

#include "cli/scenarios/scenario_plan.h"

namespace zplan::gui {

/// A scenario with its answer.
using Planned = PlannedScenario;
using PlannedPtr = std::shared_ptr<const Planned>;

/// The reason why a scenario has no answer.
struct Problem {
  QString place;  ///< option or file: "--gpus"
  QString text;   ///< one line, place included
  bool operator==(const Problem&) const = default;
};

using zplan::Depth;

/// Plans a scenario as `zplan` does with its arguments. A glance plans only the plan with the id `likely`.
/// Throws InputError.
[[nodiscard]] inline PlannedPtr plan_scenario(const Scenario& scenario, const Environment& environment,
                                              Depth depth, const std::string& likely = {}) {
  return std::make_shared<const Planned>(planned_scenario(scenario, environment, depth, likely));
}

/// One column of a comparison: a plan with the question that it answers.
struct Subject {
  QString title;
  PlannedPtr planned;
  std::size_t index{};  ///< of the plan in planned->answer.plans
  quint64 scenario{};   ///< id in the session
  bool stale{};         ///< the question changed and the new one has no answer
  [[nodiscard]] const Plan& plan() const { return planned->answer.plans[index]; }
  [[nodiscard]] const Question& question() const { return planned->question; }
  /// True if the figures are first estimates or belong to an earlier question.
  [[nodiscard]] bool is_draft() const { return stale || (planned->draft && index != planned->shown); }
};
using Subjects = std::vector<Subject>;

}  // namespace zplan::gui
