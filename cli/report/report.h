#pragma once

#include <optional>
#include <string>
#include <vector>

#include "cli/options/options.h"
#include "models/base/quantity.h"
#include "planner/search/crossover.h"

namespace zplan {

struct Answer;
struct Comparison;
struct Exploration;

/// Everything that a report is made from. The question and the answer must outlive it.
struct Report {
  const Question& question;
  const Answer& answer;
  const Options& options;
  std::vector<std::string> arguments;  ///< as they were typed, for the next command to type
  std::vector<std::string> order;    ///< compare: ids of the plans as they were asked for; empty: as answered
  std::optional<Contest> contest{};  ///< compare: the two fastest
  const Exploration* found{};        ///< search: all that was looked at
  const Comparison* comparison{};    ///< compare: what differences are from; must outlive it
};

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
