#pragma once
// The reports of `zplan fit --oom`.

#include <optional>
#include <string>
#include <vector>

#include "cli/document/document.h"
#include "cli/options/options.h"
#include "models/base/json_reader.h"
#include "planner/search/oom.h"

namespace zplan {

/// Without a model only the messages.
struct OomReport {
  std::vector<OomReading> readings;  ///< at least one
  const Options& options;
  std::vector<std::string> arguments;
  std::optional<Question> question{};
  std::optional<OomReplay> replay{};
  std::optional<OomRemedies> remedies{};
  std::vector<std::string> warnings{};
};

/// Without a model there is no table, and so nothing for CSV and Markdown.
[[nodiscard]] Document oom_document(const OomReport& report);
[[nodiscard]] Json oom_json(const OomReport& report);

}  // namespace zplan
