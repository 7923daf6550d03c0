#pragma once
// The answers of `zplan fit` and `zplan fit --oom`.

#include <optional>
#include <string>
#include <vector>

#include "cli/document/document.h"
#include "cli/options/options.h"
#include "cli/report/brief.h"
#include "models/base/json_reader.h"
#include "planner/search/answer_details.h"
#include "planner/search/deadline.h"
#include "planner/search/inverse.h"
#include "planner/search/oom_causes.h"
#include "planner/search/search.h"

namespace zplan {

/// Number of suitable GPUs that text shows.
inline constexpr std::size_t kMostCards = 8;

/// One inverse question with its answer.
struct SolvedQuestion {
  Inverse inverse;
  Question at;                   ///< the question at the answer or, where nothing fits, at the nearest value
  std::vector<CardFit> cards;    ///< GPUs that suffice, where memory is asked for
  std::vector<ModelFit> models;  ///< models that fit, where the model is asked for
  std::vector<LengthRow> lengths{};      ///< three answers, where the sequence alone is asked for
  std::optional<EngineShares> shares{};  ///< where vLLM's share is asked for
  std::vector<Rung> ladder{};            ///< steps to longer sequences, where the sequence alone is asked for
  std::optional<Answer> instead{};       ///< where nothing fits: the answer at the nearest value
  AnswerDetails details{};               ///< of `instead`
};

/// The questions of one command with their answers.
struct FitReport {
  const Question& question;  ///< with defaults for the unknowns
  std::vector<SolvedQuestion> solved;
  const Options& options;
  std::vector<std::string> arguments;
  std::vector<std::string> warnings;
};
[[nodiscard]] bool has_answer(const FitReport& report);

/// Returns the report as a document. Its CSV has a line per question and strategy.
[[nodiscard]] Document fit_document(const FitReport& report);
/// Returns the same on one screen: the answer, a line per strategy or question, what bounds it, the next
/// commands.
[[nodiscard]] Document brief_fit_document(const FitReport& report, const Screen& screen);
[[nodiscard]] Json fit_json(const FitReport& report);

/// Runs of a budget within a time.
struct DeadlineReport {
  const Question& question;
  Deadline deadline;
  const Options& options;
  std::vector<std::string> arguments;
  std::vector<std::string> warnings;
};
[[nodiscard]] Document deadline_document(const DeadlineReport& report);
[[nodiscard]] Json deadline_json(const DeadlineReport& report);

/// Out-of-memory messages, and with a model the plan of the run that ended and changes of it.
struct OomReport {
  std::vector<OomReading> readings;  ///< at least one
  const Options& options;
  std::vector<std::string> arguments;
  std::optional<Question> question{};
  std::optional<OomReplay> replay{};
  std::vector<OomExplanation> causes{};  ///< the likeliest first
  std::optional<OomRemedies> remedies{};
  std::vector<std::string> warnings{};
};

/// Returns the report as a document. Without a model it has no table, and nothing for CSV and Markdown.
[[nodiscard]] Document oom_document(const OomReport& report);
[[nodiscard]] Json oom_json(const OomReport& report);

}  // namespace zplan
