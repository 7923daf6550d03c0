#include "cli/report/report_text.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <array>
#include <set>
#include <utility>

#include "cli/report/accuracy.h"
#include "cli/report/explain.h"
#include "cli/report/search_report.h"
#include "planner/plan/plan.h"
#include "planner/search/explore.h"

namespace zplan {

namespace {

std::string table_title(const Report& report) {
  const Question& q = report.question;
  return fmt::format("Strategies, best first: {} per GPU at the peak, of {} available", unit_name(q.unit),
                     format_bytes(available(q.cluster, q.headroom), q.unit));
}

/// What the short headings of the columns that are shown stand for.
void add_legend(Document& doc, const Table& table) {
  static constexpr std::array<std::pair<std::string_view, std::string_view>, 7> kMeanings{{
      {"states", "parameters, gradients and optimizer states"},
      {"activ", "activations and loss"},
      {"buffers", "communication buffers and temporaries"},
      {"other", "buffers, temporaries, CUDA context, NCCL and allocator slack"},
      {"overhead", "CUDA context, cuBLAS, NCCL and allocator slack"},
      {"host", "offloaded, per node"},
      {"sent", "over the links, per GPU and step"},
  }};
  std::vector<std::string> shown;
  for (const auto& [heading, meaning] : kMeanings)
    for (const Column& column : table.columns)
      if (column.heading == heading) shown.push_back(fmt::format("{}: {}", heading, meaning));
  if (shown.empty()) return;
  doc.line();
  doc.paragraph("", fmt::format("{}", fmt::join(shown, "; ")), Tone::faint);
}

void add_strategies(Document& doc, const Report& report, int width) {
  const Table table = narrowed(strategies_table(report, width), static_cast<std::size_t>(width));
  doc.line(table_title(report)), doc.line();
  doc.table(table);
  add_legend(doc, table);
  doc.shown = Shown::markdown;
  doc.table(strategies_table(report, 0));
  doc.shown = Shown::text;
}

void add_comparison(Document& doc, const Report& report, int width) {
  doc.paragraph("", comparison_title(report));
  doc.shown = Shown::markdown;
  doc.paragraph("", comparison_title(report) + ".");
  doc.shown = Shown::both;
  doc.line();
  const std::vector<Line> lines = comparison_lines(report);
  const std::vector<Sides> groups = comparison_sides(report);
  add_side_by_side(doc, {lines, groups}, {lines, groups}, width);
  add_sentences(doc, "Side by side", comparison_sentences(report));
}

void add_explanations(Document& doc, const Report& report) {
  if (!report.options.explain) return;
  const std::vector<const Plan*> plans =
      report.comparison == nullptr ? std::vector<const Plan*>{&leading_plan(report)} : plans_in_order(report);
  std::vector<Coverage> kinds;
  for (const Plan* plan : plans) {
    add_explanation(doc, *plan, report);
    kinds.push_back(coverage_of(*plan, question_of(*plan, report)));
  }
  add_accuracy(doc, kinds);
}

}  // namespace

void add_explanation(Document& doc, const Plan& plan, const Report& report) {
  doc.line();
  add_figures(doc, plan, question_of(plan, report));
  Table traffic = traffic_table(plan, report.question);
  if (traffic.rows.empty()) return;
  doc.line(), doc.line("Traffic per optimizer step and GPU"), doc.line();
  doc.table(std::move(traffic));
}

void add_accuracy(Document& doc, const std::vector<Coverage>& plans) {
  std::set<std::string> seen;
  for (const Coverage& plan : plans) {
    const std::string kind = coverage_text(plan);
    if (!seen.insert(kind).second) continue;
    doc.line(), doc.line(fmt::format("How far off such figures were: {}", kind)), doc.line();
    for (const std::string& sentence : accuracy_sentences(plan)) doc.paragraph("  ", sentence);
  }
}

Document report_document(const Report& report, int width) {
  Document doc;
  add_header(doc, report);
  doc.line();
  if (report.found != nullptr && !report.found->best.empty())
    add_search(doc, report);
  else if (report.comparison != nullptr)
    add_comparison(doc, report, width);
  else
    add_strategies(doc, report, width);
  if (doc.records.empty()) doc.records = csv_records(report);
  add_explanations(doc, report);
  add_verdict(doc, report);
  return doc;
}

}  // namespace zplan
