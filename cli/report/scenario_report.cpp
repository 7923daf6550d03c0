#include "cli/report/scenario_report.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <utility>

#include "cli/options/command_line.h"
#include "cli/report/report.h"
#include "cli/report/report_text.h"
#include "models/base/version.h"
#include "planner/search/explore.h"

namespace zplan {

namespace {

using P = const Plan&;
using Q = const Question&;

/// Returns the width of a heading and of a word with which two scenarios fit side by side.
std::size_t word_width(int width) { return static_cast<std::size_t>(std::clamp((width - 36) / 3, 8, 28)); }

/// Returns the baseline and the other scenarios. Headings are cut to `longest` characters; 0: not at all.
std::vector<Sides> sides_of(const ScenarioComparison& all, std::size_t longest) {
  const PlannedScenario& base = all.scenarios[all.baseline];
  std::vector<Sides> groups;
  for (std::size_t i = 0; i < all.scenarios.size(); ++i) {
    const PlannedScenario& each = all.scenarios[i];
    const std::string& name = each.scenario.name;
    const std::string heading = longest == 0 ? name : shortened(name, longest);
    if (i == all.baseline)
      groups.insert(groups.begin(), {{&each.plan(), nullptr, heading, &each.question, nullptr}});
    else
      groups.push_back({{&each.plan(), &base.plan(), heading, &each.question, &base.question}});
  }
  return groups;
}

Line setting_line(const Setting& setting, const Sides& sides, std::size_t longest) {
  return text_line(setting.name, sides, [setting, longest](P plan, Q question) {
    const std::string text = setting.text(plan, question);
    return longest == 0 ? text : shortened(text, longest);
  });
}

/// Returns the settings in which scenarios differ.
std::vector<Line> setting_lines(const Sides& sides, std::size_t longest) {
  std::vector<Line> lines;
  for (const Setting& setting : settings())
    if (!setting_line(setting, sides, 0).alike) lines.push_back(setting_line(setting, sides, longest));
  return lines;
}

std::vector<Line> every_line(const ScenarioComparison& all, const Sides& sides, std::size_t longest) {
  std::vector<Line> lines = setting_lines(sides, longest);
  for (Line& line : figure_lines(sides, all.unit, true)) lines.push_back(std::move(line));
  return lines;
}

std::vector<Line> shown(const ScenarioComparison& all, std::vector<Line> lines) {
  // A single scenario has nothing to differ from.
  if (all.differences && all.scenarios.size() > 1)
    std::erase_if(lines, [](const Line& line) { return line.alike; });
  return lines;
}

const std::string& name_of(const PlannedScenario& each) { return each.scenario.name; }

std::string title(const ScenarioComparison& all, std::size_t left_out) {
  if (all.scenarios.size() == 1) return fmt::format("The scenario of {}", all.file);
  std::string text = fmt::format("Scenarios of {}: differences are from {}; * marks the best of a line",
                                 all.file, name_of(all.scenarios[all.baseline]));
  if (all.differences)
    text += fmt::format("; {} {} in which all are alike {} left out", left_out,
                        left_out == 1 ? "line" : "lines", left_out == 1 ? "is" : "are");
  return text;
}

/// Returns the settings that all scenarios have: "model 8B, GPUs 5, …".
std::string common_settings(const Sides& sides) {
  std::vector<std::string> words;
  for (const Setting& setting : settings())
    if (setting_line(setting, sides, 0).alike)
      words.push_back(
          fmt::format("{} {}", setting.name, setting.text(*sides.front().plan, *sides.front().question)));
  return words.empty()
             ? ""
             : fmt::format("{}: {}", sides.size() > 1 ? "Alike in all" : "Asked", fmt::join(words, ", "));
}

std::vector<const PlannedScenario*> fastest_first(const ScenarioComparison& all) {
  std::vector<const PlannedScenario*> order;
  for (const PlannedScenario& each : all.scenarios)
    if (each.plan().fits) order.push_back(&each);
  std::stable_sort(order.begin(), order.end(), [](const PlannedScenario* a, const PlannedScenario* b) {
    return a->plan().time.tokens_per_second > b->plan().time.tokens_per_second;
  });
  return order;
}

std::string tokens(const PlannedScenario& each) {
  return fmt::format("{} tokens per second", group_digits(std::llround(each.plan().time.tokens_per_second)));
}

/// Returns the wider of the two ties.
Tie tie_of(const PlannedScenario& a, const PlannedScenario& b) {
  const auto tie = [](const PlannedScenario& each) {
    return speed_tie(each.plan().framework, each.question.cluster.gpu.name);
  };
  const Tie one = tie(a), other = tie(b);
  return one.within < other.within ? other : one;
}

/// Returns which scenario is fastest of those that fit; empty where they train different models.
std::string speed_sentence(const ScenarioComparison& all) {
  const std::vector<const PlannedScenario*> order = fastest_first(all);
  if (order.size() < 2 || order[1]->plan().time.tokens_per_second <= 0) return "";
  for (const PlannedScenario* each : order)
    if (each->question.model.name != order.front()->question.model.name) return "";
  const PlannedScenario &first = *order[0], &second = *order[1];
  const double ratio = first.plan().time.tokens_per_second / second.plan().time.tokens_per_second;
  if (const Tie tie = tie_of(first, second); ratio < 1 + tie.within)
    return fmt::format("{} and {} tie: {} and {}, {:.1f} % apart, and {}", name_of(first), name_of(second),
                       tokens(first), tokens(second), (ratio - 1) * 100, tie_text(tie));
  const std::string much = ratio < 2 ? fmt::format("{:.0f} % more than", (ratio - 1) * 100)
                                     : fmt::format("{:.1f} times that of", ratio);
  return fmt::format("{} is {}: {}, {} {}", name_of(first), order.size() == 2 ? "faster" : "the fastest",
                     tokens(first), much, name_of(second));
}

std::string memory_sentence(const ScenarioComparison& all) {
  if (all.scenarios.size() < 2) return "";
  const auto needs = [](const PlannedScenario& each) { return each.plan().memory().required; };
  const auto [least, most] =
      std::minmax_element(all.scenarios.begin(), all.scenarios.end(),
                          [&](const auto& a, const auto& b) { return needs(a) < needs(b); });
  if (needs(*least) == needs(*most)) return "";
  return fmt::format("{} needs {} memory: {} per GPU, {} {}", name_of(*least),
                     all.scenarios.size() == 2 ? "less" : "least", format_bytes(needs(*least), all.unit),
                     name_of(*most), format_bytes(needs(*most), all.unit));
}

/// Returns whether a scenario fits, or why not.
std::string verdict_sentence(const PlannedScenario& each) {
  const Plan& plan = each.plan();
  const std::string kept =
      each.saved ? fmt::format(", a report as it was saved in {}", each.scenario.report) : "";
  if (plan.fits) return fmt::format("{}: {} fits{}", name_of(each), plan.id(), kept);
  const std::string why = plan.why.empty() ? "" : fmt::format(": {}", fmt::join(plan.why, "; "));
  const std::string_view what =
      each.answer.fits() ? "does not fit" : "is the nearest of plans that do not fit";
  return fmt::format("{}: {} {}{}{}", name_of(each), plan.id(), what, kept, why);
}

std::vector<std::string> sentences(const ScenarioComparison& all) {
  std::vector<std::string> out;
  for (std::string sentence : {speed_sentence(all), memory_sentence(all)})
    if (!sentence.empty()) out.push_back(std::move(sentence));
  for (const PlannedScenario& each : all.scenarios) out.push_back(verdict_sentence(each));
  return out;
}

/// Returns each warning once, with the names of its scenarios.
std::vector<std::string> warnings(const ScenarioComparison& all) {
  std::vector<std::pair<std::string, std::vector<std::string>>> groups;
  for (const PlannedScenario& each : all.scenarios)
    for (const std::string& text : each.answer.warnings) {
      const auto at =
          std::find_if(groups.begin(), groups.end(), [&](const auto& group) { return group.first == text; });
      if (at == groups.end())
        groups.push_back({text, {name_of(each)}});
      else
        at->second.push_back(name_of(each));
    }
  std::vector<std::string> out;
  for (const auto& [text, names] : groups) out.push_back(fmt::format("{}: {}", fmt::join(names, ", "), text));
  return out;
}

/// Adds the command of each scenario.
void add_commands(Document& doc, const ScenarioComparison& all) {
  bool any = false;
  for (const PlannedScenario& each : all.scenarios) {
    if (each.saved) continue;
    if (!std::exchange(any, true)) doc.heading("Each by itself");
    doc.line(fmt::format("  {}  # {}", command_line(each.scenario.arguments), name_of(each)));
  }
}

void add_explanations(Document& doc, const ScenarioComparison& all) {
  if (!all.explain) return;
  std::vector<Coverage> kinds;
  for (const PlannedScenario& each : all.scenarios) {
    kinds.push_back(coverage_of(each.plan(), each.question));
    // A saved report has no question to explain its figures from.
    if (each.saved) continue;
    doc.heading(name_of(each));
    add_explanation(doc, each.plan(), report_of(each));
  }
  add_accuracy(doc, kinds);
}

std::vector<CsvRecord> csv_records(const ScenarioComparison& all) {
  const PlannedScenario& base = all.scenarios[all.baseline];
  std::vector<CsvRecord> records{csv_names(true)};
  for (const PlannedScenario& each : all.scenarios) {
    CsvRecord& record = records.emplace_back(csv_fields(each.plan()));
    add_csv_deltas(record, each.plan(), &base.plan(), name_of(base));
    const std::string command = each.saved ? "" : command_line(each.scenario.arguments);
    const Cluster& cluster = each.question.cluster;
    record.insert(record.begin(), {name_of(each), command, each.question.model.name, cluster.gpu.name,
                                   fmt::format("{}", cluster.gpus)});
  }
  records.front().insert(records.front().begin(), {"scenario", "command", "model", "gpu", "gpus"});
  return records;
}

Json scenario_json(const PlannedScenario& each, const ScenarioComparison& all) {
  const Scenario& scenario = each.scenario;
  Json out{{"name", scenario.name}};
  out["arguments"] = each.saved ? Json(nullptr) : Json(scenario.arguments);
  out["saved"] = each.saved ? Json(scenario.report) : Json(nullptr);
  out["strategy"] = each.plan().id();
  out["fits"] = each.plan().fits;
  out["delta"] = deltas_json(each.plan(), &all.scenarios[all.baseline].plan());
  Options options = each.options;
  options.explain = all.explain;
  const Report report{.question = each.question,
                      .answer = each.answer,
                      .options = options,
                      .arguments = scenario.arguments,
                      .details = each.details};
  out["report"] = each.saved ? parse_json(read_file(scenario.report), scenario.report) : report_json(report);
  return out;
}

}  // namespace

Table scenario_table(const ScenarioComparison& all) {
  const Sides sides = in_one_row(sides_of(all, 0));
  return side_by_side(shown(all, every_line(all, sides, 0)), sides);
}

Document scenario_document(const ScenarioComparison& all, int width) {
  const std::size_t longest = word_width(width);
  const std::vector<Sides> groups = sides_of(all, 0), narrow = sides_of(all, longest);
  const std::vector<Line> every = every_line(all, in_one_row(groups), 0),
                          short_lines = every_line(all, in_one_row(narrow), longest);
  const std::vector<Line> lines = shown(all, every);
  const std::string common = common_settings(in_one_row(groups));
  Document doc;
  for (const std::string& sentence : {title(all, every.size() - lines.size()), common}) {
    if (sentence.empty()) continue;
    doc.shown = Shown::text, doc.paragraph("", sentence);
    doc.shown = Shown::markdown, doc.paragraph("", sentence + ".");
  }
  doc.shown = Shown::both;
  doc.line();
  add_side_by_side(doc, {shown(all, short_lines), narrow}, {lines, groups}, width);
  add_sentences(doc, "Side by side", sentences(all));
  add_sentences(doc, "Warning", warnings(all));
  add_explanations(doc, all);
  add_commands(doc, all);
  doc.records = csv_records(all);
  return doc;
}

Json scenario_json(const ScenarioComparison& all) {
  Json scenarios = Json::array();
  for (const PlannedScenario& each : all.scenarios) scenarios.push_back(scenario_json(each, all));
  return {{"schema", "zplan.comparison/1"},
          {"zplan_version", std::string(version())},
          {"file", all.file},
          {"baseline", all.baseline},
          {"scenarios", std::move(scenarios)}};
}

}  // namespace zplan
