#pragma once
// GPUs and cloud shapes side by side: what each makes of one question.

#include <string>
#include <vector>

#include "cli/document/document.h"
#include "cli/scenarios/scenario_plan.h"
#include "models/base/json_reader.h"

namespace zplan {

/// A GPU or a cloud shape, and the question asked on it.
struct ComparedHardware {
  std::string name;  ///< of its profile
  bool instance{};
  std::string impossible;         ///< why nothing can be planned there; else `planned` is there
  std::optional<double> price{};  ///< of a GPU-hour
  std::optional<PlannedScenario> planned{};

  [[nodiscard]] bool fits() const { return planned && planned->plan().fits; }
  /// Of the plan that is shown: tokens per second over GPUs, times an hour.
  [[nodiscard]] double tokens_per_gpu_hour() const;
  /// Nothing where there is no price or no plan.
  [[nodiscard]] std::optional<double> cost_per_million_tokens() const;
};

struct HardwareComparison {
  std::vector<ComparedHardware> hardware;  ///< not empty
  ListOrder order{ListOrder::given};
  ByteUnit unit{};

  /// Those that fit first, then those that do not, then those on which nothing can be planned.
  void sort(ListOrder by);
};

/// One line per GPU or shape: whether it fits, the plan to take, what it needs, its speed, how far off such
/// speeds were and, with prices, what tokens and the run cost; then what differs in words. CSV has a line
/// each.
[[nodiscard]] Document hardware_document(const HardwareComparison& all);

/// zplan.hardware-comparison/1 (cli/schema/hardware_comparison.schema.json).
[[nodiscard]] Json hardware_comparison_json(const HardwareComparison& all);

}  // namespace zplan
