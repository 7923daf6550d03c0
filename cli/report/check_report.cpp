#include "cli/report/check_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "cli/document/json_values.h"
#include "cli/document/table.h"
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

std::string count_text(std::size_t count) { return fmt::format("{}", count); }

std::string phase_text(const check::RecordGroup& group) {
  return group.phase_judged == 0 ? "-" : fmt::format("{} of {}", group.phase_right, group.phase_judged);
}

/// Pooled subsets are of several statistics.
bool is_pooled(const check::Subset& subset) { return subset.name.ends_with(check::kPooled); }

/// Adds the columns that groups and subsets share.
template <class Item>
void add_figures(std::vector<Field<Item>>& fields, const check::RecordGroup& (*group_of)(const Item&)) {
  const auto add = [&](Column column, std::string (*text)(const check::RecordGroup&)) {
    fields.push_back({std::move(column), [=](const Item& each) { return text(group_of(each)); }});
  };
  const auto add_share = [&](const char* heading, double check::RecordGroup::*share) {
    fields.push_back({number_column(heading), [=](const Item& each) {
                        const check::RecordGroup& group = group_of(each);
                        return group.judged > 0 ? share_text(group.*share) : std::string("-");
                      }});
  };
  using Group = const check::RecordGroup&;
  add(number_column("records", "", 6), [](Group group) { return count_text(group.records); });
  add(number_column("judged"), [](Group group) { return count_text(group.judged); });
  add(number_column("skipped", "", 7), [](Group group) { return count_text(group.skipped); });
  add_share("median", &check::RecordGroup::median_error);
  add_share("p90", &check::RecordGroup::p90_error);
  add_share("worst", &check::RecordGroup::worst_error);
  add_share("> 5 % low", &check::RecordGroup::under_predicted);
  add(number_column("equal", "", 5), [](Group group) { return count_text(group.exact); });
  add(number_column("phase right", "", 4), phase_text);
}

Table subset_table(const CheckReport& report) {
  using S = const check::Subset&;
  std::vector<Field<check::Subset>> fields{
      {text_column("of these"), [](S subset) { return subset.name; }},
      {text_column("statistic"),
       [](S subset) { return is_pooled(subset) ? "" : in_words(to_name(subset.figures.statistic)); }}};
  add_figures<check::Subset>(fields, [](S subset) -> const check::RecordGroup& { return subset.figures; });
  return table_of(fields, report.subsets);
}

Table slope_table(const CheckReport& report) {
  using S = const check::Slope&;
  const ByteUnit unit = report.unit;
  return table_of<check::Slope>(
      {{text_column("sweep of"), [](S slope) { return slope.variable; }},
       {text_column("from"), [](S slope) { return slope.from; }},
       {text_column("to"), [](S slope) { return slope.to; }},
       {text_column("statistic", 5), [](S slope) { return in_words(to_name(slope.statistic)); }},
       {number_column("predicted per unit"),
        [unit](S slope) { return figure_text(slope.predicted, slope.statistic, unit); }},
       {number_column("measured per unit"),
        [unit](S slope) { return figure_text(slope.measured, slope.statistic, unit); }},
       {number_column("error"), [](S slope) { return error_text(slope.error()); }}},
      report.slopes);
}

Table efficiency_table(const CheckReport& report) {
  using F = const check::EfficiencyFit&;
  const auto usual = [](double (*error)(F)) {
    return [error](F fit) { return fit.usual_runs > 0 ? share_text(error(fit)) : std::string("-"); };
  };
  return table_of<check::EfficiencyFit>(
      {{text_column("GPU"), [](F fit) { return fit.gpu; }},
       {number_column("products"), [](F fit) { return share_text(fit.efficiency.products); }},
       {number_column("attention"), [](F fit) { return share_text(fit.efficiency.attention); }},
       {number_column("memory"), [](F fit) { return share_text(fit.efficiency.memory); }},
       {number_column("runs"), [](F fit) { return count_text(fit.runs); }},
       {number_column("median"), [](F fit) { return share_text(fit.seen.median); }},
       {number_column("p90"), [](F fit) { return share_text(fit.seen.p90); }},
       {number_column("held out"), [](F fit) { return share_text(fit.held_out.median); }},
       {number_column("p90 held out"), [](F fit) { return share_text(fit.held_out.p90); }},
       {number_column("signed"), [](F fit) { return error_text(fit.held_out_signed); }},
       {number_column("usual kernels", "", 5), [](F fit) { return count_text(fit.usual_runs); }},
       {number_column("held out", "", 5), usual([](F fit) { return fit.held_out_usual.median; })},
       {number_column("p90 held out", "", 5), usual([](F fit) { return fit.held_out_usual.p90; })}},
      report.speeds.gpus);
}

