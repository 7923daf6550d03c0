#pragma once
// Plans side by side: figures as lines, plans as columns, what they differ by behind them.

#include <functional>
#include <string>
#include <vector>

#include "cli/document/document.h"
#include "cli/report/measures.h"

namespace zplan {

/// A column: a plan and what it answers, what its differences are from (null: it is that), and its heading.
struct Side {
  const Plan* plan{};
  const Plan* base{};
  std::string heading;
  const Question* question{};
  const Question* base_question{};
};
using Sides = std::vector<Side>;

/// A line: what stands for each side, what that differs by where it does, and whether it is the best of all.
struct Line {
  std::string name, unit;
  Tone tone{Tone::plain};
  std::function<std::string(const Side&)> text, difference;
  std::function<bool(const Side&)> best;
  bool alike{};   ///< as printed, on all sides
  int section{};  ///< lines of one number belong together
};

/// With `mark_best` the best value is told, where not all print the same.
[[nodiscard]] Line measured_line(const Measure& measure, const Sides& sides, ByteUnit unit, bool mark_best);
[[nodiscard]] Line text_line(std::string name, const Sides& sides,
                             std::function<std::string(const Plan&, const Question&)> text,
                             Tone tone = Tone::plain);

/// Memory, the verdict, traffic and time: what every comparison has, in sections from 1. `sides` are not
/// empty.
[[nodiscard]] std::vector<Line> figure_lines(const Sides& sides, ByteUnit unit, bool mark_best);

/// "*" stands at the best of a line.
[[nodiscard]] Table side_by_side(const std::vector<Line>& lines, const Sides& sides);

/// The groups beside each other.
[[nodiscard]] Sides in_one_row(const std::vector<Sides>& groups);

/// What is compared: lines, and sides in groups that stay together.
struct ComparedLines {
  std::vector<Line> lines;
  std::vector<Sides> groups;
};

/// Text: as many groups beside each other as the width takes, in tables below each other; the first group,
/// which may be empty, stands in every one. Markdown: one table, differences in brackets.
void add_side_by_side(Document& doc, const ComparedLines& text, const ComparedLines& markdown, int width);

/// A list below such tables; its heading is the terminal's alone.
void add_sentences(Document& doc, std::string heading, const std::vector<std::string>& sentences);

}  // namespace zplan
