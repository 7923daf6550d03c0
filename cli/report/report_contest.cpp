// `compare`: what the table says, in sentences.

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "cli/report/accuracy.h"
#include "cli/report/report_json.h"
#include "cli/report/report_text.h"
#include "planner/search/explore.h"

namespace zplan {

namespace {

const Plan& plan_of(const Report& report, const std::string& id) {
  const std::vector<Plan>& plans = report.answer.plans;
  return *std::find_if(plans.begin(), plans.end(), [&id](const Plan& plan) { return plan.id() == id; });
}

std::string tokens(const Plan& plan) {
  return fmt::format("{} tokens per second", group_digits(std::llround(plan.time.tokens_per_second)));
}

/// A contest between plans that fit says nothing of faster ones that do not.
std::string superlative(const Report& report, const Plan& first) {
  const std::vector<Plan>& plans = report.answer.plans;
  const bool outrun = std::any_of(plans.begin(), plans.end(), [&first](const Plan& plan) {
    return plan.time.tokens_per_second > first.time.tokens_per_second;
  });
  if (plans.size() == 2) return "faster";
  return outrun ? "the fastest that fits" : "fastest";
}

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

/// What a saved report's figures rest on and was otherwise then; strategies that it does not have.
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

}  // namespace zplan
