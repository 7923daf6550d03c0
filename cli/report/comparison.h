#pragma once
// Plans side by side: figures as lines, plans as columns, differences behind them.

#include <functional>
#include <string>
#include <vector>

#include "cli/document/document.h"
#include "models/base/format.h"

namespace zplan {

struct Contest;
struct Plan;
struct Question;
struct Report;

enum class Best { none, least, most };

/// A figure of plans that are compared, and which of its values is the best.
struct Measure {
  std::string name, unit;
  std::function<double(const Plan&, const Question&)> value;
  std::string (*text)(double, ByteUnit);  ///< without the unit
  Best best{Best::least};
};

[[nodiscard]] std::vector<Measure> memory_measures(ByteUnit unit);
[[nodiscard]] std::vector<Measure> time_measures();

/// Returns `value` less `base` with its sign, or "=" where that prints as zero.
[[nodiscard]] std::string difference_text(const Measure& measure, double value, double base, ByteUnit unit);

/// A setting of a question or of its plan, as text: model, GPU, method, batch.
struct Setting {
  std::string name;
  std::string (*text)(const Plan&, const Question&);
};
[[nodiscard]] const std::vector<Setting>& settings();

/// Returns "fits", "does not fit" or "short of host".
[[nodiscard]] std::string comparison_verdict(const Plan& plan);

/// A column: a plan, the question that it answers, and the plan that its differences are from (null for the
/// baseline itself).
struct Side {
  const Plan* plan{};
  const Plan* base{};
  std::string heading;
  const Question* question{};
  const Question* base_question{};
};
using Sides = std::vector<Side>;

/// A line: for each side its text, its difference, and whether it is the best value.
struct Line {
  std::string name, unit;
  Tone tone{Tone::plain};
  std::function<std::string(const Side&)> text, difference;
  std::function<bool(const Side&)> best;
  bool alike{};                               ///< true if all sides print the same
  int section{};                              ///< lines of one number belong together
  std::function<bool(const Side&)> absent{};  ///< of a figure: it prints as zero; none for text
};

/// Returns the line of a figure. With `mark_best` its best value is marked.
[[nodiscard]] Line measured_line(const Measure& measure, const Sides& sides, ByteUnit unit, bool mark_best);
[[nodiscard]] Line text_line(std::string name, const Sides& sides,
                             std::function<std::string(const Plan&, const Question&)> text,
                             Tone tone = Tone::plain);

/// Returns the lines that every comparison has: memory, verdict, traffic, time and cost, in sections from 1.
/// With `mark_best` the best value of a line is marked. `sides` must not be empty.
[[nodiscard]] std::vector<Line> figure_lines(const Sides& sides, ByteUnit unit, bool mark_best);

/// Returns a table of the lines, in which "*" marks the best value of a line.
[[nodiscard]] Table side_by_side(const std::vector<Line>& lines, const Sides& sides);

/// Returns the sides of all groups.
[[nodiscard]] Sides in_one_row(const std::vector<Sides>& groups);

/// The lines of a comparison, and its sides in groups that stay together.
struct ComparedLines {
  std::vector<Line> lines;
  std::vector<Sides> groups;
};

/// Adds the comparison: as text in tables below each other, as many groups as fit the width in each, with the
/// first group, which may be empty, in all; as Markdown in one table with differences in brackets.
void add_side_by_side(Document& doc, const ComparedLines& text, const ComparedLines& markdown, int width);

/// Returns the plans of `compare` as columns, the baseline first.
[[nodiscard]] std::vector<Sides> comparison_sides(const Report& report);

/// Returns which of the plans is the fastest, and by how much.
[[nodiscard]] std::string fastest_sentence(const Report& report, const Contest& contest);

/// Adds a title and the five lines that decide, for a slide.
void add_slide(Document& doc, const Report& report);

/// Adds a list; Markdown leaves out its heading.
void add_sentences(Document& doc, std::string heading, const std::vector<std::string>& sentences);

}  // namespace zplan
