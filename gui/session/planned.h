#pragma once
// From a scenario to its answer: a value made off the GUI thread and then only read.

#include <QString>
#include <memory>
#include <optional>
#include <vector>

#include "cli/environment.h"
#include "cli/options.h"
#include "cli/report.h"
#include "cli/scenarios.h"

namespace zplan::gui {

/// What planning a scenario gave.
struct Planned {
  Scenario scenario;  ///< that was planned
  Options options;
  Question question;
  Answer answer;
  std::size_t shown{};  ///< index of the plan that stands for the scenario
  /// Of the plans but the shown one, what is needed is the low end and not yet bisected; a full answer
  /// follows.
  bool draft{};
  bool saved{};  ///< a report as it was: question and plans hold what reports say, and no more

  [[nodiscard]] const Plan& plan() const { return answer.plans[shown]; }
  /// As the command line reports it; this must outlive it.
  [[nodiscard]] Report report() const { return {question, answer, options, scenario.arguments, {}, {}}; }
};
using PlannedPtr = std::shared_ptr<const Planned>;

/// Why a scenario has no answer.
struct Problem {
  QString place;  ///< option or file: "--gpus"
  QString text;   ///< one line, place included
  bool operator==(const Problem&) const = default;
};

enum class Depth { draft, full };

/// The answer that `zplan` with the scenario's arguments gives, or a first one. Throws InputError.
[[nodiscard]] PlannedPtr plan_scenario(const Scenario& scenario, const Environment& environment, Depth depth);

/// One column of a comparison: a plan with the question that it answers.
struct Subject {
  QString title;
  PlannedPtr planned;
  std::size_t index{};  ///< of the plan in planned->answer.plans
  [[nodiscard]] const Plan& plan() const { return planned->answer.plans[index]; }
  [[nodiscard]] const Question& question() const { return planned->question; }
  /// Whether its figures are first estimates.
  [[nodiscard]] bool is_draft() const { return planned->draft && index != planned->shown; }
};
using Subjects = std::vector<Subject>;

}  // namespace zplan::gui
