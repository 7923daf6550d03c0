#pragma once
// The report of `zplan check`.

#include <optional>
#include <string>
#include <vector>

#include "cli/document/document.h"
#include "models/base/format.h"
#include "models/base/json_reader.h"
#include "planner/calibration/fit_speeds.h"
#include "planner/calibration/other_planners.h"
#include "planner/check/memory_snapshot.h"
#include "planner/check/record.h"

namespace zplan {

/// Everything that was judged, and the options of the report.
struct CheckReport {
  std::vector<check::Record> records;  ///< in file order
  std::vector<check::RecordGroup> groups;
  std::vector<check::Subset> subsets;
  std::vector<check::Slope> slopes;
  check::FitTally fits;
  std::vector<check::PlannerComparison> planners;
  check::SpeedFit speeds;             ///< empty unless --fit-efficiency asks for it
  std::vector<std::string> failures;  ///< reasons why the check fails, whatever the tolerance
  std::optional<std::size_t> worst;   ///< number of records to show; all where absent
  std::optional<double> tolerance;    ///< of a group's median error, as a fraction
  ByteUnit unit{ByteUnit::gib};
  std::vector<check::SnapshotDifference> snapshots{};  ///< of each memory snapshot
};

/// True if no measurement contradicts itself or the plan and, with a tolerance, something was judged and no
/// median exceeds it.
[[nodiscard]] bool holds(const CheckReport& report);

/// A line per record, and one per kind and statistic.
[[nodiscard]] Table record_table(const CheckReport& report);
[[nodiscard]] Table group_table(const CheckReport& report);
/// Returns how many runs on known GPUs were predicted to fit and how many did; empty without such runs.
[[nodiscard]] std::string fits_sentence(const check::FitTally& fits);

/// CSV: one line per record.
[[nodiscard]] Document check_document(const CheckReport& report);
/// zplan.check/1 (cli/schema/check.schema.json): errors are fractions.
[[nodiscard]] Json check_json(const CheckReport& report);

}  // namespace zplan
