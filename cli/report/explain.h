#pragma once
// Every figure of a plan with its formula, the numbers that went in, and where the formula comes from.

#include <string>
#include <vector>

#include "cli/document/document.h"
#include "models/base/json_reader.h"

namespace zplan {

struct Plan;
struct Question;

/// A symbol of the formulas, as docs/symbols.md defines it, with its value in this plan.
struct Symbol {
  std::string symbol, meaning, value;
};

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

}  // namespace zplan
