// Plans side by side: figures as lines, plans as columns, differences behind them.

#include "cli/report/comparison.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <nlohmann/json.hpp>

#include "cli/report/explain.h"
#include "cli/report/report.h"
#include "cli/report/report_text.h"
#include "models/base/format.h"
#include "planner/plan/plan.h"
#include "planner/plan/plan_figures.h"
#include "planner/question/question.h"
#include "planner/search/crossover.h"
#include "planner/search/explore.h"

namespace zplan {

namespace {

using P = const Plan&;
using Q = const Question&;

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

template <Seconds StepTime::*member>
double time_of(P plan, Q) {
  return (plan.time.*member).value;
}

bool says_nothing(const std::string& number) {
  return number.find_first_of("123456789") == std::string::npos;
}

/// Returns the name that all have; empty where they differ.
template <class F>
std::string common(const std::vector<const Question*>& questions, const F& name) {
  const std::string first = name(*questions.front());
  for (const Question* each : questions)
    if (name(*each) != first) return "";
  return first;
}

std::string with_name(std::string_view what, const std::string& name) {
  return name.empty() ? std::string(what) : fmt::format("{}, {}", what, name);
}

/// Returns the figures of traffic. One GPU sends nothing, one node nothing out of it; a link is named where
/// all clusters have the same one.
std::vector<Measure> traffic_measures(const std::vector<const Question*>& questions) {
  const auto any = [&questions](auto holds) {
    for (const Question* each : questions)
      if (holds(each->cluster)) return true;
    return false;
  };
  std::vector<Measure> list;
  if (!any([](const Cluster& cluster) { return cluster.gpus > 1; })) return list;
  list.push_back({"collective calls", "",
                  [](P p, Q) { return static_cast<double>(p.communication().calls()); }, count_text});
  if (any([](const Cluster& cluster) { return cluster.gpus_per_node > 1; }))
    list.push_back(
        {with_name("sent per GPU", common(questions, [](Q q) { return name_of_inner_link(q.cluster); })),
         "GB", [](P p, Q) { return number_of_bytes(p.communication().inside_bytes_per_gpu()); },
         traffic_text});
  if (any([](const Cluster& cluster) { return cluster.network.has_value(); }))
    list.push_back(
        {with_name("sent per GPU",
                   common(questions,
                          [](Q q) { return q.cluster.network ? q.cluster.network->name : "out of a node"; })),
         "GB", [](P p, Q) { return number_of_bytes(p.communication().outside_bytes_per_gpu()); },
         traffic_text});
  list.push_back({"communication", "s", time_of<&StepTime::communication>, seconds_text});
  return list;
}

/// Returns the figures of a whole run; none where a question has no budget.
std::vector<Measure> cost_measures(const std::vector<const Question*>& questions) {
  std::vector<Measure> list;
  const auto all = [&questions](auto holds) {
    return std::ranges::all_of(questions, [&](const Question* each) { return holds(each->budget); });
  };
  if (all([](const Budget& budget) { return budget.is_known(); })) {
    list.push_back({"run", "h", [](P p, Q q) { return run_cost(p, q)->wall.value / 3600; }, number_text});
    list.push_back({"GPU-hours", "", [](P p, Q q) { return run_cost(p, q)->gpu_hours; }, number_text});
  }
  if (all([](const Budget& budget) { return budget.is_known() && budget.price; }))
    list.push_back({"cost", "", [](P p, Q q) { return *run_cost(p, q)->money; }, number_text});
  return list;
}

double value_of(const Measure& measure, const Side& side) {
  return measure.value(*side.plan, *side.question);
}

std::string difference_of(const Measure& measure, const Side& side, ByteUnit unit) {
  return difference_text(measure, value_of(measure, side), measure.value(*side.base, *side.base_question),
                         unit);
}

/// Returns the best value of a line as text; empty where all sides print the same.
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
  const auto is_absent = [text](const Side& side) { return says_nothing(text(side)); };
  return {.name = measure.name,
          .unit = measure.unit,
          .tone = measure.name == "needs" ? Tone::strong : Tone::plain,
          .text = text,
          .difference = change,
          .best = is_best,
          .alike = alike,
          .absent = is_absent};
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

/// Returns one table with differences in brackets.
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

std::vector<Measure> memory_measures(ByteUnit byte_unit) {
  const std::string unit(unit_name(byte_unit));
  std::vector<Measure> all;
  for (const auto& [part, name] : EnumNames<MemoryPart>::table)
    // A copy: clang 14 cannot capture a structured binding.
    all.push_back({in_words(name), unit,
                   [wanted = part](P p, Q) { return number_of_bytes(p.memory().peak.holds.part(wanted)); },
                   bytes_text});
  const auto add = [&](std::string name, double (*value)(P, Q), Best best = Best::least) {
    all.push_back({std::move(name), unit, value, bytes_text, best});
  };
  add("allocator slack",
      [](P p, Q) { return number_of_bytes(p.memory().required - p.memory().peak.bytes()); });
  add("needs", [](P p, Q) { return number_of_bytes(p.memory().required); });
  add(
      "free", [](P p, Q q) { return number_of_bytes(Bytes{} - shortage(p, q)); }, Best::most);
  add("host memory per node", [](P p, Q) { return number_of_bytes(p.memory().host.total); });
  return all;
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

std::string difference_text(const Measure& measure, double value, double base, ByteUnit unit) {
  const std::string text = measure.text(value - base, unit);
  if (says_nothing(text)) return "=";
  return value > base ? "+" + text : text;
}

const std::vector<Setting>& settings() {
  static const std::vector<Setting> table{
      {"model", [](P, Q q) { return q.model.name; }},
      {"GPUs", [](P, Q q) { return fmt::format("{}", q.cluster.gpus); }},
      {"GPU", [](P, Q q) { return q.cluster.gpu.name; }},
      {"memory per GPU", [](P, Q q) { return format_bytes(q.cluster.memory, q.unit); }},
      {"nodes", [](P, Q q) { return fmt::format("{}", q.cluster.nodes); }},
      {"strategy", [](P p, Q) { return p.id(); }},
      {"method", [](P, Q q) { return std::string(to_name(q.training.method)); }},
      {"precision", [](P, Q q) { return std::string(to_name(q.training.precision)); }},
      {"optimizer used", [](P, Q q) { return std::string(to_name(q.training.optimizer)); }},
      {"checkpointing", [](P p, Q) { return std::string(to_name(p.strategy.checkpointing)); }},
      {"sequence length", [](P, Q q) { return fmt::format("{}", q.training.sequence_length); }},
      {"micro-batch", [](P p, Q) { return fmt::format("{}", p.strategy.micro_batch_size); }},
      {"micro-batches per step",
       [](P p, Q) { return fmt::format("{}", p.strategy.gradient_accumulation_steps); }},
  };
  return table;
}

std::string comparison_verdict(const Plan& plan) {
  if (plan.fits) return "fits";
  return plan.fits_device ? "short of host" : "does not fit";
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

namespace {

const SavedReport* saved_report(const Report& report) {
  return report.comparison != nullptr && report.comparison->saved ? &*report.comparison->saved : nullptr;
}

}  // namespace

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

namespace {

/// Returns the settings that differ.
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

std::vector<Line> every_line(const Report& report) {
  const Sides sides = in_one_row(comparison_sides(report));
  const bool saved = saved_report(report) != nullptr;
  std::vector<Line> lines = setting_lines(report, sides);
  for (Line& line : figure_lines(sides, report.question.unit, !saved))
    // A saved report may be of another GPU.
    if (line.name != "free" || !saved) lines.push_back(std::move(line));
  return lines;
}

/// Lines that decide come first, then others that differ, then those in which all are alike.
std::vector<Line> comparison_lines(const Report& report) {
  static constexpr std::array<std::string_view, 5> kFirst{"verdict", "needs", "peak in", "step",
                                                          "tokens per second"};
  std::vector<Line> lines = every_line(report);
  if (report.options.differences) std::erase_if(lines, [](const Line& line) { return line.alike; });
  const auto place = [](const Line& line) {
    const auto at = std::ranges::find(kFirst, line.name);
    if (at != kFirst.end()) return at - kFirst.begin();
    return std::ssize(kFirst) + (line.alike ? 1 : 0);
  };
  std::ranges::stable_sort(lines, {}, place);
  return lines;
}

std::string comparison_title(const Report& report) {
  const std::size_t left_out = every_line(report).size() - comparison_lines(report).size();
  const SavedReport* saved = saved_report(report);
  std::string title =
      saved != nullptr
          ? fmt::format("Differences are from {}, by zplan {}", saved->file, saved->version)
          : fmt::format("Differences are from {}; memory is split at each peak; * marks the best of a line",
                        report.comparison->baseline);
  if (report.options.differences)
    title += fmt::format("; {} {} in which all are alike {} left out", left_out,
                         left_out == 1 ? "line" : "lines", left_out == 1 ? "is" : "are");
  return title;
}

const Plan& plan_of(const Report& report, const std::string& id) {
  const std::vector<Plan>& plans = report.answer.plans;
  return *std::find_if(plans.begin(), plans.end(), [&id](const Plan& plan) { return plan.id() == id; });
}

std::string tokens(const Plan& plan) {
  return fmt::format("{} tokens per second", group_digits(std::llround(plan.time.tokens_per_second)));
}

/// Returns "faster" or "fastest", limited to plans that fit where a faster one does not.
std::string superlative(const Report& report, const Plan& first) {
  const std::vector<Plan>& plans = report.answer.plans;
  const bool outrun = std::any_of(plans.begin(), plans.end(), [&first](const Plan& plan) {
    return plan.time.tokens_per_second > first.time.tokens_per_second;
  });
  if (plans.size() == 2) return "faster";
  return outrun ? "the fastest that fits" : "fastest";
}

}  // namespace

std::string fastest_sentence(const Report& report, const Contest& contest) {
  const Plan &first = plan_of(report, contest.faster), &second = plan_of(report, contest.slower);
  const std::string misses = first.fits ? "" : ", though it does not fit";
  if (contest.ratio < 1 + contest.tie.within)
    return fmt::format("{} and {} tie here: {} and {}, {:.1f} % apart, and {}{}", contest.faster,
                       contest.slower, tokens(first),
                       group_digits(std::llround(second.time.tokens_per_second)), (contest.ratio - 1) * 100,
                       tie_text(contest.tie), misses);
  const std::string much = contest.ratio < 2 ? fmt::format("{:.0f} % more than", (contest.ratio - 1) * 100)
                                             : fmt::format("{:.1f} times that of", contest.ratio);
  return fmt::format("{} is {} here: {}, {} {} with {}{}", contest.faster, superlative(report, first),
                     tokens(first), much, contest.slower, tokens(second), misses);
}

namespace {

std::string memory_sentence(const Report& report, const Contest& contest) {
  const std::vector<Plan>& plans = report.answer.plans;
  const auto least = std::min_element(plans.begin(), plans.end(), [](const Plan& a, const Plan& b) {
    return a.memory().required < b.memory().required;
  });
  const Plan& faster = plan_of(report, contest.faster);
  const ByteUnit unit = report.question.unit;
  const Plan& other = least->id() == contest.faster ? plan_of(report, contest.slower) : faster;
  return fmt::format("{} needs {} memory: {} per GPU against {} of {}", least->id(),
                     plans.size() > 2 ? "least" : "less", format_bytes(least->memory().required, unit),
                     format_bytes(other.memory().required, unit), other.id());
}

std::string crossover_sentence(const Contest& contest) {
  const DecisiveLink& link = *contest.link;
  const std::string now = fmt::format("(now {})", format_rate(link.now));
  const std::string of = link.between ? fmt::format("network bandwidth out of each node ({})", link.name)
                                      : fmt::format("{} bus bandwidth", link.name);
  if (!contest.crossover)
    return fmt::format("{} is the faster of the two at any {} from {} to {} {}", contest.faster, of,
                       format_rate(link.now * (1 / kMostLinkFactor)), format_rate(link.now * kMostLinkFactor),
                       now);
  const Crossover& at = *contest.crossover;
  return fmt::format("the two trade places at {} of {} {}: {} is faster below, {} above", format_rate(at.at),
                     of, now, at.below.id(), at.above.id());
}

/// Returns what differs between the question of the saved report and this one, and strategies that it lacks.
std::vector<std::string> since_sentences(const Report& report) {
  std::vector<std::string> sentences;
  if (!report.comparison->saved) return sentences;
  const SavedReport& saved = *report.comparison->saved;
  const std::vector<std::string> changes = changed_since(saved, asked_json(report));
  if (!changes.empty())
    sentences.push_back(fmt::format("not asked as in {}: {}", saved.file, fmt::join(changes, "; ")));
  for (const Plan* plan : plans_in_order(report))
    if (baseline_of(*plan, report) == nullptr)
      sentences.push_back(fmt::format("{} has no {}", saved.file, plan->id()));
  return sentences;
}

}  // namespace

std::vector<std::string> comparison_sentences(const Report& report) {
  std::vector<std::string> sentences = since_sentences(report);
  const std::optional<Contest>& contest = report.comparison->contest;
  if (!contest) return sentences;
  sentences.push_back(fastest_sentence(report, *contest));
  sentences.push_back(memory_sentence(report, *contest));
  if (contest->link) sentences.push_back(crossover_sentence(*contest));
  return sentences;
}

void add_comparison(Document& doc, const Report& report, int width) {
  doc.paragraph("", comparison_title(report));
  doc.shown = Shown::markdown;
  doc.paragraph("", comparison_title(report) + ".");
  doc.shown = Shown::both;
  doc.line();
  const ComparedLines compared{comparison_lines(report), comparison_sides(report)};
  add_side_by_side(doc, compared, compared, width);
  add_sentences(doc, "Side by side", comparison_sentences(report));
}

}  // namespace zplan
