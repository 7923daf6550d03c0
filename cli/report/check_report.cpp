#include "cli/report/check_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "cli/document/table.h"
#include "cli/report/report_json.h"
#include "hardware_profiles/cluster.h"
#include "hardware_profiles/gpu.h"
#include "models/base/version.h"
#include "planner/plan/accuracy.h"

namespace zplan {

namespace {

using check::Record;
using check::Statistic;

enum class Unit { bytes, seconds, tokens, calls };

Unit unit_of(Statistic statistic) {
  switch (statistic) {
    case Statistic::seconds:
    case Statistic::seconds_by_model: return Unit::seconds;
    case Statistic::tokens_per_second: return Unit::tokens;
    case Statistic::schedule: return Unit::calls;
    default: return Unit::bytes;
  }
}

std::string figure_text(double value, Statistic statistic, ByteUnit unit) {
  switch (unit_of(statistic)) {
    case Unit::bytes: return format_bytes(Bytes(static_cast<std::int64_t>(value)), unit);
    case Unit::seconds: return format_seconds(Seconds(value));
    case Unit::tokens: return fmt::format("{:.0f} tok/s", value);
    case Unit::calls: return fmt::format("{:.0f} calls", value);
  }
  return "";
}

std::string error_text(double error) { return fmt::format("{:+.2f} %", error * 100); }
std::string share_text(double share) { return fmt::format("{:.2f} %", share * 100); }

std::string measured_text(const Record& record, ByteUnit unit) {
  if (!record.measured) return "-";
  const std::string low = figure_text(record.measured->low, record.statistic, unit);
  if (!record.measured->high) return "at least " + low;
  const std::string high = figure_text(*record.measured->high, record.statistic, unit);
  return low == high ? low : fmt::format("{} to {}", low, high);
}

std::vector<Record> shown_records(const CheckReport& report) {
  return report.worst ? check::worst_records(report.records, *report.worst) : report.records;
}

std::string phase_text(const check::RecordGroup& group) {
  return group.phase_judged == 0 ? "-" : fmt::format("{} of {}", group.phase_right, group.phase_judged);
}

/// Behind a first column of its own, what both kinds of groups are told by.
Table figures_table(const char* first) {
  return {{{first, "", false, kAlways},
           {"statistic", "", false, kAlways},
           {"records", "", true, 6},
           {"judged", "", true, kAlways},
           {"skipped", "", true, 7},
           {"median", "", true, kAlways},
           {"p90", "", true, kAlways},
           {"worst", "", true, kAlways},
           {"> 5 % low", "", true, kAlways},
           {"equal", "", true, 5},
           {"phase right", "", true, 4}},
          {}};
}

Row figures_row(const std::string& first, const std::string& statistic, const check::RecordGroup& group) {
  const bool any = group.judged > 0;
  const auto share = [any](double value) { return any ? share_text(value) : std::string("-"); };
  return {{first, statistic, fmt::format("{}", group.records), fmt::format("{}", group.judged),
           fmt::format("{}", group.skipped), share(group.median_error), share(group.p90_error),
           share(group.worst_error), share(group.under_predicted), fmt::format("{}", group.exact),
           phase_text(group)}};
}

/// Pooled subsets are of several statistics.
bool is_pooled(const check::Subset& subset) { return subset.name.ends_with(check::kPooled); }

Table subset_table(const CheckReport& report) {
  Table table = figures_table("of these");
  for (const check::Subset& subset : report.subsets)
    table.rows.push_back(figures_row(
        subset.name, is_pooled(subset) ? "" : in_words(to_name(subset.figures.statistic)), subset.figures));
  return table;
}

Table slope_table(const CheckReport& report) {
  Table table{{{"sweep of", "", false, kAlways},
               {"from", "", false, kAlways},
               {"to", "", false, kAlways},
               {"statistic", "", false, 5},
               {"predicted per unit", "", true, kAlways},
               {"measured per unit", "", true, kAlways},
               {"error", "", true, kAlways}},
              {}};
  for (const check::Slope& slope : report.slopes)
    table.rows.push_back(
        {{slope.variable, slope.from, slope.to, in_words(to_name(slope.statistic)),
          figure_text(slope.predicted, slope.statistic, report.unit),
          figure_text(slope.measured, slope.statistic, report.unit), error_text(slope.error())}});
  return table;
}

/// What is said of rows by what they are: published peaks have it.
Table efficiency_table(const CheckReport& report) {
  Table table{{{"GPU", "", false, kAlways},
               {"products", "", true, kAlways},
               {"attention", "", true, kAlways},
               {"memory", "", true, kAlways},
               {"runs", "", true, kAlways},
               {"median", "", true, kAlways},
               {"p90", "", true, kAlways},
               {"held out", "", true, kAlways},
               {"p90 held out", "", true, kAlways},
               {"signed", "", true, kAlways},
               {"usual kernels", "", true, 5},
               {"held out", "", true, 5},
               {"p90 held out", "", true, 5}},
              {}};
  for (const check::EfficiencyFit& each : report.speeds.gpus) {
    const auto usual = [&](double error) {
      return each.usual_runs > 0 ? share_text(error) : std::string("-");
    };
    table.rows.push_back(
        {{each.gpu, share_text(each.efficiency.products), share_text(each.efficiency.attention),
          share_text(each.efficiency.memory), fmt::format("{}", each.runs), share_text(each.seen.median),
          share_text(each.seen.p90), share_text(each.held_out.median), share_text(each.held_out.p90),
          error_text(each.held_out_signed), fmt::format("{}", each.usual_runs),
          usual(each.held_out_usual.median), usual(each.held_out_usual.p90)}});
  }
  return table;
}

Table skip_table(const CheckReport& report) {
  Table table{{{"skipped", "", true, kAlways},
               {"kind", "", false, 5},
               {"statistic", "", false, 5},
               {"not modelled", "", false, kAlways}},
              {}};
  for (const check::RecordGroup& group : report.groups)
    for (const auto& [reason, count] : group.skip_reasons)
      table.rows.push_back({{fmt::format("{}", count), std::string(to_name(group.kind)),
                             in_words(to_name(group.statistic)), reason}});
  return table;
}

Table planner_table(const CheckReport& report) {
  Table table{{{"planner", "", false, kAlways},
               {"kind", "", false, kAlways},
               {"runs", "", true, kAlways},
               {"median", "", true, kAlways},
               {"p90", "", true, kAlways},
               {"> 5 % low", "", true, kAlways},
               {"zplan on these", "", true, kAlways},
               {"median", "", true, kAlways},
               {"> 5 % low", "", true, kAlways},
               {"source", "", false, 5}},
              {}};
  for (const check::PlannerComparison& each : report.planners)
    table.rows.push_back({{std::string(each.planner.name), std::string(to_name(each.kind)),
                           fmt::format("{}", each.rows), share_text(each.errors.median),
                           share_text(each.errors.p90), share_text(each.errors.under_predicted),
                           fmt::format("{}", each.zplan_rows), share_text(each.zplan_errors.median),
                           share_text(each.zplan_errors.under_predicted), std::string(each.planner.source)}});
  return table;
}

bool any_judged(const CheckReport& report) {
  return std::any_of(report.groups.begin(), report.groups.end(),
                     [](const check::RecordGroup& group) { return group.judged > 0; });
}

std::string verdict(const CheckReport& report) {
  const std::string limit = share_text(*report.tolerance);
  if (groups_beyond(report).empty() && any_judged(report))
    return fmt::format("every median is within {}", limit);
  const std::vector<check::RecordGroup> beyond = groups_beyond(report);
  if (beyond.empty()) return "nothing was judged";
  std::string text = fmt::format("median beyond {}:", limit);
  for (const check::RecordGroup& group : beyond)
    text += fmt::format(" {} {} {}", to_name(group.kind), in_words(to_name(group.statistic)),
                        share_text(group.median_error));
  return text;
}

Json figure_json(const std::optional<double>& value, Statistic statistic) {
  if (!value) return nullptr;
  const Unit unit = unit_of(statistic);
  if (unit == Unit::bytes || unit == Unit::calls) return static_cast<std::int64_t>(std::llround(*value));
  return *value;
}

Json text_or_null(const std::string& text) { return text.empty() ? Json(nullptr) : Json(text); }

Json record_json(const Record& record) {
  Json json{{"id", record.id},
            {"file", record.file},
            {"kind", to_name(record.kind)},
            {"statistic", to_name(record.statistic)},
            {"predicted", figure_json(record.predicted, record.statistic)},
            {"measured_low", nullptr},
            {"measured_high", nullptr},
            {"error", nullptr},
            {"exact", record.exact},
            {"phase_right", nullptr},
            {"part", nullptr},
            {"subset", nullptr},
            {"framework", text_or_null(record.traits.framework)},
            {"method", text_or_null(record.traits.method)},
            {"card", text_or_null(record.traits.card)},
            {"grade", text_or_null(record.traits.grade)},
            {"slower_attention", record.traits.attention_cost > 1},
            {"ran", nullptr},
            {"fits", nullptr},
            {"skipped", nullptr},
            {"failure", nullptr}};
  if (record.measured) {
    json["measured_low"] = figure_json(record.measured->low, record.statistic);
    json["measured_high"] = figure_json(record.measured->high, record.statistic);
  }
  if (record.error) json["error"] = *record.error;
  if (record.phase_right) json["phase_right"] = *record.phase_right;
  if (!record.part.empty()) json["part"] = record.part;
  if (!record.subset.empty()) json["subset"] = record.subset;
  if (record.ran) json["ran"] = *record.ran;
  if (record.fits) json["fits"] = *record.fits;
  if (record.skip.any()) json["skipped"] = record.skip.text();
  if (!record.failure.empty()) json["failure"] = record.failure;
  return json;
}

Json group_json(const check::RecordGroup& group) {
  Json json{{"kind", to_name(group.kind)},   {"statistic", to_name(group.statistic)},
            {"records", group.records},      {"judged", group.judged},
            {"skipped", group.skipped},      {"median_error", nullptr},
            {"p90_error", nullptr},          {"worst_error", nullptr},
            {"under_predicted", nullptr},    {"cautious", nullptr},
            {"exact", group.exact},          {"phase_right", nullptr},
            {"skip_reasons", Json::object()}};
  if (group.judged > 0) {
    json["median_error"] = group.median_error, json["p90_error"] = group.p90_error;
    json["worst_error"] = group.worst_error, json["under_predicted"] = group.under_predicted;
    json["cautious"] = group.cautious;
  }
  if (group.phase_judged > 0)
    json["phase_right"] = static_cast<double>(group.phase_right) / static_cast<double>(group.phase_judged);
  for (const auto& [reason, count] : group.skip_reasons) json["skip_reasons"][reason] = count;
  return json;
}

Json planner_json(const check::PlannerComparison& each) {
  Json json{
      {"planner", each.planner.name},
      {"source", each.planner.source},
      {"kind", to_name(each.kind)},
      {"statistic", to_name(Statistic::allocated)},
      {"judged", each.rows},
      {"median_error", each.errors.median},
      {"p90_error", each.errors.p90},
      {"worst_error", each.errors.worst},
      {"under_predicted", each.errors.under_predicted},
      {"zplan", {{"judged", each.zplan_rows}, {"median_error", nullptr}, {"under_predicted", nullptr}}}};
  if (each.zplan_rows > 0) {
    json["zplan"]["median_error"] = each.zplan_errors.median;
    json["zplan"]["under_predicted"] = each.zplan_errors.under_predicted;
  }
  return json;
}

Json efficiency_json(const check::EfficiencyFit& each) {
  const auto usual = [&](double error) { return each.usual_runs > 0 ? Json(error) : Json(nullptr); };
  return {{"gpu", each.gpu},
          {"matrix_products", each.efficiency.products},
          {"attention", each.efficiency.attention},
          {"memory_bandwidth", each.efficiency.memory},
          {"runs", each.runs},
          {"median_error", each.seen.median},
          {"p90_error", each.seen.p90},
          {"held_out_median_error", each.held_out.median},
          {"held_out_p90_error", each.held_out.p90},
          {"held_out_median_signed_error", each.held_out_signed},
          {"usual_attention_runs", each.usual_runs},
          {"usual_attention_held_out_median_error", usual(each.held_out_usual.median)},
          {"usual_attention_held_out_p90_error", usual(each.held_out_usual.p90)}};
}

/// What a fit to all runs says of all GPUs: rates per multiprocessor as TFLOP/s, of each generation.
Json kernel_model_json(const KernelModel& model) {
  const auto sustained = [&model](MatrixUnits units) {
    return model.sustained[static_cast<std::size_t>(units)].flops / 1e12;
  };
  return {{"ampere_tflops_per_multiprocessor", sustained(MatrixUnits::ampere_large)},
          {"hopper_tflops_per_multiprocessor", sustained(MatrixUnits::hopper)},
          {"tail_waves", model.tail},
          {"softmax_cycles", model.softmax_cycles},
          {"gb_per_s_per_multiprocessor", model.bytes_per_multiprocessor / 1e9},
          {"gap_us", model.gap.value * 1e6}};
}

Json held_out_json(const check::HeldOutError& each) {
  return {{"id", each.id},
          {"source", each.source},
          {"gpu", each.gpu},
          {"framework", to_name(each.framework)},
          {"method", to_name(each.method)},
          {"units", to_name(each.units)},
          {"offloads", each.offloads},
          {"without_gpu_error", each.without_gpu},
          {"without_source_error", each.without_source}};
}

/// A line of names, then one per record.
std::vector<CsvRecord> csv_records(const CheckReport& report) {
  std::vector<CsvRecord> records(1);
  const Json names = record_json(Record{});
  for (const auto& each : names.items()) records.front().push_back(each.key());
  for (const Record& record : shown_records(report)) {
    std::vector<std::string>& fields = records.emplace_back();
    for (const Json& value : record_json(record))
      fields.push_back(value.is_null() ? "" : value.is_string() ? value.get<std::string>() : value.dump());
  }
  return records;
}

}  // namespace

Table record_table(const CheckReport& report) {
  Table table{{{"run", "", false, kAlways},
               {"file", "", false, 1},
               {"kind", "", false, 2},
               {"statistic", "", false, kAlways},
               {"predicted", "", true, kAlways},
               {"measured", "", true, kAlways},
               {"error", "", true, kAlways}},
              {}};
  for (const Record& record : shown_records(report)) {
    const std::string predicted =
        record.predicted ? figure_text(*record.predicted, record.statistic, report.unit) : "-";
    table.rows.push_back({{record.id, record.file, std::string(to_name(record.kind)),
                           in_words(to_name(record.statistic)), predicted, measured_text(record, report.unit),
                           record.judged() ? error_text(*record.error) : "skipped"},
                          record.judged() ? Tone::plain : Tone::faint});
  }
  return table;
}

Table group_table(const CheckReport& report) {
  Table table = figures_table("kind");
  for (const check::RecordGroup& group : report.groups)
    table.rows.push_back(
        figures_row(std::string(to_name(group.kind)), in_words(to_name(group.statistic)), group));
  return table;
}

std::string fits_sentence(const check::FitTally& fits) {
  if (fits.ran + fits.failed == 0) return "";
  return fmt::format(
      "of {} runs that ran, {} are predicted to fit; of {} that ended out of memory, {} are predicted not to",
      fits.ran, fits.ran_and_fits, fits.failed, fits.failed - fits.failed_and_fits);
}

std::vector<check::RecordGroup> groups_beyond(const CheckReport& report) {
  std::vector<check::RecordGroup> beyond;
  for (const check::RecordGroup& group : report.groups)
    if (report.tolerance && group.judged > 0 && group.median_error > *report.tolerance)
      beyond.push_back(group);
  return beyond;
}

bool holds(const CheckReport& report) {
  if (!report.failures.empty()) return false;
  if (!report.tolerance) return true;
  return any_judged(report) && groups_beyond(report).empty();
}

Document check_document(const CheckReport& report) {
  Document doc;
  const auto add = [&doc](const Table& table) {
    if (table.rows.empty()) return;
    doc.line();
    doc.table(table);
  };
  doc.table(record_table(report)), doc.line(), doc.table(group_table(report));
  doc.shown = Shown::markdown;
  doc.table(group_table(report)), doc.line(), doc.table(record_table(report));
  doc.shown = Shown::both;
  for (const Table& table : {subset_table(report), slope_table(report), efficiency_table(report)}) add(table);
  if (const std::string fits = fits_sentence(report.fits); !fits.empty()) doc.line(), doc.line(fits);
  add(skip_table(report));
  doc.shown = Shown::markdown;
  add(planner_table(report));
  for (const std::string& failure : report.failures) doc.line(), doc.line("- fails: " + failure);
  doc.shown = Shown::text;
  if (!report.failures.empty()) doc.line();
  for (const std::string& failure : report.failures) doc.line("fails: " + failure);
  if (report.tolerance) doc.line(), doc.line(verdict(report));
  doc.records = csv_records(report);
  return doc;
}

Json check_json(const CheckReport& report) {
  Json json{{"schema", "zplan.check/1"}, {"zplan_version", version()}};
  if (report.tolerance) json["tolerance"] = *report.tolerance;
  if (report.tolerance || !report.failures.empty()) json["holds"] = holds(report);
  json["failures"] = report.failures;
  for (const char* list :
       {"groups", "subsets", "slopes", "records", "other_planners", "efficiencies", "held_out"})
    json[list] = Json::array();
  for (const check::RecordGroup& group : report.groups) json["groups"].push_back(group_json(group));
  for (const check::Subset& each : report.subsets) {
    Json subset{{"name", each.name}};
    subset.update(group_json(each.figures));
    if (is_pooled(each)) subset["statistic"] = nullptr;
    json["subsets"].push_back(std::move(subset));
  }
  for (const check::Slope& each : report.slopes)
    json["slopes"].push_back({{"variable", each.variable},
                              {"from", each.from},
                              {"to", each.to},
                              {"statistic", to_name(each.statistic)},
                              {"predicted", each.predicted},
                              {"measured", each.measured},
                              {"error", each.error()}});
  json["fits"] = {{"ran", report.fits.ran},
                  {"ran_and_fits", report.fits.ran_and_fits},
                  {"failed", report.fits.failed},
                  {"failed_and_fits", report.fits.failed_and_fits}};
  for (const Record& record : shown_records(report)) json["records"].push_back(record_json(record));
  for (const check::PlannerComparison& each : report.planners)
    json["other_planners"].push_back(planner_json(each));
  for (const check::EfficiencyFit& each : report.speeds.gpus)
    json["efficiencies"].push_back(efficiency_json(each));
  for (const check::HeldOutError& each : report.speeds.held_out)
    json["held_out"].push_back(held_out_json(each));
  if (!report.speeds.held_out.empty())
    json["kernel_model"] = {{"fitted", kernel_model_json(report.speeds.model)},
                            {"built_in", kernel_model_json(KernelModel{})}};
  return json;
}

}  // namespace zplan
