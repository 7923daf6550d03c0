#pragma once

#include <string>

#include "cli/document/document.h"
#include "cli/report/report.h"
#include "models/base/json_reader.h"

namespace zplan {

struct Found;

/// What `zplan search` looked at and found, between a report's header and its verdict: the fastest of each
/// strategy, what needs less at some loss of speed, why the others lost. CSV: a line per family of plans,
/// with what became of it.
void add_search(Document& doc, const Report& report);

/// What was searched, in a line.
[[nodiscard]] std::string searched_line(const Report& report);

/// "search" of the JSON report.
[[nodiscard]] Json search_json(const Report& report);

/// Options that pin what the search recommends.
[[nodiscard]] std::vector<std::pair<std::string, std::string>> pinning_options(const Found& found,
                                                                               const Options& options);

}  // namespace zplan
