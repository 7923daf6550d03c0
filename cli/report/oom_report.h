#pragma once
// The reports of `zplan fit --oom`.

#include <optional>
#include <string>
#include <vector>

#include "cli/document/table.h"
#include "cli/options/options.h"
#include "models/base/json_reader.h"
#include "planner/explain/oom.h"

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

/// The plan of what ran, and every change that can be planned. Only with a model.
[[nodiscard]] Table changes_table(const OomReport& report);

[[nodiscard]] std::string oom_text(const OomReport& report, const Style& style);
[[nodiscard]] Json oom_json(const OomReport& report);
/// Throws InputError where there is no model, and so no table; oom_markdown too.
[[nodiscard]] std::string oom_csv(const OomReport& report);
[[nodiscard]] std::string oom_markdown(const OomReport& report);

}  // namespace zplan
