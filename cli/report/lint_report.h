#pragma once
// The report of `zplan lint`.

#include <optional>
#include <string>
#include <vector>

#include "cli/document/document.h"
#include "models/base/format.h"
#include "planner/frameworks/deepspeed/config/lint.h"

namespace zplan {

/// The plan of a config on the cluster that the options name.
struct LintPlan {
  std::string id;
  bool fits{};
  bool as_fixed{};  ///< planned as --fix writes the file, not as it is
  Bytes required{}, available{};
  Seconds step{};
  double tokens_per_second{};
  std::vector<std::string> why;
};

struct LintedFile {
  std::string path;
  std::string text;  ///< that the findings are of
  ConfigStyle style{};
  std::vector<Finding> findings{};
  std::vector<Finding> fixed{};  ///< what was repaired before
  std::optional<LintPlan> plan{};
  std::string not_planned{};  ///< why there is no plan although one was asked for; empty: none was
};

struct LintReport {
  std::vector<LintedFile> files;
  ByteUnit unit{ByteUnit::gib};
};

[[nodiscard]] bool has_errors(const LintReport& report);

/// Findings by file and place, what was repaired, how many there are, what the config costs.
[[nodiscard]] Document lint_document(const LintReport& report);
/// zplan.lint/1 (cli/schema/lint.schema.json).
[[nodiscard]] Json lint_json(const LintReport& report);
/// SARIF 2.1.0, as code scanners read it.
[[nodiscard]] Json lint_sarif(const LintReport& report);

}  // namespace zplan
