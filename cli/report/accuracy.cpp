#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <nlohmann/json.hpp>
#include <optional>

#include "cli/document/json_values.h"
#include "cli/document/text.h"
#include "cli/report/explain.h"
#include "planner/plan/plan.h"
#include "planner/plan/plan_figures.h"
#include "planner/question/question.h"

namespace zplan {

namespace {

constexpr std::string_view kPage = "docs/accuracy.md";
/// Errors below it print as this rather than as 0.
constexpr double kLeastShown = 0.0001;

/// Returns an error as text: "3 %", "0.02 %".
std::string error_share(double fraction) {
  const double value = fraction * 100;
  return fmt::format("{:.{}f} %", value, value < 0.1 ? 2 : value < 10 ? 1 : 0);
}

/// Returns the runs of a group: " of deepspeed, full, on A100-SXM-80GB".
std::string runs_of(const Accuracy& group) {
  std::string text;
  if (group.framework)
    text += fmt::format(" of {}, {}", to_name(*group.framework),
                        group.method ? to_name(*group.method) : "any method");
  if (group.on_cards)
    text += fmt::format("{} on {}", group.framework ? "," : "", group.card ? *group.card : "any GPU");
  return text;
}

/// Returns the number of measurements: "12 published runs", "1 published run with a slower attention kernel".
std::string counted(const Accuracy& group) {
  std::string what = group.against;
  if (group.judged > 1) return fmt::format("{} {}", group.judged, what);
  for (const std::string_view many : {"runs", "steps", "devices", "timings"})
    if (const std::size_t at = what.find(many); at != std::string::npos)
      return fmt::format("1 {}", what.erase(at + many.size() - 1, 1));
  return "1 of " + what;
}

/// Returns the most telling group of one kind of measurement: the plan's own, else the largest.
const Accuracy& foremost(const std::vector<Accuracy>& groups, const Accuracy& first, const Coverage& plan) {
  const Accuracy* best = &first;
  for (const Accuracy& each : groups) {
    if (each.against != first.against) continue;
    const bool own = is_of(each, plan), best_own = is_of(*best, plan);
    if (own != best_own ? own : each.judged > best->judged) best = &each;
  }
  return *best;
}

/// Returns the most telling group of those on GPUs, or of those without one; nothing where there is none.
std::optional<Accuracy> telling(const std::vector<Accuracy>& groups, bool on_cards, const Coverage& plan) {
  const auto first = std::ranges::find(groups, on_cards, &Accuracy::on_cards);
  return first == groups.end() ? std::nullopt : std::optional(foremost(groups, *first, plan));
}

std::string card_text(const Coverage& plan) { return plan.card == "generic" ? "the generic GPU" : plan.card; }

bool takes_a_card(AccuracyOf of) {
  return of == AccuracyOf::memory || of == AccuracyOf::step_time || of == AccuracyOf::collective_time;
}

/// Returns what was not measured, where no measurement has the plan's framework, method, GPU and kernels.
std::string gap_text(AccuracyOf of, const std::vector<Accuracy>& groups, const Coverage& plan) {
  if (!takes_a_card(of))
    return groups.empty() ? "nothing measured under " + std::string(to_name(plan.framework)) : "";
  const bool own = std::any_of(groups.begin(), groups.end(), [&](const Accuracy& each) {
    return is_of(each, plan) && !each.slower_attention;
  });
  if (own) return "";
  return of == AccuracyOf::collective_time ? "nothing measured on " + card_text(plan)
                                           : "nothing measured with " + coverage_text(plan);
}

/// Returns "275 recorded steps within 0.03 %", by the largest error; empty where nothing was recorded.
std::string recorded_text(AccuracyOf of, const Coverage& plan) {
  const auto group = telling(accuracies(of, plan), false, plan);
  if (!group) return "";
  if (group->exact == group->judged) return counted(*group) + ", all equal";
  return fmt::format("{} within {}", counted(*group), error_share(std::max(group->worst, kLeastShown)));
}

bool has_ranges(AccuracyOf of) { return of == AccuracyOf::memory || of == AccuracyOf::step_time; }

/// Returns "-12 to +20 %": how far from its prediction a figure of comparable runs was.
std::string range_text(AccuracyOf of, const LikelyRange& range) {
  const Ends ends = of == AccuracyOf::step_time ? range.of_time(1) : range.around(1);
  return fmt::format("{:+.0f} to {:+.0f} %", (ends.low - 1) * 100, (ends.high - 1) * 100);
}

/// Returns what was measured on GPUs; empty where nothing was.
std::string measured_text(AccuracyOf of, const Plan& plan, const Question& question) {
  if (has_ranges(of)) {
    const LikelyRange range = likely_range(of, comparable_to(plan, question));
    return fmt::format("80 % of {} similar measured runs within {}", range.runs, range_text(of, range));
  }
  const Coverage coverage = coverage_of(plan, question);
  const auto group = telling(accuracies(of, coverage), true, coverage);
  return group ? fmt::format("{}, 90 % within {}", counted(*group), error_share(group->nine_in_ten)) : "";
}

/// Returns the ranges of several figures: "memory -12 to +20 % (80 % of 66 similar runs), step time ...".
std::string ranges_text(const std::vector<AccuracyOf>& kinds, const Plan& plan, const Question& question) {
  std::vector<std::string> parts;
  for (const AccuracyOf of : kinds) {
    const LikelyRange range = likely_range(of, comparable_to(plan, question));
    const std::string of_figure = fmt::format("{} {}", in_words(to_name(of)), range_text(of, range));
    parts.push_back(parts.empty() ? fmt::format("{} (80 % of {} similar runs)", of_figure, range.runs)
                                  : fmt::format("{} (of {})", of_figure, range.runs));
  }
  return fmt::format("{}", fmt::join(parts, ", "));
}

Json group_json(const Accuracy& group) {
  return {{"kind", to_name(group.of)},
          {"against", group.against},
          {"statistic", group.statistic},
          {"on_cards", group.on_cards},
          {"slower_attention", group.slower_attention},
          {"framework", group.framework ? name_json(*group.framework) : Json(nullptr)},
          {"method", group.method ? name_json(*group.method) : Json(nullptr)},
          {"card", or_null(group.card)},
          {"judged", group.judged},
          {"exact", group.exact},
          {"median_error", group.median},
          {"p90_error", group.nine_in_ten},
          {"worst_error", group.worst},
          {"under_predicted", group.too_low}};
}

}  // namespace

Coverage coverage_of(const Plan& plan, const Question& question) {
  return {plan.framework, training_of(plan, question).method, question.cluster.gpu.name};
}

std::string coverage_text(const Coverage& plan) {
  return fmt::format("{}, {}, on {}", to_name(plan.framework), to_name(plan.method), card_text(plan));
}

std::string accuracy_text(const Accuracy& accuracy) {
  std::string text =
      fmt::format("{}: {}{}", in_words(accuracy.statistic), counted(accuracy), runs_of(accuracy));
  if (accuracy.exact == accuracy.judged) return text + ", all equal";
  const auto shown = [](double error) { return error_share(std::max(error, kLeastShown)); };
  if (accuracy.judged == 1) return text + ", off by " + shown(accuracy.worst);
  text += fmt::format(", median {}, 90 % within {}, worst {}", error_share(accuracy.median),
                      shown(accuracy.nine_in_ten), shown(accuracy.worst));
  if (accuracy.too_low > 0)
    text += fmt::format(", too low by more than 5 % in {}", error_share(accuracy.too_low));
  return text;
}

std::string validation_line(const std::vector<AccuracyOf>& kinds, const Plan& plan,
                            const Question& question) {
  if (kinds.size() > 1 && std::ranges::all_of(kinds, has_ranges)) return ranges_text(kinds, plan, question);
  std::vector<std::string> parts;
  for (const AccuracyOf of : kinds)
    for (const std::string& part :
         {recorded_text(of, coverage_of(plan, question)), measured_text(of, plan, question)})
      if (!part.empty()) parts.push_back(part);
  return parts.empty() ? "nothing was recorded or measured" : fmt::format("{}", fmt::join(parts, "; "));
}

std::vector<std::string> accuracy_sentences(AccuracyOf of, const Coverage& plan) {
  const std::vector<Accuracy> groups = accuracies(of, plan);
  const std::string name = in_words(to_name(of));
  std::vector<std::string> sentences;
  if (const std::string gap = gap_text(of, groups, plan); !gap.empty())
    sentences.push_back(fmt::format("{}: {}", name, gap));
  for (const Accuracy& each : groups) sentences.push_back(fmt::format("{}, {}", name, accuracy_text(each)));
  return sentences;
}

std::vector<std::string> accuracy_sentences(const Coverage& plan) {
  std::vector<std::string> sentences;
  for (const auto& [of, name] : EnumNames<AccuracyOf>::table)
    std::ranges::move(accuracy_sentences(of, plan), std::back_inserter(sentences));
  sentences.push_back(fmt::format("what was measured, and what nobody has checked: {}", kPage));
  return sentences;
}

Json accuracy_json(const Coverage& plan) {
  Json groups = Json::array();
  for (const auto& [of, name] : EnumNames<AccuracyOf>::table)
    for (const Accuracy& each : accuracies(of, plan)) groups.push_back(group_json(each));
  return groups;
}

Json ranges_json(const Plan& plan, const Question& question) {
  const Comparable to = comparable_to(plan, question);
  const LikelyRange speed = likely_range(AccuracyOf::step_time, to);
  const LikelyRange memory = likely_range(AccuracyOf::memory, to);
  const auto of = [](const LikelyRange& range, Ends ends) {
    const auto name = [](const auto& value) { return value ? Json(to_name(*value)) : Json(nullptr); };
    return Json{{"low", ends.low},
                {"high", ends.high},
                {"runs", range.runs},
                {"sources", range.sources},
                {"framework", name(range.framework)},
                {"method", name(range.method)},
                {"gpu_generation", name(range.units)}};
  };
  const Ends peak = memory.around(static_cast<double>(plan.memory().required.value));
  return {{"share", LikelyRange::kShare},
          {"step_seconds", of(speed, speed.of_time(plan.time.step.value))},
          {"tokens_per_second", of(speed, speed.around(plan.time.tokens_per_second))},
          {"required_bytes", of(memory, {std::round(peak.low), std::round(peak.high)})}};
}

std::string tie_text(const Tie& tie) {
  return fmt::format("half of the {} speeds of {}{} were further off than {}", tie.basis.judged,
                     tie.basis.against, runs_of(tie.basis), error_share(tie.within));
}

}  // namespace zplan
