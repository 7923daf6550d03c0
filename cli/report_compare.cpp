// `compare`: figures as lines, strategies as columns, what they differ by behind them.

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>

#include "cli/compare.h"
#include "cli/report_text.h"
#include "planner/search/why.h"

namespace zplan {

namespace {

enum class Best { none, least, most };

struct Measure {
  std::string name, unit;
  double (*value)(const Plan&, const Question&);
  std::string (*text)(double, ByteUnit);
  Best best{Best::least};
};

double as_number(Bytes size) { return static_cast<double>(size.value); }

std::string bytes_text(double value, ByteUnit unit) {
  return format_bytes_value(Bytes(std::llround(value)), unit);
}
std::string traffic_text(double value, ByteUnit) { return bytes_text(value, ByteUnit::gb); }
std::string number_text(double value, ByteUnit) {
  const double size = std::abs(value);
  return size >= 99.95 ? fmt::format("{:.0f}", value) : fmt::format("{:.{}f}", value, size >= 9.995 ? 1 : 2);
}
std::string seconds_text(double value, ByteUnit unit) {
  return std::abs(value) < 0.9995 ? fmt::format("{:.3f}", value) : number_text(value, unit);
}
std::string count_text(double value, ByteUnit) { return fmt::format("{:.0f}", value); }
std::string percent_text(double value, ByteUnit) { return fmt::format("{:.1f}", value * 100); }

template <MemoryPart part>
double held(const Plan& plan, const Question&) {
  return as_number(plan.memory.peak.holds.part(part));
}

template <Seconds StepTime::*member>
double time_of(const Plan& plan, const Question&) {
  return (plan.time.*member).value;
}

using P = const Plan&;
using Q = const Question&;

std::vector<Measure> memory_measures(const std::string& unit) {
  return {
      {"parameters", unit, held<MemoryPart::parameters>, bytes_text},
      {"gradients", unit, held<MemoryPart::gradients>, bytes_text},
      {"optimizer states", unit, held<MemoryPart::optimizer_states>, bytes_text},
      {"activations", unit, held<MemoryPart::activations>, bytes_text},
      {"loss", unit, held<MemoryPart::loss>, bytes_text},
      {"communication buffers", unit, held<MemoryPart::communication_buffers>, bytes_text},
      {"temporaries", unit, held<MemoryPart::temporaries>, bytes_text},
      {"framework overhead", unit, held<MemoryPart::framework_overhead>, bytes_text},
      {"allocator slack", unit, [](P p, Q) { return as_number(p.memory.required - p.memory.peak.bytes()); },
       bytes_text},
      {"needs", unit, [](P p, Q) { return as_number(p.memory.required); }, bytes_text},
      {"free", unit, [](P p, Q q) { return as_number(Bytes{} - shortage(p, q)); }, bytes_text, Best::most},
      {"host memory per node", unit, [](P p, Q) { return as_number(p.memory.host.total); }, bytes_text}};
}

/// One GPU sends nothing, one node nothing out of it.
std::vector<Measure> traffic_measures(const Cluster& cluster) {
  std::vector<Measure> list;
  if (cluster.gpus == 1) return list;
  list.push_back({"collective calls", "", [](P p, Q) { return static_cast<double>(p.communication.calls()); },
                  count_text});
  if (cluster.gpus_per_node > 1)
    list.push_back({"sent per GPU, " + name_of_inner_link(cluster), "GB",
                    [](P p, Q) { return as_number(p.communication.inside_bytes_per_gpu()); }, traffic_text});
  if (cluster.network)
    list.push_back({"sent per GPU, " + cluster.network->name, "GB",
                    [](P p, Q) { return as_number(p.communication.outside_bytes_per_gpu()); }, traffic_text});
  list.push_back({"communication", "s", time_of<&StepTime::communication>, seconds_text});
  return list;
}

std::vector<Measure> time_measures() {
  return {{"step", "s", time_of<&StepTime::step>, seconds_text},
          {"of that compute", "s", time_of<&StepTime::compute>, seconds_text},
          {"waiting for launches", "s", time_of<&StepTime::launching>, seconds_text},
          {"exposed communication", "s", time_of<&StepTime::exposed_communication>, seconds_text},
          {"offload", "s", time_of<&StepTime::offload>, seconds_text},
          {"optimizer", "s", time_of<&StepTime::optimizer>, seconds_text},
          {"samples per step", "", [](P p, Q) { return static_cast<double>(p.strategy.global_batch_size()); },
           count_text, Best::none},
          {"tokens per second", "", [](P p, Q) { return p.time.tokens_per_second; }, number_text, Best::most},
          {"MFU", "%", [](P p, Q) { return p.time.mfu; }, percent_text, Best::most}};
}

bool says_nothing(const std::string& number) {
  return number.find_first_of("123456789") == std::string::npos;
}

std::string difference(const Measure& measure, double value, double base, ByteUnit unit) {
  const std::string text = measure.text(value - base, unit);
  if (says_nothing(text)) return "=";
  return value > base ? "+" + text : text;
}

/// The best value of a line as it is printed; empty where all plans print the same, or where they are held
/// against a saved report rather than each other.
std::string best_text(const Measure& measure, const Report& report) {
  const std::vector<const Plan*> plans = plans_in_order(report);
  const Question& q = report.question;
  if (measure.best == Best::none || saved_report(report) != nullptr) return "";
  double best = measure.value(*plans.front(), q);
  bool alike = true;
  for (const Plan* plan : plans) {
    const double value = measure.value(*plan, q);
    alike = alike && measure.text(value, q.unit) == measure.text(best, q.unit);
    best = measure.best == Best::least ? std::min(best, value) : std::max(best, value);
  }
  return alike ? "" : measure.text(best, q.unit);
}

std::string difference_of(const Measure& measure, const Side& side, const Question& q) {
  return difference(measure, measure.value(*side.plan, q), measure.value(*side.base, q), q.unit);
}

/// A line of the comparison: what stands for each side, and what that differs by where it does.
struct Line {
  std::string name, unit;
  Tone tone{Tone::plain};
  std::function<std::string(const Side&)> text, difference;
  bool alike{};  ///< on all sides
};

Line measured_line(const Measure& measure, const Report& report, const std::vector<Side>& sides) {
  const Question& q = report.question;
  const std::string best = best_text(measure, report);
  const auto text = [measure, best, &q](const Side& side) {
    const std::string value = measure.text(measure.value(*side.plan, q), q.unit);
    return value + (value == best ? "*" : " ");
  };
  const auto change = [measure, &q](const Side& side) { return difference_of(measure, side, q); };
  const bool alike = std::ranges::all_of(
      sides, [&](const Side& side) { return side.base == nullptr || change(side) == "="; });
  return {measure.name, measure.unit, measure.name == "needs" ? Tone::strong : Tone::plain,
          text,         change,       alike};
}

Line text_line(std::string name, const std::vector<Side>& sides, std::function<std::string(const Plan&)> word,
               Tone tone) {
  const bool alike = std::ranges::all_of(
      sides, [&](const Side& side) { return side.base == nullptr || word(*side.plan) == word(*side.base); });
  const auto text = [word](const Side& side) { return word(*side.plan) + " "; };
  const auto change = [](const Side&) { return std::string(); };
  return {std::move(name), "", tone, text, change, alike};
}

std::string verdict(const Plan& plan) {
  if (plan.fits) return "fits";
  return plan.fits_device ? "short of host" : "does not fit";
}

/// What is trained otherwise than by its strategy: only where that differs.
std::vector<Line> setting_lines(const Report& report, const std::vector<Side>& sides) {
  const auto training = [&report](P p) { return training_of(p, report); };
  std::vector<Line> lines{
      text_line(
          "micro-batch", sides, [](P p) { return fmt::format("{}", p.strategy.micro_batch_size); },
          Tone::plain),
      text_line(
          "micro-batches per step", sides,
          [](P p) { return fmt::format("{}", p.strategy.gradient_accumulation_steps); }, Tone::plain)};
  if (saved_report(report) == nullptr) {
    lines.push_back(text_line(
        "method", sides, [training](P p) { return std::string(to_name(training(p).method)); }, Tone::plain));
    lines.push_back(text_line(
        "precision", sides, [training](P p) { return std::string(to_name(training(p).precision)); },
        Tone::plain));
    lines.push_back(text_line(
        "optimizer used", sides, [training](P p) { return std::string(to_name(training(p).optimizer)); },
        Tone::plain));
  }
  std::erase_if(lines, [](const Line& line) { return line.alike; });
  return lines;
}

std::vector<Side> all_sides(const Report& report) {
  std::vector<Side> all;
  for (const std::vector<Side>& group : comparison_sides(report))
    all.insert(all.end(), group.begin(), group.end());
  return all;
}

/// Every line that there is.
std::vector<Line> comparison_lines(const Report& report) {
  const std::vector<Side> sides = all_sides(report);
  const Question& q = report.question;
  std::vector<Line> lines = setting_lines(report, sides);
  const auto add = [&](const std::vector<Measure>& measures) {
    for (const Measure& measure : measures)
      // The card may have been another one then.
      if (measure.name != "free" || saved_report(report) == nullptr)
        lines.push_back(measured_line(measure, report, sides));
  };
  add(memory_measures(unit_name(q.unit)));
  lines.push_back(text_line(
      "peak in", sides, [](P p) { return std::string(to_name(reported(p.memory.peak.phase))); },
      Tone::plain));
  lines.push_back(text_line("verdict", sides, verdict, Tone::strong));
  add(traffic_measures(q.cluster));
  add(time_measures());
  return lines;
}

/// The lines to show.
std::vector<Line> shown_lines(const Report& report) {
  std::vector<Line> lines = comparison_lines(report);
  if (report.options.differences) std::erase_if(lines, [](const Line& line) { return line.alike; });
  return lines;
}

std::string trimmed(std::string text) {
  while (text.ends_with(' ')) text.pop_back();
  return text;
}

}  // namespace

const SavedReport* saved_report(const Report& report) {
  return report.comparison != nullptr && report.comparison->saved ? &*report.comparison->saved : nullptr;
}

std::vector<std::vector<Side>> comparison_sides(const Report& report) {
  const std::vector<const Plan*> plans = plans_in_order(report);
  const bool saved = saved_report(report) != nullptr;
  std::vector<std::vector<Side>> groups;
  for (const Plan* plan : plans) {
    const Plan* base = baseline_of(*plan, report);
    if (saved && base != nullptr)
      groups.push_back({{base, nullptr, plan->id() + " then"}, {plan, base, "now"}});
    else if (saved)
      groups.push_back({{plan, nullptr, plan->id()}});
    else if (plan == base)
      groups.insert(groups.begin(), {{plan, nullptr, plan->id()}});
    else
      groups.push_back({{plan, base, plan->id()}});
  }
  if (saved) groups.insert(groups.begin(), std::vector<Side>{});
  return groups;
}

Table comparison_table(const Report& report, const std::vector<Side>& sides) {
  Table table{{{"", "", false, kAlways}, {"", "", false, kAlways}}, {}};
  for (const Side& side : sides) {
    table.columns.push_back({side.heading + " ", "", true, kAlways});
    if (side.base != nullptr) table.columns.push_back({"", "", true, kAlways});
  }
  for (const Line& line : shown_lines(report)) {
    Row row{{line.name, line.unit}, line.tone};
    for (const Side& side : sides) {
      row.cells.push_back(line.text(side));
      if (side.base != nullptr) row.cells.push_back(line.difference(side));
    }
    table.rows.push_back(std::move(row));
  }
  return table;
}

std::string comparison_title(const Report& report) {
  const std::size_t left_out = comparison_lines(report).size() - shown_lines(report).size();
  const SavedReport* saved = saved_report(report);
  std::string title =
      saved != nullptr
          ? fmt::format("Differences are from {}, by zplan {}", saved->file, saved->version)
          : fmt::format("Differences are from {}; * marks the best of a line", report.comparison->baseline);
  if (report.options.differences)
    title += fmt::format("; {} {} in which all are alike {} left out", left_out,
                         left_out == 1 ? "line" : "lines", left_out == 1 ? "is" : "are");
  return title;
}

bool any_line(const Report& report) { return !shown_lines(report).empty(); }

std::string comparison_markdown(const Report& report) {
  const std::vector<Side> sides = all_sides(report);
  Table table{{{"", "", false, kAlways}}, {}};
  for (const Side& side : sides) table.columns.push_back({side.heading, "", true, kAlways});
  for (const Line& line : shown_lines(report)) {
    Row row{{line.unit.empty() ? line.name : fmt::format("{}, {}", line.name, line.unit)}, line.tone};
    for (const Side& side : sides) {
      const std::string change = side.base == nullptr ? "" : line.difference(side);
      row.cells.push_back(trimmed(line.text(side)) + (change.empty() ? "" : fmt::format(" ({})", change)));
    }
    table.rows.push_back(std::move(row));
  }
  constexpr int kWidth = 100;
  std::string out =
      paragraph("", comparison_title(report) + ".", kWidth) + "\n" + render_markdown(table) + "\n";
  for (const std::string& sentence : comparison_sentences(report)) out += paragraph("- ", sentence, kWidth);
  return out;
}

}  // namespace zplan
