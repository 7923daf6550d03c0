#include "cli/report/advice.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "cli/document/json_values.h"
#include "cli/options/command_line.h"
#include "cli/options/strategy_words.h"
#include "cli/report/report_text.h"
#include "cli/report/script_settings.h"
#include "planner/plan/plan.h"
#include "planner/search/levers.h"

namespace zplan {

namespace {

/// Returns the options that pin an advised plan with its levers.
OptionChanges advised_options(const Advised& advised, const Options& options) {
  OptionChanges changes = pinning_options(advised.found, options);
  const auto is_pinned = [&](const std::string& option) {
    return std::ranges::any_of(changes, [&](const auto& change) { return change.first == option; });
  };
  for (const LeverGain& each : advised.gains)
    for (auto& option : typed_options(each.lever->option))
      if (!is_pinned(option.first)) changes.push_back(std::move(option));
  return changes;
}

/// Returns the command that plans what is advised.
std::string command_of(const Advised& advised, const Report& report) {
  return plan_command_line(report.arguments, advised_options(advised, report.options));
}

/// Returns what of the script an advised plan changes, in its trainer's words.
std::vector<std::string> changes_of(const Advised& advised, const Report& report) {
  const Recipe* recipe = report.options.recipes.empty() ? nullptr : &report.options.recipes.front();
  return changed_settings(script_of(leading_plan(report), report),
                          script_settings(advised.plan(), advised.question, recipe));
}

/// Returns "zero3 with Liger's fused loss and kernels (use_liger_kernel=True)".
std::string name_of(const Advised& advised, const Report& report) {
  std::vector<std::string_view> names;
  for (const LeverGain& each : advised.gains) names.push_back(each.lever->name);
  const std::vector<std::string> changes = changes_of(advised, report);
  return fmt::format("{}{}{}{}", advised.plan().id(), names.empty() ? "" : " with ", fmt::join(names, ", "),
                     changes.empty() ? "" : fmt::format(" ({})", fmt::join(changes, ", ")));
}

/// Returns "65.8 GiB per GPU, 5.18 s a step, 2.85 times the speed".
std::string figures_of(const Advised& advised, const Report& report) {
  const Plan& plan = advised.plan();
  const Plan* now = report.answer.recommended();
  const double speed = plan.time.tokens_per_second;
  return fmt::format("{} per GPU, {} a step, {}", format_bytes(plan.memory().required, report.question.unit),
                     format_seconds(plan.time.step),
                     now == nullptr
                         ? fmt::format("{} tokens/s", group_digits(std::llround(speed)))
                         : fmt::format("{:.2f} times the speed", speed / now->time.tokens_per_second));
}

/// Returns how the strategy would be without a lever: "without Liger's fused loss and kernels it takes 77.4
/// GiB".
std::string without_text(const LeverGain& gain, const Advised& advised, const Report& report) {
  if (!gain.without) return fmt::format("without {} nothing fits", gain.lever->name);
  const LeverGain::Without& without = *gain.without;
  if (without.fits)
    return fmt::format("without {} {} trains at {:.0f} % of that", gain.lever->name, without.id,
                       without.tokens_per_second / advised.plan().time.tokens_per_second * 100);
  const Question& q = report.question;
  return fmt::format("without {} {} needs at least {} of {}", gain.lever->name, without.id,
                     format_bytes(without.required_low, q.unit),
                     format_bytes(available(q.cluster, q.headroom), q.unit));
}

void add_command(std::vector<AdviceLine>& lines, const Advised& advised, const Report& report) {
  lines.push_back({.text = command_of(advised, report), .is_command = true, .indented = true});
}

void add_best(std::vector<AdviceLine>& lines, const Advice& advice, const Report& report) {
  const bool fits = report.answer.fits();
  lines.push_back({.text = fmt::format("{}: {}: {}", fits ? "Faster" : "Fits", name_of(*advice.best, report),
                                       figures_of(*advice.best, report)),
                   .tone = Tone::good});
  for (const LeverGain& each : advice.best->gains)
    lines.push_back({.text = without_text(each, *advice.best, report), .indented = true});
  add_command(lines, *advice.best, report);
}

void add_safer(std::vector<AdviceLine>& lines, const Advice& advice, const Report& report) {
  const Question& q = report.question;
  const MemoryPlan& risky = advice.best->plan().memory();
  lines.push_back(
      {.text = fmt::format("its range ends at {}, more than the GPU has; with room for that: {}: {}",
                           format_bytes(risky.required_high, q.unit), name_of(*advice.safer, report),
                           figures_of(*advice.safer, report)),
       .indented = true});
  add_command(lines, *advice.safer, report);
}

void add_own(std::vector<AdviceLine>& lines, const Advice& advice, const Report& report) {
  lines.push_back(
      {.text = fmt::format(
           "under {}, {:.0f} % slower than that: {}: {}", to_name(advice.own->plan().framework),
           (1 - advice.own->plan().time.tokens_per_second / advice.best->plan().time.tokens_per_second) * 100,
           name_of(*advice.own, report), figures_of(*advice.own, report)),
       .indented = true});
  add_command(lines, *advice.own, report);
}

void add_offer(std::vector<AdviceLine>& lines, const Advised& offer, const Report& report) {
  lines.push_back(
      {.text = fmt::format("Trains otherwise: {}: {}", name_of(offer, report), figures_of(offer, report))});
  add_command(lines, offer, report);
}

Json without_json(const LeverGain& gain) {
  if (!gain.without) return nullptr;
  return {{"id", gain.without->id},
          {"fits", gain.without->fits},
          {"required_low", gain.without->required_low.value},
          {"tokens_per_second", gain.without->tokens_per_second}};
}

Json advised_json(const Advised& advised, const Report& report) {
  const MemoryPlan& memory = advised.plan().memory();
  return {{"command", command_of(advised, report)},
          {"levers", json_list(advised.gains,
                               [](const LeverGain& each) {
                                 return Json{{"option", each.lever->option},
                                             {"name", each.lever->name},
                                             {"without", without_json(each)}};
                               })},
          {"script", changes_of(advised, report)},
          {"required", memory.required.value},
          {"required_high", memory.required_high.value},
          {"plan", found_json(advised.found)}};
}

}  // namespace

std::vector<AdviceLine> advice_lines(const Report& report) {
  std::vector<AdviceLine> lines;
  if (report.advice == nullptr) return lines;
  const Advice& advice = *report.advice;
  if (advice.best && improves(*advice.best, report.answer.recommended())) {
    add_best(lines, advice, report);
    if (advice.safer) add_safer(lines, advice, report);
    if (advice.own && improves(*advice.own, report.answer.recommended())) add_own(lines, advice, report);
  }
  for (const Advised& each : advice.offers)
    if (improves(each, report.answer.recommended())) add_offer(lines, each, report);
  return lines;
}

void add_advice(Document& doc, const Report& report) {
  for (const AdviceLine& each : advice_lines(report)) {
    const std::string_view indent = each.indented ? "    " : "  ";
    if (each.is_command)
      doc.line("  " + each.text);
    else
      doc.paragraph(std::string(indent), each.text, each.tone);
  }
}

const Advised* improving_advice(const Report& report) {
  if (report.advice == nullptr || !report.advice->best) return nullptr;
  const Advised& best = *report.advice->best;
  return improves(best, report.answer.recommended()) ? &best : nullptr;
}

std::vector<std::string> advised_commands(const Report& report) {
  const Advised* best = improving_advice(report);
  return best == nullptr ? std::vector<std::string>{} : std::vector{command_of(*best, report)};
}

std::vector<std::string> offered_commands(const Report& report) {
  std::vector<std::string> commands;
  if (report.advice != nullptr)
    for (const Advised& each : report.advice->offers) commands.push_back(command_of(each, report));
  return commands;
}

Json advice_json(const Report& report) {
  if (report.advice == nullptr) return nullptr;
  const Advice& advice = *report.advice;
  const auto json = [&](const std::optional<Advised>& each) {
    return each ? advised_json(*each, report) : Json(nullptr);
  };
  return {
      {"improves", advice.best && improves(*advice.best, report.answer.recommended())},
      {"best", json(advice.best)},
      {"safer", json(advice.safer)},
      {"own", json(advice.own)},
      {"offers", json_list(advice.offers, [&](const Advised& each) { return advised_json(each, report); })}};
}

}  // namespace zplan
