#pragma once
// From a question to an answer: every strategy that the question leaves open is planned, those that fit are
// ranked by tokens per second, and every other one has a reason.

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

/// Throws InputError where the options contradict each other (batch arithmetic), or where what was pinned
/// leaves not one legal combination: that names the reasons.
[[nodiscard]] Answer answer(const Question& question);

/// What answer() will say, sooner, for who watches while a figure changes: one plan, that called `wanted` or
/// else the first, has all its figures; of the others `memory.required` is at its low end. There are neither
/// sentences nor an alternative, and what does not fit stands in the order of its low ends. `likely` is the
/// id of the plan that is probably the one: it is worked out beside the others rather than after them.
[[nodiscard]] Answer draft_answer(const Question& question, std::string_view wanted = {},
                                  std::string_view likely = {});

/// Of answer() the plan called `id` alone, with all its figures; nothing where it is not legal.
[[nodiscard]] std::optional<Plan> plan_called(const Question& question, std::string_view id);

/// Whether `a` comes before `b` in an answer: what fits, fastest first; then misses, those of the host alone
/// first, then the one that needs least.
[[nodiscard]] bool better_plan(const Plan& a, const Plan& b);

}  // namespace zplan
