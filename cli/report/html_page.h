#pragma once
// A report as one page for a browser: no script, nothing that is loaded from elsewhere.

#include <string>

#include "models/base/json_reader.h"

namespace zplan {

/// Returns the page of a report, zplan.report/1, which holds all that it says: verdict, strategies against the
/// GPU's limit, memory over the step, time, traffic, config, assumptions.
[[nodiscard]] std::string html_page(const Json& report);

}  // namespace zplan
