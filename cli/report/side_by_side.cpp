#include "cli/report/side_by_side.h"

#include <fmt/format.h>

#include <algorithm>

#include "planner/plan/plan.h"
#include "planner/question/question.h"

namespace zplan {

namespace {

double value_of(const Measure& measure, const Side& side) {
  return measure.value(*side.plan, *side.question);
}

std::string difference_of(const Measure& measure, const Side& side, ByteUnit unit) {
  return difference_text(measure, value_of(measure, side), measure.value(*side.base, *side.base_question),
                         unit);
}

/// The best value of a line as it is printed; empty where all sides print the same.
std::string best_text(const Measure& measure, const Sides& sides, ByteUnit unit) {
  if (measure.best == Best::none) return "";
  double best = value_of(measure, sides.front());
  bool alike = true;
  for (const Side& side : sides) {
    const double value = value_of(measure, side);
    alike = alike && measure.text(value, unit) == measure.text(best, unit);
    best = measure.best == Best::least ? std::min(best, value) : std::max(best, value);
  }
  return alike ? "" : measure.text(best, unit);
}

Sides joined(Sides block, const Sides& more) {
  block.insert(block.end(), more.begin(), more.end());
  return block;
}

}  // namespace

Line measured_line(const Measure& measure, const Sides& sides, ByteUnit unit, bool mark_best) {
  const std::string best = mark_best ? best_text(measure, sides, unit) : "";
  const auto text = [measure, unit](const Side& side) { return measure.text(value_of(measure, side), unit); };
  const auto change = [measure, unit](const Side& side) { return difference_of(measure, side, unit); };
  const auto is_best = [text, best](const Side& side) { return text(side) == best; };
  const bool alike = std::ranges::all_of(
      sides, [&](const Side& side) { return side.base == nullptr || change(side) == "="; });
  return {measure.name, measure.unit, measure.name == "needs" ? Tone::strong : Tone::plain, text, change,
          is_best,      alike};
}

Line text_line(std::string name, const Sides& sides,
               std::function<std::string(const Plan&, const Question&)> text, Tone tone) {
  const bool alike = std::ranges::all_of(sides, [&](const Side& side) {
    return side.base == nullptr || text(*side.plan, *side.question) == text(*side.base, *side.base_question);
  });
  const auto word = [text](const Side& side) { return text(*side.plan, *side.question); };
  const auto change = [](const Side&) { return std::string(); };
  return {std::move(name), "", tone, word, change, [](const Side&) { return false; }, alike};
}

std::vector<Line> figure_lines(const Sides& sides, ByteUnit unit, bool mark_best) {
  std::vector<Line> lines;
  int section = 0;
  const auto add = [&](Line line) {
    line.section = section;
    lines.push_back(std::move(line));
  };
  const auto add_all = [&](const std::vector<Measure>& measures) {
    for (const Measure& measure : measures) add(measured_line(measure, sides, unit, mark_best));
  };
  std::vector<const Question*> questions;
  for (const Side& side : sides) questions.push_back(side.question);
  ++section;
  add_all(memory_measures(unit));
  add(text_line("peak in", sides, [](const Plan& plan, const Question&) {
    return std::string(to_name(reported(plan.memory().peak.phase)));
  }));
  add(text_line(
      "verdict", sides, [](const Plan& plan, const Question&) { return comparison_verdict(plan); },
      Tone::strong));
  ++section;
  add_all(traffic_measures(questions));
  ++section;
  add_all(time_measures());
  add_all(cost_measures(questions));
  return lines;
}

Table side_by_side(const std::vector<Line>& lines, const Sides& sides) {
  Table table{{{"", "", false, kAlways}, {"", "", false, kAlways}}, {}};
  for (const Side& side : sides) {
    table.columns.push_back({side.heading + " ", "", true, kAlways});
    if (side.base != nullptr) table.columns.push_back({"", "", true, kAlways});
  }
  for (const Line& line : lines) {
    Row row{{line.name, line.unit}, line.tone};
    for (const Side& side : sides) {
      row.cells.push_back(line.text(side) + (line.best(side) ? "*" : " "));
      if (side.base != nullptr) row.cells.push_back(line.difference(side));
    }
    table.rows.push_back(std::move(row));
  }
  return table;
}

namespace {

std::vector<Table> wrapped(const std::vector<Line>& lines, const std::vector<Sides>& groups, int width) {
  if (groups.size() == 1) return {side_by_side(lines, groups.front())};
  const auto fits = [&](const Sides& block) {
    return natural_width(side_by_side(lines, block)) <= static_cast<std::size_t>(width);
  };
  std::vector<Table> tables;
  for (std::size_t at = 1; at < groups.size();) {
    Sides block = joined(groups.front(), groups[at++]);
    while (at < groups.size() && fits(joined(block, groups[at]))) block = joined(block, groups[at++]);
    tables.push_back(side_by_side(lines, block));
  }
  return tables;
}

/// One table, differences in brackets.
Table with_brackets(const std::vector<Line>& lines, const Sides& sides) {
  Table table{{{"", "", false, kAlways}}, {}};
  for (const Side& side : sides) table.columns.push_back({side.heading, "", true, kAlways});
  for (const Line& line : lines) {
    Row row{{line.unit.empty() ? line.name : fmt::format("{}, {}", line.name, line.unit)}, line.tone};
    for (const Side& side : sides) {
      const std::string change = side.base == nullptr ? "" : line.difference(side);
      row.cells.push_back(line.text(side) + (line.best(side) ? "*" : "") +
                          (change.empty() ? "" : fmt::format(" ({})", change)));
    }
    table.rows.push_back(std::move(row));
  }
  return table;
}

}  // namespace

Sides in_one_row(const std::vector<Sides>& groups) {
  Sides sides;
  for (const Sides& group : groups) sides.insert(sides.end(), group.begin(), group.end());
  return sides;
}

void add_side_by_side(Document& doc, const ComparedLines& text, const ComparedLines& markdown, int width) {
  doc.shown = Shown::text;
  if (text.lines.empty())
    doc.line("No line differs");
  else
    for (const Table& table : wrapped(text.lines, text.groups, width)) {
      if (doc.blocks.back().kind == Block::Kind::table) doc.line();
      doc.table(table);
    }
  doc.shown = Shown::markdown;
  doc.table(with_brackets(markdown.lines, in_one_row(markdown.groups))), doc.line();
  doc.shown = Shown::text;
}

void add_sentences(Document& doc, std::string heading, const std::vector<std::string>& sentences) {
  if (sentences.empty()) return;
  doc.heading(std::move(heading));
  doc.shown = Shown::both;
  doc.items(sentences);
  doc.shown = Shown::text;
}

}  // namespace zplan
