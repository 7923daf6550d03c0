// `compare`: figures as lines, strategies as columns, what they differ by behind them.

#include <fmt/format.h>

#include "cli/report/report_text.h"

namespace zplan {

namespace {

using P = const Plan&;
using Q = const Question&;

/// What is trained otherwise than by its strategy: only where that differs.
std::vector<Line> setting_lines(const Report& report, const Sides& sides) {
  const auto training = [&report](P p) { return training_of(p, report); };
  std::vector<Line> lines{
      text_line("micro-batch", sides, [](P p, Q) { return fmt::format("{}", p.strategy.micro_batch_size); }),
      text_line("micro-batches per step", sides,
                [](P p, Q) { return fmt::format("{}", p.strategy.gradient_accumulation_steps); })};
  if (saved_report(report) == nullptr) {
    lines.push_back(
        text_line("method", sides, [training](P p, Q) { return std::string(to_name(training(p).method)); }));
    lines.push_back(text_line("precision", sides,
                              [training](P p, Q) { return std::string(to_name(training(p).precision)); }));
    lines.push_back(text_line("optimizer used", sides,
                              [training](P p, Q) { return std::string(to_name(training(p).optimizer)); }));
  }
  std::erase_if(lines, [](const Line& line) { return line.alike; });
  return lines;
}

/// Every line that there is.
std::vector<Line> every_line(const Report& report) {
  const Sides sides = in_one_row(comparison_sides(report));
  const bool saved = saved_report(report) != nullptr;
  std::vector<Line> lines = setting_lines(report, sides);
  for (Line& line : figure_lines(sides, report.question.unit, !saved))
    // The GPU may have been another one then.
    if (line.name != "free" || !saved) lines.push_back(std::move(line));
  return lines;
}

}  // namespace

const SavedReport* saved_report(const Report& report) {
  return report.comparison != nullptr && report.comparison->saved ? &*report.comparison->saved : nullptr;
}

std::vector<Sides> comparison_sides(const Report& report) {
  const std::vector<const Plan*> plans = plans_in_order(report);
  const bool saved = saved_report(report) != nullptr;
  const Question* q = &report.question;
  std::vector<Sides> groups;
  for (const Plan* plan : plans) {
    const Plan* base = baseline_of(*plan, report);
    if (saved && base != nullptr)
      groups.push_back({{base, nullptr, plan->id() + " then", q, nullptr}, {plan, base, "now", q, q}});
    else if (saved)
      groups.push_back({{plan, nullptr, plan->id(), q, nullptr}});
    else if (plan == base)
      groups.insert(groups.begin(), {{plan, nullptr, plan->id(), q, nullptr}});
    else
      groups.push_back({{plan, base, plan->id(), q, q}});
  }
  if (saved) groups.insert(groups.begin(), Sides{});
  return groups;
}

std::vector<Line> comparison_lines(const Report& report) {
  std::vector<Line> lines = every_line(report);
  if (report.options.differences) std::erase_if(lines, [](const Line& line) { return line.alike; });
  return lines;
}

std::string comparison_title(const Report& report) {
  const std::size_t left_out = every_line(report).size() - comparison_lines(report).size();
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

}  // namespace zplan
