#include "cli/report/hardware_comparison.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "cli/options/command_line.h"
#include "cli/report/accuracy.h"
#include "cli/report/measures.h"
#include "cli/report/report_json.h"
#include "hardware_profiles/platform.h"
#include "models/base/format.h"
#include "models/base/version.h"
#include "planner/accuracy.h"

namespace zplan {

namespace {

using Compared = ComparedHardware;

const Plan& plan_on(const Compared& each) { return each.planned->plan(); }
const Cluster& cluster_of(const Compared& each) { return each.planned->question.cluster; }

/// Half of such predicted speeds were further off; nothing where none was ever compared.
std::optional<double> speed_error(const Compared& each) {
  const Gpu& gpu = cluster_of(each).gpu;
  if (!platform_of(gpu.compute_capability).unknown.empty()) return std::nullopt;
  return speed_tie(plan_on(each).framework, gpu.name).within;
}

std::string error_text(const Compared& each) {
  const std::optional<double> error = speed_error(each);
  return error ? format_percent(*error) : "not known";
}

std::string gpus_text(const Cluster& cluster) {
  return cluster.nodes == 1 ? fmt::format("{}", cluster.gpus)
                            : fmt::format("{} x {}", cluster.nodes, cluster.gpus_per_node);
}

Table hardware_table(const HardwareComparison& all) {
  const std::string memory = unit_name(all.unit);
  Table table{{{"hardware", "", false, kAlways},
               {"GPUs", "", true, 8},
               {"verdict", "", false, kAlways},
               {"plan", "", false, kAlways},
               {"needs", memory, true, 7},
               {"of", memory, true, 6},
               {"step", "", true, 5},
               {"tok/s", "", true, 9},
               {"tok/GPU-h", "", true, kAlways},
               {"off by", "median", true, 4},
               {"MFU", "", true, 3}},
              {}};
  for (const Compared& each : all.hardware) {
    if (!each.planned) {
      table.rows.push_back({{each.name, "", "cannot", "", "", "", "", "", "", "", ""}, Tone::faint});
      continue;
    }
    const Plan& plan = plan_on(each);
    const Question& q = each.planned->question;
    table.rows.push_back(
        {{each.name, gpus_text(q.cluster), comparison_verdict(plan), plan.id(),
          format_bytes_value(plan.memory.required, all.unit),
          format_bytes_value(available(q.cluster, q.headroom), all.unit), format_seconds(plan.time.step),
          group_digits(std::llround(plan.time.tokens_per_second)),
          group_digits(std::llround(each.tokens_per_gpu_hour())), error_text(each),
          format_percent(plan.time.mfu)},
         plan.fits ? Tone::plain : Tone::faint});
  }
  return table;
}

/// Those on which a plan fits, by `value`, most first.
template <class Value>
std::vector<const Compared*> ranked(const HardwareComparison& all, const Value& value) {
  std::vector<const Compared*> order;
  for (const Compared& each : all.hardware)
    if (each.fits()) order.push_back(&each);
  std::stable_sort(order.begin(), order.end(),
                   [&value](const Compared* a, const Compared* b) { return value(*a) > value(*b); });
  return order;
}

/// Which is ahead and by how much, or that the two first tie: closer than half of such speeds were off.
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
        ahead(all, "tokens per second", [](const Compared& c) { return plan_on(c).time.tokens_per_second; })})
    if (!each.empty()) out.push_back(std::move(each));
  for (const Compared& each : all.hardware)
    if (!each.fits()) out.push_back(shortfall(each));
  return out;
}

/// What is not known, or taken for granted, of each.
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

std::vector<CsvRecord> csv(const HardwareComparison& all) {
  std::vector<CsvRecord> records;
  CsvRecord names = csv_names(false);
  const CsvRecord own{
      "hardware", "kind", "gpu", "gpus", "nodes", "impossible", "tokens_per_gpu_hour", "speed_median_error"};
  names.insert(names.begin(), own.begin(), own.end());
  records.push_back(std::move(names));
  for (const Compared& each : all.hardware) {
    CsvRecord record = each.planned ? csv_fields(plan_on(each)) : CsvRecord(csv_names(false).size());
    const auto field = [&each](auto of) { return each.planned ? fmt::format("{}", of()) : std::string(); };
    const CsvRecord first{
        each.name,
        each.instance ? "instance" : "gpu",
        field([&] { return cluster_of(each).gpu.name; }),
        field([&] { return cluster_of(each).gpus; }),
        field([&] { return cluster_of(each).nodes; }),
        each.impossible,
        field([&] { return each.tokens_per_gpu_hour(); }),
        each.planned && speed_error(each) ? fmt::format("{}", *speed_error(each)) : std::string()};
    record.insert(record.begin(), first.begin(), first.end());
    records.push_back(std::move(record));
  }
  return records;
}

Json json_of(const Compared& each) {
  Json out{{"name", each.name}, {"kind", each.instance ? "instance" : "gpu"}};
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
  out["speed_median_error"] = speed_error(each) ? Json(*speed_error(each)) : Json(nullptr);
  out["report"] = report_json(each.planned->report());
  return out;
}

}  // namespace

double ComparedHardware::tokens_per_gpu_hour() const {
  constexpr double kSecondsPerHour = 3600;
  return planned ? planned->plan().time.tokens_per_second * kSecondsPerHour /
                       static_cast<double>(planned->question.cluster.gpus)
                 : 0;
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
  Json hardware = Json::array();
  for (const Compared& each : all.hardware) hardware.push_back(json_of(each));
  return {{"schema", "zplan.hardware-comparison/1"},
          {"zplan_version", std::string(version())},
          {"hardware", std::move(hardware)}};
}

}  // namespace zplan
