#pragma once
// A report that was saved with --json, to hold today's plans against.

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "models/base/json_reader.h"
#include "planner/plan/plan.h"

namespace zplan {

struct SavedReport {
  std::string file;
  std::string version;      ///< of the zplan that wrote it
  std::vector<Plan> plans;  ///< in its order, with the figures that a comparison shows; `why` is empty
  Json whole;
};

/// Whether a JSON document says that it is a report of zplan, of whatever schema.
[[nodiscard]] bool is_report(const Json& json);

/// Throws InputError naming file and pointer where it is not a zplan.report/1, or lacks a figure.
[[nodiscard]] SavedReport read_saved_report(Json json, const std::string& file);

/// What a comparison does not show but its figures depend on, where it was not as it is now:
/// "cluster gpus: 4 then, 5 now". `now` is a report of today.
[[nodiscard]] std::vector<std::string> changed_since(const SavedReport& then, const Json& now);

}  // namespace zplan
