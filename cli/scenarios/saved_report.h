#pragma once
// A report that was saved with --json, which new plans are compared with.

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "models/base/json_reader.h"
#include "planner/plan/plan.h"

namespace zplan {

struct SavedReport {
  std::string file;
  std::string version;      ///< version of zplan that wrote it
  std::vector<Plan> plans;  ///< in its order, with the figures that a comparison shows; their `why` is empty
  Json whole;
};

/// True if a JSON document names a schema, as reports of every version do.
[[nodiscard]] bool is_report(const Json& json);

/// Throws InputError naming file and pointer where it is not a zplan.report/1, or lacks a figure.
[[nodiscard]] SavedReport read_saved_report(Json json, const std::string& file);

/// Returns the settings that differ between the saved report and `now`, the members "model", "cluster" and
/// "training" of a report: "cluster gpus: 4 then, 5 now".
[[nodiscard]] std::vector<std::string> changed_since(const SavedReport& then, const Json& now);

}  // namespace zplan
