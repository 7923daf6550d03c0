#pragma once

#include <optional>
#include <string>

namespace zplan {

struct Answer;
struct Question;

/// Of a mixture whose question names no expert parallelism: what the best plan under DeepSpeed's AutoEP would
/// need beside the recommended one, or why there is none. Nothing of other questions.
[[nodiscard]] std::optional<std::string> weigh_experts(const Question& question, const Answer& answer);

}  // namespace zplan
