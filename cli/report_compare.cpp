// `compare`: figures as lines, strategies as columns, what they differ by behind them.

#include <fmt/format.h>

#include <algorithm>
#include <functional>

#include "cli/compare.h"
#include "cli/measures.h"
#include "cli/report_text.h"

namespace zplan {

namespace {

using P = const Plan&;

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
  return difference_text(measure, measure.value(*side.plan, q), measure.value(*side.base, q), q.unit);
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
  add(memory_measures(q.unit));
  lines.push_back(text_line(
      "peak in", sides, [](P p) { return std::string(to_name(reported(p.memory.peak.phase))); },
      Tone::plain));
  lines.push_back(text_line("verdict", sides, comparison_verdict, Tone::strong));
  add(traffic_measures({&q}));
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
