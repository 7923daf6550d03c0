#pragma once
// Every figure of a plan with its formula, its source, and what it was validated against.

#include <string>
#include <string_view>
#include <vector>

#include "cli/document/document.h"
#include "models/base/json_reader.h"
#include "planner/plan/accuracy.h"

namespace zplan {

struct Plan;
struct Question;

/// A symbol of the formulas, as docs/symbols.md defines it, with its value in this plan.
struct Symbol {
  std::string symbol, meaning, value;
};

/// A figure with its formula and where the formula comes from.
struct Figure {
  std::string name;
  std::string value;  ///< for people
  double number{};    ///< in the section's unit
  std::string formula;
  std::string source;
};

struct Section {
  std::string name;  ///< key of the JSON report
  std::string title;
  std::vector<Figure> figures;
};

struct Explanation {
  std::vector<Symbol> symbols;
  std::vector<Section> sections;
};

[[nodiscard]] Explanation explain(const Plan& plan, const Question& question);
[[nodiscard]] Json explain_json(const Plan& plan, const Question& question);
void add_figures(Document& doc, const Plan& plan, const Question& question);

/// Returns the framework, method and GPU of a plan of `question`.
[[nodiscard]] Coverage coverage_of(const Plan& plan, const Question& question);
/// Returns text such as "deepspeed, full, on A100-SXM-80GB".
[[nodiscard]] std::string coverage_text(const Coverage& plan);

/// Returns text such as "reserved: 12 published runs of fsdp, full, on A100-SXM-80GB, median 3.1 %, 90 %
/// within 21 %, worst 40 %, too low by more than 5 % in 34 %".
[[nodiscard]] std::string accuracy_text(const Accuracy& accuracy);

/// Returns what figures of these kinds were validated against, in short: recorded steps, which had no GPU,
/// and measured runs that are comparable to the plan.
[[nodiscard]] std::string validation_line(const std::vector<AccuracyOf>& kinds, const Plan& plan,
                                          const Question& question);

/// Returns the errors of every statistic of one kind of figure that was measured, or that none was.
[[nodiscard]] std::vector<std::string> accuracy_sentences(AccuracyOf of, const Coverage& plan);
/// Returns the sentences that end --explain: for each kind of figure the errors of every statistic that was
/// measured, or that none was.
[[nodiscard]] std::vector<std::string> accuracy_sentences(const Coverage& plan);

/// Returns "accuracy" of a plan in the JSON report.
[[nodiscard]] Json accuracy_json(const Coverage& plan);

/// Returns "ranges" of a plan in the JSON report: of its step time, speed and required memory.
[[nodiscard]] Json ranges_json(const Plan& plan, const Question& question);

/// Returns why two speeds tie: "half of the 24 speeds of published runs of deepspeed on A100-SXM-80GB were
/// further off than 12 %".
[[nodiscard]] std::string tie_text(const Tie& tie);

}  // namespace zplan