Table skip_table(const CheckReport& report) {
  Table table{{number_column("skipped"), text_column("kind", 5), text_column("statistic", 5),
               text_column("not modelled")},
              {}};
  for (const check::RecordGroup& group : report.groups)
    for (const auto& [reason, count] : group.skip_reasons)
      table.rows.push_back({{fmt::format("{}", count), std::string(to_name(group.kind)),
                             in_words(to_name(group.statistic)), reason}});
  return table;
}

Table planner_table(const CheckReport& report) {
  using P = const check::PlannerComparison&;
  return table_of<check::PlannerComparison>(
      {{text_column("planner"), [](P each) { return std::string(each.planner.name); }},
       {text_column("kind"), [](P each) { return std::string(to_name(each.kind)); }},
       {number_column("runs"), [](P each) { return count_text(each.rows); }},
       {number_column("median"), [](P each) { return share_text(each.errors.median); }},
       {number_column("p90"), [](P each) { return share_text(each.errors.p90); }},
       {number_column("> 5 % low"), [](P each) { return share_text(each.errors.under_predicted); }},
       {number_column("zplan on these"), [](P each) { return count_text(each.zplan_rows); }},
       {number_column("median"), [](P each) { return share_text(each.zplan_errors.median); }},
       {number_column("> 5 % low"), [](P each) { return share_text(each.zplan_errors.under_predicted); }},
       {text_column("source", 5), [](P each) { return std::string(each.planner.source); }}},
      report.planners);
}

