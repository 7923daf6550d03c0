#pragma once

#include <string>

#include "cli/report/report.h"
#include "models/base/json_reader.h"

namespace zplan {

/// The answer as zplan.report/1 (cli/schema/report.schema.json): bytes are integers, times seconds, ratios
/// fractions.
[[nodiscard]] Json report_json(const Report& report);

/// One line per plan under a line of names; RFC 4180.
[[nodiscard]] std::string report_csv(const Report& report);

// Parts of both, for other tables of plans.

/// What a plan differs by from `base`, by deltas(); null where there is none.
[[nodiscard]] Json deltas_json(const Plan& plan, const Plan* base);
/// Names of the columns, and a plan's fields, without the end of the line.
[[nodiscard]] std::string csv_headings();
[[nodiscard]] std::string csv_fields(const Plan& plan);
/// The same of the differences: they begin with a comma and the name of the baseline. `base` may be null.
[[nodiscard]] std::string csv_delta_headings();
[[nodiscard]] std::string csv_delta_fields(const Plan& plan, const Plan* base, const std::string& baseline);

}  // namespace zplan
