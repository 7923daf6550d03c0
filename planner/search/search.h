#pragma once
// The search of an answer plans every strategy that a question leaves open, ranks those that fit by tokens
// per second, and gives a reason for every other one.

#include <optional>
#include <string>
#include <vector>

#include "planner/plan/plan.h"
#include "planner/question/question.h"
#include "planner/search/candidates.h"

namespace zplan {

struct Answer {
  std::vector<Plan> plans;  ///< those that fit, fastest first; then the others, nearest miss first
  std::vector<Rejection> rejected;
  std::optional<Plan> alternative;  ///< where nothing fits: the best outside of what was pinned
  /// The options beside --zero, --tp and --offload that the alternative changes: "--method lora", or nothing.
  std::string alternative_change;
  std::vector<std::string> warnings;

  [[nodiscard]] bool fits() const { return !plans.empty() && plans.front().fits; }
  /// The plan to take; nothing where nothing fits.
  [[nodiscard]] const Plan* recommended() const { return fits() ? &plans.front() : nullptr; }
};

/// Returns the answer. Throws InputError where options contradict each other (batch arithmetic), or where no
/// legal combination is left, with the reasons.
[[nodiscard]] Answer answer(const Question& question);

/// Returns answer() sooner and in less detail, for a window that shows it while a figure changes. One plan,
/// `wanted` or else the first, has all its figures; the others have `memory.required` at its low end. There
/// are no sentences and no alternative, and plans that do not fit are in the order of their low ends.
/// `likely` is the id of the plan that will probably lead: it is completed beside the others, not after them.
[[nodiscard]] Answer draft_answer(const Question& question, std::string_view wanted = {},
                                  std::string_view likely = {});

/// Returns the plan of answer() with this id, with all its figures; nothing where it is not legal.
[[nodiscard]] std::optional<Plan> plan_called(const Question& question, std::string_view id);

/// True if `a` comes before `b` in an answer: plans that fit, fastest first; then those that miss on the host
/// alone; then the others, least memory first.
[[nodiscard]] bool better_plan(const Plan& a, const Plan& b);

}  // namespace zplan
