#pragma once
// What `zplan check` prints.

#include <optional>
#include <string>
#include <vector>

#include "planner/calibration/fit_speeds.h"
#include "planner/calibration/other_planners.h"
#include "cli/document/document.h"
#include "models/base/format.h"
#include "models/base/json_reader.h"
#include "planner/check/record.h"

namespace zplan {

/// Everything that was judged, and how it is to be shown.
struct CheckReport {
  std::vector<check::Record> records;  ///< in file order
  std::vector<check::RecordGroup> groups;
  std::vector<check::Subset> subsets;
  std::vector<check::Slope> slopes;
  check::FitTally fits;
  std::vector<check::PlannerComparison> planners;
  check::SpeedFit speeds;             ///< where they were asked for
  std::vector<std::string> failures;  ///< why the check fails, whatever the tolerance: a sentence each
  std::optional<std::size_t> worst;   ///< show only so many records
  std::optional<double> tolerance;    ///< of a group's median error, as a fraction
  ByteUnit unit{ByteUnit::gib};
};

/// Groups whose median exceeds the tolerance; nothing without one.
[[nodiscard]] std::vector<check::RecordGroup> groups_beyond(const CheckReport& report);
/// Whether the check holds: nothing contradicts itself or the plan and, with a tolerance, something was
/// judged and no median exceeds it.
[[nodiscard]] bool holds(const CheckReport& report);

/// A line per record, and one per kind and statistic.
[[nodiscard]] Table record_table(const CheckReport& report);
[[nodiscard]] Table group_table(const CheckReport& report);
/// How many runs were predicted to fit, or not to, of those whose GPU is known; empty where none is.
[[nodiscard]] std::string fits_sentence(const check::FitTally& fits);

/// CSV: one line per record.
[[nodiscard]] Document check_document(const CheckReport& report);
/// zplan.check/1 (cli/schema/check.schema.json): errors are fractions.
[[nodiscard]] Json check_json(const CheckReport& report);

}  // namespace zplan
