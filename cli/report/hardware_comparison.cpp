#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <utility>

#include "cli/document/json_values.h"
#include "cli/options/command_line.h"
#include "cli/report/comparison.h"
#include "cli/report/explain.h"
#include "cli/report/report.h"
#include "cli/report/scenario_report.h"
#include "hardware_profiles/platform.h"
#include "models/base/format.h"
#include "models/base/version.h"
#include "planner/explain/why.h"
#include "planner/plan/accuracy.h"
#include "planner/plan/plan_figures.h"

namespace zplan {

namespace {

using Compared = ComparedHardware;

constexpr double kSecondsPerHour = 3600;

const Plan& plan_on(const Compared& each) { return each.planned->plan(); }
const Cluster& cluster_of(const Compared& each) { return each.planned->question.cluster; }

/// Returns the median error of such predicted speeds; nothing where none was ever compared.
std::optional<double> speed_error(const Compared& each) {
  const Gpu& gpu = cluster_of(each).gpu;
  if (!platform_of(gpu.compute_capability).unknown.empty()) return std::nullopt;
  return speed_tie(plan_on(each).framework, gpu.name).within;
}

std::string off_by_text(const Compared& each) {
  const std::optional<double> error = speed_error(each);
  return error ? format_percent(*error) : "not known";
}

std::string gpus_text(const Cluster& cluster) {
  return cluster.nodes == 1 ? fmt::format("{}", cluster.gpus)
                            : fmt::format("{} x {}", cluster.nodes, cluster.gpus_per_node);
}

bool has_prices(const HardwareComparison& all) { return all.hardware.front().price.has_value(); }

bool has_budget(const HardwareComparison& all) {
  return std::any_of(all.hardware.begin(), all.hardware.end(), [](const Compared& each) {
    return each.planned && each.planned->question.budget.is_known();
  });
}

RunCost cost_of_run(const Compared& each) { return *run_cost(plan_on(each), each.planned->question); }

using C = const Compared&;

void add_costs(std::vector<Field<Compared>>& fields, const HardwareComparison& all) {
  if (has_budget(all))
    fields.push_back({number_column("run", "h"),
                      [](C each) { return amount_text(cost_of_run(each).wall.value / kSecondsPerHour); }});
  if (!has_prices(all)) return;
  fields.push_back({number_column("price", "GPU-h", 6), [](C each) { return amount_text(*each.price); }});
  fields.push_back({number_column("Mtok", "cost"),
                    [](C each) { return fmt::format("{:.3f}", *each.cost_per_million_tokens()); }});
  if (has_budget(all))
    fields.push_back(
        {number_column("run", "cost"), [](C each) { return amount_text(*cost_of_run(each).money); }});
}

/// Returns the columns behind the first, of hardware on which something is planned.
std::vector<Field<Compared>> planned_fields(const HardwareComparison& all) {
  const ByteUnit unit = all.unit;
  const std::string memory = unit_name(unit);
  std::vector<Field<Compared>> fields{
      {number_column("GPUs", "", 8), [](C each) { return gpus_text(cluster_of(each)); }},
      {text_column("verdict"), [](C each) { return comparison_verdict(plan_on(each)); }},
      {text_column("plan"), [](C each) { return plan_on(each).id(); }},
      {number_column("needs", memory, 7),
       [unit](C each) { return format_bytes_value(plan_on(each).memory().required, unit); }},
      {number_column("of", memory, 6),
       [unit](C each) {
         return format_bytes_value(available(cluster_of(each), each.planned->question.headroom), unit);
       }},
      {number_column("step", "", 5), [](C each) { return format_seconds(plan_on(each).time.step); }},
      {number_column("tok/s", "", 9),
       [](C each) { return group_digits(std::llround(plan_on(each).time.tokens_per_second)); }},
      {number_column("tok/GPU-h"),
       [](C each) { return group_digits(std::llround(each.tokens_per_gpu_hour())); }},
      {number_column("off by", "median", 4), off_by_text},
      {number_column("MFU", "", 3), [](C each) { return format_percent(plan_on(each).time.mfu); }}};
  add_costs(fields, all);
  return fields;
}

Table hardware_table(const HardwareComparison& all) {
  std::vector<Field<Compared>> fields{{text_column("hardware"), [](C each) { return each.name; }}};
  for (const Field<Compared>& field : planned_fields(all)) {
    const std::string unplanned = field.column.heading == "verdict" ? "cannot" : "";
    fields.push_back({field.column, [text = field.text, unplanned](C each) {
                        return each.planned ? text(each) : unplanned;
                      }});
  }
  return table_of<Compared>(fields, all.hardware,
                            [](C each) { return each.fits() ? Tone::plain : Tone::faint; });
}

/// Returns the hardware on which a plan fits, the largest `value` first.
template <class Value>
std::vector<const Compared*> ranked(const HardwareComparison& all, const Value& value) {
  std::vector<const Compared*> order;
  for (const Compared& each : all.hardware)
    if (each.fits()) order.push_back(&each);
  std::stable_sort(order.begin(), order.end(),
                   [&value](const Compared* a, const Compared* b) { return value(*a) > value(*b); });
  return order;
}

/// Returns which is ahead and by how much, or that the first two tie: they are closer than the median error.
template <class Value>
std::string ahead(const HardwareComparison& all, std::string_view unit, const Value& value) {
  const std::vector<const Compared*> order = ranked(all, value);
  if (order.size() < 2 || value(*order[1]) <= 0) return "";
  const Compared &first = *order[0], &second = *order[1];
  const double ratio = value(first) / value(second);
  const std::string figures = fmt::format("{} and {} {}", group_digits(std::llround(value(first))),
                                          group_digits(std::llround(value(second))), unit);
  const std::string much = ratio < 2 ? fmt::format("{:.0f} % more", (ratio - 1) * 100)
                                     : fmt::format("{:.1f} times as many", ratio);
  for (const Compared* each : {&first, &second})
    if (!speed_error(*each))
      return fmt::format("{} and {}: {}, {} by prediction, but no speed was ever compared on {}", first.name,
                         second.name, figures, much, each->name);
  const double within = std::max(*speed_error(first), *speed_error(second));
  if (ratio < 1 + within)
    return fmt::format(
        "{} and {} tie: {}, {:.1f} % apart, where half of such predictions were off by more than {}",
        first.name, second.name, figures, (ratio - 1) * 100, format_percent(within));
  return fmt::format("{} has the most {}: {}, {} than {}", first.name, unit, figures,
                     ratio < 2 ? much : fmt::format("{:.1f} times more", ratio), second.name);
}

/// Returns the price of all its GPUs for an hour.
double hourly(const Compared& each) { return *each.price * static_cast<double>(cluster_of(each).gpus); }

/// Returns the hardware whose tokens cost least, and how much more the fastest costs.
std::string cheapest(const HardwareComparison& all) {
  if (!has_prices(all)) return "";
  const auto by_cost = ranked(all, [](const Compared& c) { return -*c.cost_per_million_tokens(); });
  if (by_cost.size() < 2) return "";
  const Compared& least = *by_cost.front();
  const Compared& fastest =
      *ranked(all, [](const Compared& c) { return plan_on(c).time.tokens_per_second; }).front();
  std::string text = fmt::format("{} is the cheapest: {:.3f} per million tokens", least.name,
                                 *least.cost_per_million_tokens());
  if (&fastest == &least) return text + ", and the fastest";
  return text + fmt::format(
                    "; {}, the fastest, is {:.1f} times as fast at {:.3f}, since {:.1f} times as much "
                    "is charged for it an hour",
                    fastest.name,
                    plan_on(fastest).time.tokens_per_second / plan_on(least).time.tokens_per_second,
                    *fastest.cost_per_million_tokens(), hourly(fastest) / hourly(least));
}

std::string shortfall(const Compared& each) {
  if (!each.planned) return fmt::format("{}: {}", each.name, each.impossible);
  const Plan& plan = plan_on(each);
  return fmt::format("{}: {} {}: {}", each.name, plan.id(),
                     plan.fits_device ? "is short of host memory" : "is the nearest of plans that do not fit",
                     fmt::join(plan.why, "; "));
}

std::vector<std::string> sentences(const HardwareComparison& all) {
  std::vector<std::string> out;
  for (std::string each :
       {ahead(all, "tokens per GPU-hour", [](const Compared& c) { return c.tokens_per_gpu_hour(); }),
        ahead(all, "tokens per second", [](const Compared& c) { return plan_on(c).time.tokens_per_second; }),
        cheapest(all)})
    if (!each.empty()) out.push_back(std::move(each));
  for (const Compared& each : all.hardware)
    if (!each.fits()) out.push_back(shortfall(each));
  return out;
}

/// Adds the assumptions about each.
void add_assumptions(Document& doc, const HardwareComparison& all) {
  doc.heading("Assumed");
  for (const Compared& each : all.hardware)
    if (each.planned)
      for (const std::string& text : cluster_of(each).assumptions)
        doc.paragraph("  - ", text.starts_with(each.name) ? text : fmt::format("{}: {}", each.name, text),
                      Tone::faint);
}

void add_commands(Document& doc, const HardwareComparison& all) {
  doc.heading("Each by itself");
  for (const Compared& each : all.hardware)
    if (each.planned) doc.line("  " + command_line(each.planned->scenario.arguments));
}

std::string number_or_none(const std::optional<double>& value) {
  return value ? fmt::format("{}", *value) : std::string();
}

std::vector<CsvRecord> csv(const HardwareComparison& all) {
  std::vector<CsvRecord> records;
  CsvRecord names = csv_names(false);
  const CsvRecord own{"hardware",
                      "kind",
                      "gpu",
                      "gpus",
                      "nodes",
                      "impossible",
                      "tokens_per_gpu_hour",
                      "speed_median_error",
                      "price_per_gpu_hour",
                      "cost_per_million_tokens"};
  names.insert(names.begin(), own.begin(), own.end());
  records.push_back(std::move(names));
  for (const Compared& each : all.hardware) {
    CsvRecord record = each.planned ? csv_fields(plan_on(each)) : CsvRecord(csv_names(false).size());
    const auto field = [&each](auto of) { return each.planned ? fmt::format("{}", of()) : std::string(); };
    const CsvRecord first{each.name,
                          each.instance ? "instance" : "gpu",
                          field([&] { return cluster_of(each).gpu.name; }),
                          field([&] { return cluster_of(each).gpus; }),
                          field([&] { return cluster_of(each).nodes; }),
                          each.impossible,
                          field([&] { return each.tokens_per_gpu_hour(); }),
                          number_or_none(each.planned ? speed_error(each) : std::nullopt),
                          number_or_none(each.price),
                          number_or_none(each.cost_per_million_tokens())};
    record.insert(record.begin(), first.begin(), first.end());
    records.push_back(std::move(record));
  }
  return records;
}

Json compared_json(const Compared& each) {
  Json out{{"name", each.name}, {"kind", each.instance ? "instance" : "gpu"}};
  out["price_per_gpu_hour"] = or_null(each.price);
  out["cost_per_million_tokens"] = or_null(each.cost_per_million_tokens());
  out["impossible"] = each.planned ? Json(nullptr) : Json(each.impossible);
  if (!each.planned) {
    for (const char* key :
         {"plan", "tokens_per_second", "tokens_per_gpu_hour", "speed_median_error", "report"})
      out[key] = nullptr;
    out["fits"] = false;
    return out;
  }
  const Plan& plan = plan_on(each);
  out["fits"] = plan.fits;
  out["plan"] = plan.id();
  out["tokens_per_second"] = plan.time.tokens_per_second;
  out["tokens_per_gpu_hour"] = each.tokens_per_gpu_hour();
  out["speed_median_error"] = or_null(speed_error(each));
  out["report"] = report_json(report_of(*each.planned));
  return out;
}

}  // namespace

double ComparedHardware::tokens_per_gpu_hour() const {
  return planned ? planned->plan().time.tokens_per_second * kSecondsPerHour /
                       static_cast<double>(planned->question.cluster.gpus)
                 : 0;
}

std::optional<double> ComparedHardware::cost_per_million_tokens() const {
  if (!price || !planned) return std::nullopt;
  return *price / tokens_per_gpu_hour() * 1e6;
}

void HardwareComparison::sort(ListOrder by) {
  if (by == ListOrder::given) return;
  const auto place = [by](const Compared& each) {
    const int group = each.fits() ? 0 : each.planned ? 1 : 2;
    if (group == 2) return std::pair(group, 0.0);
    return std::pair(group, by == ListOrder::fastest ? -plan_on(each).time.tokens_per_second
                                                     : *each.cost_per_million_tokens());
  };
  std::stable_sort(hardware.begin(), hardware.end(),
                   [&place](const Compared& a, const Compared& b) { return place(a) < place(b); });
}

Document hardware_document(const HardwareComparison& all) {
  Document doc;
  doc.shown = Shown::both;
  doc.table(hardware_table(all));
  for (const std::string& each : sentences(all)) {
    doc.shown = Shown::text, doc.paragraph("  - ", each);
    doc.shown = Shown::markdown, doc.paragraph("", each + ".");
  }
  doc.shown = Shown::text;
  add_assumptions(doc, all);
  add_commands(doc, all);
  doc.records = csv(all);
  return doc;
}

Json hardware_comparison_json(const HardwareComparison& all) {
  return {{"schema", "zplan.hardware-comparison/1"},
          {"zplan_version", std::string(version())},
          {"order", name_json(all.order)},
          {"hardware", json_list(all.hardware, compared_json)}};
}

}  // namespace zplan
