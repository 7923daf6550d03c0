#pragma once
// From a scenario to its answer, for the terminal and the window alike.

#include "cli/environment.h"
#include "cli/options/options.h"
#include "cli/scenarios/scenarios.h"
#include "planner/search/answer_details.h"
#include "planner/search/search.h"

namespace zplan {

/// What planning a scenario gave.
struct PlannedScenario {
  Scenario scenario;  ///< that was planned
  Options options;
  Question question;
  Answer answer;
  std::size_t shown{};  ///< index of the plan that stands for the scenario
  /// Of the plans but the shown one, what is needed is the low end and not yet bisected; a full answer
  /// follows.
  bool draft{};
  bool glance{};  ///< a draft in which there is no plan but the shown one
  bool saved{};   ///< a report as it was: question and plans hold what reports say, and no more
  AnswerDetails details{};

  [[nodiscard]] const Plan& plan() const { return answer.plans[shown]; }
};

enum class Depth { glance, draft, full };

/// The answer that `zplan` with the scenario's arguments gives, or a first one; of a saved report what it
/// says. Where no plan is called as the scenario wants, the best one is shown. `likely`: of a draft, see
/// draft_answer(); a glance is at that plan, if the scenario names none, and a draft where there is no such.
/// Throws InputError.
[[nodiscard]] PlannedScenario planned_scenario(const Scenario& scenario, const Environment& environment,
                                               Depth depth = Depth::full, const std::string& likely = {});

/// Plans and simulates the details that a report in `format` shows of one answer.
[[nodiscard]] AnswerDetails details_for(const Question& question, const Answer& answer, OutputFormat format);

}  // namespace zplan
