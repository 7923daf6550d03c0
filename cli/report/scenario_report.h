#pragma once
// The scenarios of a file side by side: figures as lines, scenarios as columns.

#include <string>
#include <vector>

#include "cli/document/document.h"
#include "cli/scenarios/scenario_plan.h"

namespace zplan {

/// The scenarios of a file that are compared, with their answers.
struct ScenarioComparison {
  std::string file;
  std::vector<PlannedScenario> scenarios;  ///< in the file's order unless --order says another; not empty
  std::vector<std::size_t> places{};       ///< of each among all scenarios of the file
  std::size_t baseline{};                  ///< index of the scenario that differences are from
  bool differences{};                      ///< lines in which all are alike are left out
  bool explain{};
  ByteUnit unit{ByteUnit::gib};
};

/// The table alone: figures and their units, then a column per scenario with its differences behind it.
[[nodiscard]] Table scenario_table(const ScenarioComparison& all);

/// Set for a terminal of this width. CSV: one line per scenario.
[[nodiscard]] Document scenario_document(const ScenarioComparison& all, int width);
/// zplan.comparison/1 (cli/schema/comparison.schema.json).
[[nodiscard]] Json scenario_json(const ScenarioComparison& all);

}  // namespace zplan
