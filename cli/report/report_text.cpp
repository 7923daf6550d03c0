// The report as a document, and its tables of strategies and of traffic.

#include "cli/report/report_text.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <set>
#include <utility>

#include "cli/report/explain.h"
#include "planner/cost/price.h"
#include "planner/explain/why.h"
#include "planner/plan/plan.h"
#include "planner/plan/plan_figures.h"
#include "planner/search/explore.h"
#include "planner/search/search.h"

namespace zplan {

namespace {

/// Returns the short name of a moment that does not fit: "load", "evaluation", "save".
std::string_view short_at(RunMoment moment) {
  switch (moment) {
    case RunMoment::load: return "load";
    case RunMoment::weight_sync: return "weight sync";
    case RunMoment::scoring: return "scoring";
    case RunMoment::evaluation: return "evaluation";
    case RunMoment::generation: return "generation";
    case RunMoment::save_model:
    case RunMoment::save_checkpoint: return "save";
    case RunMoment::training: break;
  }
  return "host";
}

}  // namespace

Breakdown breakdown(const Plan& plan) {
  const Composition& holds = plan.memory().peak.holds;
  const Bytes slack = plan.memory().required - plan.memory().peak.bytes();
  return {.parameters = holds.part(MemoryPart::parameters),
          .gradients = holds.part(MemoryPart::gradients),
          .optimizer = holds.part(MemoryPart::optimizer_states),
          .activations = holds.part(MemoryPart::activations) + holds.part(MemoryPart::loss),
          .buffers = holds.part(MemoryPart::communication_buffers) + holds.part(MemoryPart::temporaries),
          .overhead = holds.part(MemoryPart::framework_overhead) + slack};
}

std::string verdict(const Plan& plan, const Question& q) {
  if (plan.fits) return "fits";
  const bool device_short = shortage(plan, q).value > 0, host_short = host_shortage(plan, q).value > 0;
  if (device_short || host_short) return !host_short ? "short" : device_short ? "short, host" : "host";
  const MomentMemory* at = short_moment(plan, q);
  return at == nullptr ? "short" : std::string(short_at(at->moment));
}

namespace {

std::string signed_bytes(Bytes size, ByteUnit unit) {
  const std::string text = format_bytes_value(size, unit);
  return size.value > 0 ? "+" + text : text;
}

/// The number of parts that memory is broken down into; they add up to the required memory.
enum class Detail { full, merged, coarse };

using ShownPlan = const Plan*;

/// Adds a column of bytes of each plan.
void add_bytes(std::vector<Field<ShownPlan>>& list, const Question& q, const char* heading, int importance,
               Bytes (*size)(const Breakdown&)) {
  list.push_back({number_column(heading, unit_name(q.unit), importance),
                  [&q, size](ShownPlan plan) { return format_bytes_value(size(breakdown(*plan)), q.unit); }});
}

void add_memory(std::vector<Field<ShownPlan>>& list, const Question& q, Detail detail) {
  using B = const Breakdown&;
  const auto add = [&](const char* heading, Bytes (*size)(B)) { add_bytes(list, q, heading, 30, size); };
  if (detail == Detail::coarse) {
    add("states", [](B parts) { return parts.parameters + parts.gradients + parts.optimizer; });
  } else {
    add("param", [](B parts) { return parts.parameters; });
    add("grad", [](B parts) { return parts.gradients; });
    add("optim", [](B parts) { return parts.optimizer; });
  }
  add("activ", [](B parts) { return parts.activations; });
  if (detail == Detail::full) {
    add("buffers", [](B parts) { return parts.buffers; });
    add("overhead", [](B parts) { return parts.overhead; });
  } else {
    add("other", [](B parts) { return parts.buffers + parts.overhead; });
  }
}

std::string host_text(const Plan& plan, const Question& q) {
  const Bytes host = plan.memory().host.total;
  return host > Bytes{} ? format_bytes_value(host, q.unit) : "-";
}

std::string hours_text(const Plan& plan, const Question& q) {
  const auto cost = run_cost(plan, q);
  return cost ? fmt::format("{:.1f}", cost->wall.value / 3600) : "-";
}
std::string money_text(const Plan& plan, const Question& q) {
  const auto cost = run_cost(plan, q);
  return cost && cost->money ? amount_text(*cost->money) : "-";
}

std::vector<Field<ShownPlan>> plan_fields(const Question& q, Detail detail, bool host) {
  std::vector<Field<ShownPlan>> all;
  const auto add = [&](Column column, std::string (*text)(const Plan&, const Question&)) {
    all.push_back({std::move(column), [&q, text](ShownPlan plan) { return text(*plan, q); }});
  };
  using P = const Plan&;
  using Q = const Question&;
  const std::string unit = unit_name(q.unit);
  add(text_column("strategy"), [](P p, Q) { return p.id(); });
  if (!q.space.micro_batch_size)
    add(number_column("batch", "", 15),
        [](P p, Q) { return fmt::format("{}", p.strategy.micro_batch_size); });
  add_memory(all, q, detail);
  add(number_column("needs", unit),
      [](P p, Q of) { return format_bytes_value(p.memory().required, of.unit); });
  add(number_column("free", unit, 20),
      [](P p, Q of) { return signed_bytes(Bytes{} - shortage(p, of), of.unit); });
  if (host) add(number_column("host", unit, 1), host_text);
  add(number_column("sent", "GB", 5),
      [](P p, Q) { return format_bytes_value(p.communication().wire_bytes_per_gpu(), ByteUnit::gb); });
  add(number_column("step", "s", 9), [](P p, Q) { return seconds_value(p.time.step); });
  add(number_column("tok/s", "", 10), [](P p, Q) { return fmt::format("{:.0f}", p.time.tokens_per_second); });
  if (q.budget.is_known()) add(number_column("run", "h", 25), hours_text);
  if (q.budget.price) add(number_column("cost", "", 26), money_text);
  if (detail == Detail::full)
    add(text_column("peak in", 0),
        [](P p, Q) { return std::string(to_name(reported(p.memory().peak.phase))); });
  add(text_column("verdict"), verdict);
  return all;
}

bool any_host(const Report& report) {
  return std::ranges::any_of(report.answer.plans,
                             [](const Plan& plan) { return plan.memory().host.total > Bytes{}; });
}

}  // namespace

Table strategies_table(const Report& report, int width) {
  const Plan* recommended = report.answer.recommended();
  const auto build = [&](Detail detail, bool host) {
    return table_of<ShownPlan>(
        plan_fields(report.question, detail, host), plans_in_order(report), [&](ShownPlan plan) {
          return plan == recommended ? Tone::strong : plan->fits ? Tone::plain : Tone::faint;
        });
  };
  const bool host = any_host(report);
  const std::array<std::pair<Detail, bool>, 4> tries{
      {{Detail::full, host}, {Detail::merged, host}, {Detail::merged, false}, {Detail::coarse, host}}};
  for (const auto& [detail, with_host] : tries) {
    Table table = build(detail, with_host);
    if (width <= 0 || natural_width(table) <= static_cast<std::size_t>(width)) return table;
  }
  return build(Detail::coarse, false);
}

namespace {

std::string milliseconds(Seconds time) {
  const double value = time.value * 1e3;
  return fmt::format("{:.{}f}", value, value >= 99.95 ? 0 : value >= 9.995 ? 1 : 2);
}

/// Returns what a plan sends in one optimizer step, per GPU, by phase, group and link; empty for one GPU.
Table traffic_table(const Plan& plan, const Question& question) {
  const Cluster& cluster = question.cluster;
  using T = const Traffic&;
  std::vector<Field<Traffic>> fields{
      {text_column("phase"), [](T each) { return std::string(to_name(each.phase)); }},
      {text_column("group"), [](T each) { return std::string(to_name(each.group)); }},
      {number_column("calls"), [](T each) { return group_digits(each.calls); }}};
  if (cluster.gpus_per_node > 1)
    fields.push_back({number_column(name_of_inner_link(cluster), "GB"),
                      [](T each) { return format_bytes_value(each.inside, ByteUnit::gb); }});
  if (cluster.network)
    fields.push_back({number_column(cluster.network->name, "GB"),
                      [](T each) { return format_bytes_value(each.outside, ByteUnit::gb); }});
  fields.push_back({number_column("time", "ms"), [](T each) { return milliseconds(each.time); }});
  fields.push_back({number_column("exposed", "ms"), [](T each) { return milliseconds(each.exposed); }});
  const std::vector<Traffic> all = traffic(plan.communication(), plan.time.run);
  Table table = table_of(fields, all);
  if (table.rows.size() < 2) return table;
  Traffic sum;
  for (const Traffic& each : all) {
    sum.calls += each.calls, sum.inside += each.inside, sum.outside += each.outside;
    sum.time += each.time, sum.exposed += each.exposed;
  }
  table.rows.push_back(table_of(fields, std::array{sum}).rows.front());
  Row& row = table.rows.back();
  row.cells[0] = "all", row.cells[1] = "", row.tone = Tone::strong;
  return table;
}

std::string table_title(const Report& report) {
  const Question& q = report.question;
  return fmt::format("Strategies, best first: {} per GPU at the peak, of {} available", unit_name(q.unit),
                     format_bytes(available(q.cluster, q.headroom), q.unit));
}

/// Explains the short headings of the columns that are shown.
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
  if (report.options.slide) {
    add_slide(doc, report);
    return doc;
  }
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
