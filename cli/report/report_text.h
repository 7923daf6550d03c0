#pragma once

#include <string>
#include <vector>

#include "cli/document/document.h"
#include "cli/report/accuracy.h"
#include "cli/report/report.h"
#include "cli/report/side_by_side.h"

namespace zplan {

struct SavedReport;

/// The report of plans, set for a terminal of this width: model, cluster and training with everything that
/// was assumed, the table of strategies, the verdict with its reasons, the next command to type. Markdown is
/// the table alone, with all columns, or the comparison; CSV a line per plan or, of a search, per family of
/// plans.
[[nodiscard]] Document report_document(const Report& report, int width);

/// A line of names, then one per plan; RFC 4180.
[[nodiscard]] std::vector<CsvRecord> csv_records(const Report& report);

/// Every figure of a plan with its formula, and what it sends.
void add_explanation(Document& doc, const Plan& plan, const Report& report);

/// What the figures of such plans were validated against, and how far off they were; each kind of plan once.
void add_accuracy(Document& doc, const std::vector<Coverage>& plans);

/// What stands above the table under one label: "Model", "Assumed". `bullets`: each line is a thing by
/// itself.
struct HeaderBlock {
  std::string label;
  std::vector<std::string> lines;
  bool bullets{};
};
/// Model, cluster, training, assumptions, warnings; a block may be empty.
[[nodiscard]] std::vector<HeaderBlock> header_blocks(const Report& report);

void add_header(Document& doc, const Report& report);

/// The strategies of a report as a table of at most `width` columns; 0: every column.
[[nodiscard]] Table strategies_table(const Report& report, int width);

/// Columns that stay together; the first of these groups belongs before every other, and is empty where a
/// saved report is the baseline: there each plan stands beside itself as it was.
[[nodiscard]] std::vector<Sides> comparison_sides(const Report& report);

/// `compare`: the lines to show.
[[nodiscard]] std::vector<Line> comparison_lines(const Report& report);

/// What the differences are from and, under --differences, how many lines are left out.
[[nodiscard]] std::string comparison_title(const Report& report);

/// The report that was saved, where that is the baseline.
[[nodiscard]] const SavedReport* saved_report(const Report& report);

/// `compare`: which is faster, which needs less memory, and at which bandwidth the two fastest trade places.
[[nodiscard]] std::vector<std::string> comparison_sentences(const Report& report);

/// What a plan sends in one optimizer step, per GPU, by phase, group and link. Empty for one GPU.
[[nodiscard]] Table traffic_table(const Plan& plan, const Question& question);

/// By how much what is needed depends on the allocator, and what that puts at risk.
[[nodiscard]] std::string range_sentence(const Plan& plan, const Question& question);

/// Combinations that cannot be trained for the same reasons.
struct Impossible {
  std::string reason;
  std::vector<std::string> ids;
};
[[nodiscard]] std::vector<Impossible> impossible_plans(const Report& report);

/// What stands below the table: the plan to take and why, what the others lack, what to type next.
void add_verdict(Document& doc, const Report& report);

}  // namespace zplan
