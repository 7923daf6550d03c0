#pragma once
// The reports of `zplan fit`.

#include <optional>
#include <string>
#include <vector>

#include "cli/document/document.h"
#include "cli/options/options.h"
#include "models/base/json_reader.h"
#include "planner/search/answer_details.h"
#include "planner/search/inverse.h"
#include "planner/search/search.h"

namespace zplan {

/// Of GPUs that would do, so many are shown with their plans.
inline constexpr std::size_t kMostCards = 8;

/// One inverse question with its answer.
struct SolvedQuestion {
  Inverse inverse;
  Question at;                   ///< the question at the answer; where there is none, where it comes nearest
  std::vector<CardFit> cards;    ///< of memory
  std::vector<ModelFit> models;  ///< of model
  std::vector<Rung> ladder{};    ///< of sequence, where it alone is asked for
  std::optional<Answer> instead{};  ///< where nothing fits: the search's answer there, with what would
  AnswerDetails details{};          ///< of that answer
};

struct FitReport {
  const Question& question;  ///< with defaults in the place of what is asked for
  std::vector<SolvedQuestion> solved;
  const Options& options;
  std::vector<std::string> arguments;
  std::vector<std::string> warnings;
};
[[nodiscard]] bool has_answer(const FitReport& report);

/// "largest micro-batch", "fewest GPUs", …
[[nodiscard]] std::string_view asked_words(Solve solve);
/// A value as tables print it: "12", "8.1 B", "24".
[[nodiscard]] std::string value_cell(Solve solve, std::int64_t value);

/// CSV: one line per question and strategy.
[[nodiscard]] Document fit_document(const FitReport& report);
[[nodiscard]] Json fit_json(const FitReport& report);

}  // namespace zplan
