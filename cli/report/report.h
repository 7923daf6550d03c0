#pragma once

#include <optional>
#include <string>
#include <vector>

#include "cli/options/options.h"
#include "cli/scenarios/saved_report.h"
#include "cli/scenarios/scenario_plan.h"
#include "planner/search/answer_details.h"
#include "planner/search/crossover.h"
#include "planner/search/search.h"

namespace zplan {

struct Exploration;

/// What `compare` answers: one plan for each strategy or config that was named.
struct Comparison {
  Answer answer;                     ///< those that fit first, as in every report
  std::vector<std::string> ids;      ///< of the plans in the order in which they were asked for
  std::string baseline;              ///< what differences are from: a plan's id, or the saved report's file
  std::optional<SavedReport> saved;  ///< where that is a saved report
  std::optional<Contest> contest{};  ///< between the two fastest
};

/// Everything that a report is made from. What it refers to must outlive it.
struct Report {
  const Question& question;
  const Answer& answer;
  const Options& options;
  std::vector<std::string> arguments;  ///< as they were typed, for the next command to type
  const Comparison* comparison{};      ///< of `compare`, else null
  const Exploration* found{};          ///< all that `search` looked at, else null
  AnswerDetails details{};
};
/// Returns the report that the command line makes of a scenario. `planned` must outlive it.
[[nodiscard]] Report report_of(const PlannedScenario& planned);

/// The plans as they are shown: best first, or as `compare` was asked.
[[nodiscard]] std::vector<const Plan*> plans_in_order(const Report& report);

/// What a plan's differences are from: the baseline, which is its own, or itself in the saved report; null
/// where that has no such plan, or nothing is compared.
[[nodiscard]] const Plan* baseline_of(const Plan& plan, const Report& report);

/// The plan to take or, where none fits, the one that misses by least.
[[nodiscard]] const Plan& leading_plan(const Report& report);

/// How the plan is trained: the question's training as its framework has it, or its own.
[[nodiscard]] Training training_of(const Plan& plan, const Report& report);

/// The question as the plan's framework trains it: `compare` mixes frameworks.
[[nodiscard]] Question question_of(const Plan& plan, const Report& report);

/// Parameters that train: the adapters under LoRA.
[[nodiscard]] Elements trainable_parameters(const Question& question);

}  // namespace zplan
