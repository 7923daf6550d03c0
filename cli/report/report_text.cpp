#include "cli/report/report_text.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <array>
#include <set>
#include <utility>

#include "cli/report/accuracy.h"
#include "cli/report/explain.h"
#include "cli/report/search_report.h"

namespace zplan {

namespace {

std::string table_title(const Report& report) {
  const Question& q = report.question;
  return fmt::format("Strategies, best first: {} per GPU at the peak, of {} available\n\n", unit_name(q.unit),
                     format_bytes(available(q.cluster, q.headroom), q.unit));
}

/// What the short headings of the columns that are shown stand for.
std::string legend(const Table& table, const Style& style) {
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
  return shown.empty() ? ""
                       : "\n" + style(Tone::faint,
                                      paragraph("", fmt::format("{}", fmt::join(shown, "; ")), style.width));
}

std::string sentences_text(const Report& report, const Style& style) {
  std::string out;
  for (const std::string& sentence : comparison_sentences(report))
    out += paragraph("  - ", sentence, style.width);
  return out.empty() ? "" : "\n" + style(Tone::strong, "Side by side") + "\n" + out;
}

std::string plans_text(const Report& report, const Style& style) {
  if (report.found != nullptr && !report.found->best.empty()) return search_text(report, style);
  if (!report.order.empty())
    return paragraph("", comparison_title(report), style.width) + "\n" +
           side_by_side_text(comparison_lines(report), comparison_sides(report), style) +
           sentences_text(report, style);
  const Table table = narrowed(strategies_table(report, style.width), static_cast<std::size_t>(style.width));
  return table_title(report) + render_text(table, style) + legend(table, style);
}

std::string explanations(const Report& report, const Style& style) {
  if (!report.options.explain) return "";
  const std::vector<const Plan*> plans =
      report.order.empty() ? std::vector<const Plan*>{&leading_plan(report)} : plans_in_order(report);
  std::string out;
  std::vector<Coverage> kinds;
  for (const Plan* plan : plans) {
    out += explained(*plan, report, style);
    kinds.push_back(coverage_of(*plan, question_of(*plan, report)));
  }
  return out + accuracy_section(kinds, style);
}

}  // namespace

std::string explained(const Plan& plan, const Report& report, const Style& style) {
  const Table traffic = traffic_table(plan, report.question);
  std::string out = "\n" + explain_text(plan, question_of(plan, report), style.width);
  if (!traffic.rows.empty()) out += "\nTraffic per optimizer step and GPU\n\n" + render_text(traffic, style);
  return out;
}

std::string accuracy_section(const std::vector<Coverage>& plans, const Style& style) {
  std::set<std::string> seen;
  std::string out;
  for (const Coverage& plan : plans) {
    const std::string kind = coverage_text(plan);
    if (!seen.insert(kind).second) continue;
    out += fmt::format("\nHow far off such figures were: {}\n\n", kind);
    for (const std::string& sentence : accuracy_sentences(plan))
      out += paragraph("  ", sentence, style.width);
  }
  return out;
}

std::string report_text(const Report& report, const Style& style) {
  return header_text(report, style) + "\n" + plans_text(report, style) + explanations(report, style) +
         verdict_text(report, style);
}

}  // namespace zplan
