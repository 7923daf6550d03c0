#pragma once
// Scenarios with their answers, for the command line and the window.

#include "cli/base/environment.h"
#include "cli/options/options.h"
#include "cli/scenarios/scenarios.h"
#include "cli/scenarios/trainer_reach.h"
#include "planner/search/answer_details.h"
#include "planner/search/search.h"

namespace zplan {

/// A scenario with its question and answer.
struct PlannedScenario {
  Scenario scenario;
  Options options;
  Question question;
  Answer answer;
  std::size_t shown{};  ///< index of the plan that represents the scenario
  /// True if the required memory of all plans but the shown one is a lower bound; a full answer follows.
  bool draft{};
  bool glance{};  ///< true if it is a draft with the shown plan alone
  bool saved{};   ///< true if it was read from a saved report: question and plans hold no more than that
  AnswerDetails details{};              ///< as details_for() made them
  std::vector<TrainerReach> reaches{};  ///< as trainer_reaches() made them

  [[nodiscard]] const Plan& plan() const { return answer.plans[shown]; }
};

enum class Depth { glance, draft, full };

/// Returns the answer of `zplan` with the arguments of the scenario, or the plans of its saved report. The
/// plan that the scenario names is shown, else the best one. A draft passes `likely` to draft_answer(); a
/// glance plans the named plan or `likely` alone, and is a draft where there is no such plan. Throws
/// InputError.
[[nodiscard]] PlannedScenario planned_scenario(const Scenario& scenario, const Environment& environment,
                                               Depth depth = Depth::full, const std::string& likely = {});

/// Plans and simulates the details that a report in `format` shows of one answer.
[[nodiscard]] AnswerDetails details_for(const Question& question, const Answer& answer, OutputFormat format);

}  // namespace zplan
