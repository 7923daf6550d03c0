#pragma once

#include <string>

#include "cli/report.h"
#include "models/base/json_reader.h"

namespace zplan {

/// The answer as zplan.report/1 (cli/schema/report.schema.json): bytes are integers, times seconds, ratios
/// fractions.
[[nodiscard]] Json report_json(const Report& report);

/// One line per plan under a line of names; RFC 4180.
[[nodiscard]] std::string report_csv(const Report& report);

}  // namespace zplan
