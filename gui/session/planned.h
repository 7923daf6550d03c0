#pragma once
// From a scenario to its answer: a value made off the GUI thread and then only read.

#include <QString>
#include <memory>
#include <vector>

#include "cli/scenarios/scenario_plan.h"

namespace zplan::gui {

/// What planning a scenario gave.
using Planned = PlannedScenario;
using PlannedPtr = std::shared_ptr<const Planned>;

/// Why a scenario has no answer.
struct Problem {
  QString place;  ///< option or file: "--gpus"
  QString text;   ///< one line, place included
  bool operator==(const Problem&) const = default;
};

using zplan::Depth;

/// The answer that `zplan` with the scenario's arguments gives, or a first one, for which `likely` is the id
/// of the plan that will probably be shown. Throws InputError.
[[nodiscard]] PlannedPtr plan_scenario(const Scenario& scenario, const Environment& environment, Depth depth,
                                       const std::string& likely = {});

/// One column of a comparison: a plan with the question that it answers.
struct Subject {
  QString title;
  PlannedPtr planned;
  std::size_t index{};  ///< of the plan in planned->answer.plans
  quint64 scenario{};   ///< id in the session
  bool stale{};         ///< the question is another by now and has no answer
  [[nodiscard]] const Plan& plan() const { return planned->answer.plans[index]; }
  [[nodiscard]] const Question& question() const { return planned->question; }
  /// Whether its figures are first estimates, or not of the question as it is now.
  [[nodiscard]] bool is_draft() const { return stale || (planned->draft && index != planned->shown); }
};
using Subjects = std::vector<Subject>;

}  // namespace zplan::gui
