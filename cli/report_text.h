#pragma once

#include <string>
#include <vector>

#include "cli/report.h"
#include "cli/table.h"

namespace zplan {

/// The report for people: model, cluster and training with everything that was assumed, the table of
/// strategies, the verdict with its reasons, the next command to type.
[[nodiscard]] std::string report_text(const Report& report, const Style& style);

/// The table alone, with all columns, as Markdown.
[[nodiscard]] std::string report_markdown(const Report& report);

/// Model, cluster, training, assumptions.
[[nodiscard]] std::string header_text(const Report& report, const Style& style);

/// The strategies of a report as a table of at most `width` columns; 0: every column.
[[nodiscard]] Table strategies_table(const Report& report, int width);

/// `compare`: figures as lines, strategies as columns, differences from the first; "*" at the best of a line.
[[nodiscard]] Table comparison_table(const Report& report, const std::vector<const Plan*>& plans);

/// `compare`: which is faster, which needs less memory, and at which bandwidth the two fastest trade places.
[[nodiscard]] std::vector<std::string> comparison_sentences(const Report& report);

/// What a plan sends in one optimizer step, per GPU, by phase, group and link. Empty for one GPU.
[[nodiscard]] Table traffic_table(const Plan& plan, const Question& question);

/// What stands below the table: the plan to take and why, what the others lack, what to type next.
[[nodiscard]] std::string verdict_text(const Report& report, const Style& style);

}  // namespace zplan
