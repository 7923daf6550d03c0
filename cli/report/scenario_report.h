#pragma once
// Scenarios side by side: those of a file, or one question on several GPUs and cloud shapes.

#include <string>
#include <vector>

#include "cli/document/document.h"
#include "cli/scenarios/scenario_plan.h"
#include "models/base/json_reader.h"

namespace zplan {

/// The scenarios of a file that are compared, with their answers.
struct ScenarioComparison {
  std::string file;
  std::vector<PlannedScenario> scenarios;  ///< in the order of the file or of --order; not empty
  std::vector<std::size_t> places{};       ///< index of each among all scenarios of the file
  std::size_t baseline{};                  ///< index of the scenario that differences are from
  bool differences{};                      ///< leaves out lines in which all scenarios are alike
  bool explain{};
  ByteUnit unit{ByteUnit::gib};
};

/// Returns the table: figures and units, then a column per scenario followed by its differences.
[[nodiscard]] Table scenario_table(const ScenarioComparison& all);

/// Returns the comparison as a document for a terminal of `width` columns. Its CSV has a line per scenario.
[[nodiscard]] Document scenario_document(const ScenarioComparison& all, int width);
/// Returns the comparison as zplan.comparison/1 (cli/schema/comparison.schema.json).
[[nodiscard]] Json scenario_json(const ScenarioComparison& all);

/// A GPU or a cloud shape, and the question asked on it.
struct ComparedHardware {
  std::string name;  ///< name of the profile
  bool instance{};
  std::string impossible;         ///< why nothing can be planned there; empty where `planned` is set
  std::optional<double> price{};  ///< of a GPU-hour
  std::optional<PlannedScenario> planned{};

  [[nodiscard]] bool fits() const { return planned && planned->plan().fits; }
  /// Returns the tokens that the shown plan trains in an hour of one GPU.
  [[nodiscard]] double tokens_per_gpu_hour() const;
  /// Returns nothing where there is no price or no plan.
  [[nodiscard]] std::optional<double> cost_per_million_tokens() const;
};

struct HardwareComparison {
  std::vector<ComparedHardware> hardware;  ///< not empty
  ListOrder order{ListOrder::given};
  ByteUnit unit{};

  /// Sorts by `by`: hardware on which a plan fits first, hardware on which nothing can be planned last.
  void sort(ListOrder by);
};

/// Returns a table with a line per GPU or shape (the plan, whether it fits, memory, speed, the error of such
/// speeds and, with prices, costs), and sentences about their differences.
[[nodiscard]] Document hardware_document(const HardwareComparison& all);

/// Returns the comparison as zplan.hardware-comparison/1 (cli/schema/hardware_comparison.schema.json).
[[nodiscard]] Json hardware_comparison_json(const HardwareComparison& all);

}  // namespace zplan
