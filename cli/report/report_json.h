#pragma once

#include <string>

#include "cli/report/report.h"
#include "models/base/json_reader.h"

namespace zplan {

/// The answer as zplan.report/1 (cli/schema/report.schema.json): bytes are integers, times seconds, ratios
/// fractions.
[[nodiscard]] Json report_json(const Report& report);
/// Its members "model", "cluster" and "training" alone.
[[nodiscard]] Json asked_json(const Report& report);

/// What a plan differs by from `base`, by deltas(); null where there is none.
[[nodiscard]] Json deltas_json(const Plan& plan, const Plan* base);

/// Fields of a plan in a line of CSV, and with `compared` those of its differences, which `add_csv_deltas`
/// adds; they begin with the name of the baseline. `base` may be null.
[[nodiscard]] CsvRecord csv_names(bool compared);
[[nodiscard]] CsvRecord csv_fields(const Plan& plan);
void add_csv_deltas(CsvRecord& record, const Plan& plan, const Plan* base, const std::string& baseline);

}  // namespace zplan