/// Returns the groups whose median exceeds the tolerance; nothing without one.
std::vector<check::RecordGroup> groups_beyond(const CheckReport& report) {
  std::vector<check::RecordGroup> beyond;
  for (const check::RecordGroup& group : report.groups)
    if (report.tolerance && group.judged > 0 && group.median_error > *report.tolerance)
      beyond.push_back(group);
  return beyond;
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

Json judged_json(const Record& record) {
  const auto measured = [&](const std::optional<double>& end) { return figure_json(end, record.statistic); };
  const auto& range = record.measured;
  return {{"id", record.id},
          {"file", record.file},
          {"kind", to_name(record.kind)},
          {"statistic", to_name(record.statistic)},
          {"predicted", figure_json(record.predicted, record.statistic)},
          {"measured_low", range ? measured(range->low) : Json(nullptr)},
          {"measured_high", range ? measured(range->high) : Json(nullptr)},
          {"error", or_null(record.error)},
          {"exact", record.exact},
          {"phase_right", or_null(record.phase_right)},
          {"part", or_null(record.part)},
          {"subset", or_null(record.subset)},
          {"framework", or_null(record.traits.framework)},
          {"method", or_null(record.traits.method)},
          {"card", or_null(record.traits.card)},
          {"grade", or_null(record.traits.grade)},
          {"slower_attention", record.traits.attention_cost > 1},
          {"ran", or_null(record.ran)},
          {"fits", or_null(record.fits)},
          {"skipped", record.skip.any() ? Json(record.skip.text()) : Json(nullptr)},
          {"failure", or_null(record.failure)}};
}

Json record_group_json(const check::RecordGroup& group) {
  const auto judged = [any = group.judged > 0](double share) { return any ? Json(share) : Json(nullptr); };
  Json reasons = Json::object();
  for (const auto& [reason, count] : group.skip_reasons) reasons[reason] = count;
  return {{"kind", to_name(group.kind)},
          {"statistic", to_name(group.statistic)},
          {"records", group.records},
          {"judged", group.judged},
          {"skipped", group.skipped},
          {"median_error", judged(group.median_error)},
          {"p90_error", judged(group.p90_error)},
          {"worst_error", judged(group.worst_error)},
          {"under_predicted", judged(group.under_predicted)},
          {"cautious", judged(group.cautious)},
          {"exact", group.exact},
          {"phase_right", group.phase_judged > 0 ? Json(static_cast<double>(group.phase_right) /
                                                        static_cast<double>(group.phase_judged))
                                                 : Json(nullptr)},
          {"skip_reasons", std::move(reasons)}};
}

Json planner_json(const check::PlannerComparison& each) {
  const auto judged = [&](double share) { return each.zplan_rows > 0 ? Json(share) : Json(nullptr); };
  return {{"planner", each.planner.name},
          {"source", each.planner.source},
          {"kind", to_name(each.kind)},
          {"statistic", to_name(Statistic::allocated)},
          {"judged", each.rows},
          {"median_error", each.errors.median},
          {"p90_error", each.errors.p90},
          {"worst_error", each.errors.worst},
          {"under_predicted", each.errors.under_predicted},
          {"zplan",
           {{"judged", each.zplan_rows},
            {"median_error", judged(each.zplan_errors.median)},
            {"under_predicted", judged(each.zplan_errors.under_predicted)}}}};
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

/// Returns the fit to all runs: for each generation the rate of a multiprocessor in TFLOP/s.
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

Json subset_json(const check::Subset& each) {
  Json subset{{"name", each.name}};
  subset.update(record_group_json(each.figures));
  if (is_pooled(each)) subset["statistic"] = nullptr;
  return subset;
}

Json slope_json(const check::Slope& each) {
  return {{"variable", each.variable},
          {"from", each.from},
          {"to", each.to},
          {"statistic", to_name(each.statistic)},
          {"predicted", each.predicted},
          {"measured", each.measured},
          {"error", each.error()}};
}

/// Returns a line of names, then one per record.
std::vector<CsvRecord> csv_records(const CheckReport& report) {
  std::vector<CsvRecord> records(1);
  const Json names = judged_json(Record{});
  for (const auto& each : names.items()) records.front().push_back(each.key());
  for (const Record& record : shown_records(report)) {
    std::vector<std::string>& fields = records.emplace_back();
    for (const Json& value : judged_json(record))
      fields.push_back(value.is_null() ? "" : value.is_string() ? value.get<std::string>() : value.dump());
  }
  return records;
}

}  // namespace

Table record_table(const CheckReport& report) {
  const ByteUnit unit = report.unit;
  return table_of<Record>(
      {{text_column("run"), [](const Record& each) { return each.id; }},
       {text_column("file", 1), [](const Record& each) { return each.file; }},
       {text_column("kind", 2), [](const Record& each) { return std::string(to_name(each.kind)); }},
       {text_column("statistic"), [](const Record& each) { return in_words(to_name(each.statistic)); }},
       {number_column("predicted"),
        [unit](const Record& each) {
          return each.predicted ? figure_text(*each.predicted, each.statistic, unit) : "-";
        }},
       {number_column("measured"), [unit](const Record& each) { return measured_text(each, unit); }},
       {number_column("error"),
        [](const Record& each) { return each.judged() ? error_text(*each.error) : "skipped"; }}},
      shown_records(report), [](const Record& each) { return each.judged() ? Tone::plain : Tone::faint; });
}

Table group_table(const CheckReport& report) {
  using G = const check::RecordGroup&;
  std::vector<Field<check::RecordGroup>> fields{
      {text_column("kind"), [](G group) { return std::string(to_name(group.kind)); }},
      {text_column("statistic"), [](G group) { return in_words(to_name(group.statistic)); }}};
  add_figures<check::RecordGroup>(fields, [](G group) -> G { return group; });
  return table_of(fields, report.groups);
}

std::string fits_sentence(const check::FitTally& fits) {
  if (fits.ran + fits.failed == 0) return "";
  return fmt::format(
      "of {} runs that ran, {} are predicted to fit; of {} that ended out of memory, {} are predicted not to",
      fits.ran, fits.ran_and_fits, fits.failed, fits.failed - fits.failed_and_fits);
}

bool holds(const CheckReport& report) {
  if (!report.failures.empty()) return false;
  if (!report.tolerance) return true;
  return any_judged(report) && groups_beyond(report).empty();
}

namespace {

/// Blocks that a text names of each snapshot, and that JSON lists.
constexpr std::size_t kMostBlocks = 10, kMostListedBlocks = 100;

Table phase_table(const check::SnapshotDifference& difference, ByteUnit unit) {
  using P = const check::SnapshotPhase&;
  const auto size = [unit](Bytes bytes) { return format_bytes(bytes, unit); };
  return table_of<check::SnapshotPhase>(
      {{text_column("requested, most in"), [](P each) { return each.name; }},
       {number_column("recorded"), [=](P each) { return size(each.measured); }},
       {number_column("predicted"), [=](P each) { return size(each.predicted); }},
       {number_column("difference"),
        [=](P each) {
          const Bytes apart = each.difference();
          return (apart < Bytes{} ? "-" : "+") + size(std::max(apart, Bytes{} - apart));
        }}},
      difference.phases);
}

Table block_table(const check::SnapshotDifference& difference, std::size_t most, ByteUnit unit) {
  using B = const check::LoneBlocks&;
  std::vector<check::LoneBlocks> shown = difference.blocks;
  if (shown.size() > most) shown.resize(most);
  return table_of<check::LoneBlocks>(
      {{text_column("only in"), [](B each) { return each.is_measured ? "recorded" : "predicted"; }},
       {number_column("bytes"), [=](B each) { return format_bytes(each.total(), unit); }},
       {number_column("blocks"), [](B each) { return fmt::format("{}", each.count); }},
       {text_column("live in", 5), [](B each) { return each.phase; }},
       {text_column("from"), [](B each) { return each.origin; }}},
      shown);
}

/// Names the phase that differs most, and the largest block that only one of the two has.
std::string difference_sentence(const check::SnapshotDifference& difference, ByteUnit unit) {
  const check::SnapshotPhase* largest = difference.largest();
  if (largest == nullptr) return difference.note;
  if (largest->difference() == Bytes{} && difference.blocks.empty())
    return "every phase and every block at its highest moment is equal";
  const Bytes apart = largest->difference();
  std::string said = apart == Bytes{}
                         ? "highest moments are equal"
                         : fmt::format("largest difference: {}, {} {} than recorded", largest->name,
                                       format_bytes(std::max(apart, Bytes{} - apart), unit),
                                       apart < Bytes{} ? "less" : "more");
  if (difference.blocks.empty()) return said;
  const check::LoneBlocks& block = difference.blocks.front();
  return said + fmt::format("; largest of blocks that only one has: {} {} ({})",
                            format_bytes(block.total(), unit), block.is_measured ? "recorded" : "predicted",
                            block.origin);
}

void add_snapshot(Document& doc, const check::SnapshotDifference& difference, const CheckReport& report) {
  doc.line();
  doc.heading(fmt::format("{}: the last step, beside {}", difference.file, difference.plan));
  if (!difference.phases.empty()) doc.table(phase_table(difference, report.unit));
  doc.paragraph("", difference_sentence(difference, report.unit));
  if (difference.blocks.empty()) return;
  doc.line();
  doc.table(block_table(difference, report.worst.value_or(kMostBlocks), report.unit));
}

Json snapshot_json(const check::SnapshotDifference& difference) {
  std::vector<check::LoneBlocks> shown = difference.blocks;
  if (shown.size() > kMostListedBlocks) shown.resize(kMostListedBlocks);
  const check::SnapshotPhase* largest = difference.largest();
  return {{"file", difference.file},
          {"plan", difference.plan},
          {"largest_difference", largest == nullptr ? Json(nullptr) : Json(largest->name)},
          {"note", or_null(difference.note)},
          {"phases", json_list(difference.phases,
                               [](const check::SnapshotPhase& each) {
                                 return Json{{"name", each.name},
                                             {"measured_bytes", each.measured.value},
                                             {"predicted_bytes", each.predicted.value}};
                               })},
          {"blocks", json_list(shown, [](const check::LoneBlocks& each) {
             return Json{{"only_in", each.is_measured ? "measured" : "predicted"},
                         {"phase", each.phase},
                         {"bytes", each.size.value},
                         {"count", each.count},
                         {"from", each.origin}};
           })}};
}

}  // namespace

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
  for (const check::SnapshotDifference& each : report.snapshots) add_snapshot(doc, each, report);
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
  json["groups"] = json_list(report.groups, record_group_json);
  json["subsets"] = json_list(report.subsets, subset_json);
  json["slopes"] = json_list(report.slopes, slope_json);
  json["records"] = json_list(shown_records(report), judged_json);
  json["other_planners"] = json_list(report.planners, planner_json);
  json["efficiencies"] = json_list(report.speeds.gpus, efficiency_json);
  json["held_out"] = json_list(report.speeds.held_out, held_out_json);
  if (!report.snapshots.empty()) json["snapshots"] = json_list(report.snapshots, snapshot_json);
  json["fits"] = {{"ran", report.fits.ran},
                  {"ran_and_fits", report.fits.ran_and_fits},
                  {"failed", report.fits.failed},
                  {"failed_and_fits", report.fits.failed_and_fits}};
  if (!report.speeds.held_out.empty())
    json["kernel_model"] = {{"fitted", kernel_model_json(report.speeds.model)},
                            {"built_in", kernel_model_json(KernelModel{})}};
  return json;
}

}  // namespace zplan
