#pragma once
// Details of an answer that reports show and that need further plans or runs.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "planner/cost/step_calls.h"

namespace zplan {

struct Answer;
struct Plan;
struct Question;

/// The calls of a plan's optimizer step in order of issue.
struct IssuedStep {
  StepCalls calls;
  /// Rows that a rank of an expert-parallel group sends to each of the group in a micro-step of one layer.
  /// Empty without expert parallelism.
  std::vector<std::int64_t> rows_to_each;
};
/// Simulates the step of a plan of `question`.
[[nodiscard]] IssuedStep issued_step(const Question& question, const Plan& plan);

/// Returns what the best plan under DeepSpeed's AutoEP would need beside the recommended one, or why there is
/// none. Returns nothing where the model is no mixture of experts or the question names expert parallelism.
[[nodiscard]] std::optional<std::string> weigh_experts(const Question& question, const Answer& answer);

/// Holds the details that a report was given; what it was not given it leaves out.
struct AnswerDetails {
  std::optional<IssuedStep> issued{};    ///< of the leading plan
  std::optional<std::string> experts{};  ///< by weigh_experts
};

}  // namespace zplan
