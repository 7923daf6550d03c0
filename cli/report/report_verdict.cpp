// The last lines of a report: the recommended plan and why, why not the others, the next command.

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <optional>

#include "cli/options/command_line.h"
#include "cli/options/strategy_words.h"
#include "cli/recipes/recipe.h"
#include "cli/report/advice.h"
#include "cli/report/explain.h"
#include "cli/report/report.h"
#include "cli/report/report_text.h"
#include "cli/report/script_settings.h"
#include "planner/frameworks/launch/launch.h"
#include "planner/plan/plan.h"
#include "planner/plan/plan_figures.h"
#include "planner/question/framework.h"
#include "planner/search/explore.h"
#include "planner/search/search.h"

namespace zplan {

namespace {

constexpr double kNear = 0.25;  ///< of the memory there is: what misses by less is a near miss
constexpr std::size_t kMostMisses = 6, kMostRejections = 4;

std::string room_of(const TrainerReach& reach) {
  std::vector<std::string> room;
  if (reach.longest_sequence)
    room.push_back(fmt::format("up to {} tokens in a sample", group_digits(*reach.longest_sequence)));
  if (reach.largest_micro_batch)
    room.push_back(fmt::format("up to {} samples in a micro-batch", *reach.largest_micro_batch));
  return room.empty() ? "nothing fits" : fmt::format("{}", fmt::join(room, ", or "));
}

bool is_near(const Plan& plan, const Question& q) {
  return ratio(shortage(plan, q), available(q.cluster, q.headroom)) < kNear;
}

/// Returns the plans that do not fit and are worth a line: each plain stage, and near misses.
std::vector<const Plan*> misses(const Report& report) {
  std::vector<const Plan*> chosen;
  const Plan& leading = leading_plan(report);
  for (const Plan& plan : report.answer.plans)
    if (!plan.fits && &plan != &leading &&
        (is_plain(plan) || is_near(plan, report.question) || report.comparison != nullptr))
      chosen.push_back(&plan);
  std::stable_sort(chosen.begin(), chosen.end(),
                   [](const Plan* a, const Plan* b) { return is_plain(*a) > is_plain(*b); });
  if (chosen.size() > kMostMisses) chosen.resize(kMostMisses);
  return chosen;
}

void add_misses(Document& doc, const Report& report) {
  const std::vector<const Plan*> plans = misses(report);
  if (plans.empty()) return;
  std::size_t widest = 0;
  for (const Plan* plan : plans) widest = std::max(widest, plan->id().size());
  doc.heading(report.answer.fits() ? "Why not the others" : "Further off");
  for (const Plan* plan : plans)
    doc.paragraph(fmt::format("  {:<{}}  ", plan->id(), widest),
                  fmt::format("{}", fmt::join(plan->why, "; ")));
}

/// Adds a line for all strategies that have the same reason.
void add_rejections(Document& doc, const Report& report) {
  const std::vector<Impossible> groups = impossible_plans(report);
  if (groups.empty()) return;
  doc.heading("Not possible");
  for (std::size_t i = 0; i < std::min(groups.size(), kMostRejections); ++i)
    doc.paragraph("  ", fmt::format("{}: {}", fmt::join(groups[i].ids, ", "), groups[i].reason));
  if (groups.size() > kMostRejections)
    doc.line(fmt::format("  and {} more (--json lists them)", groups.size() - kMostRejections));
}

/// Adds what a trainer leaves room for, beside the trainer that its script runs without it.
void add_room(Document& doc, const Report& report) {
  if (report.reaches.empty()) return;
  doc.heading("Room");
  doc.items(reach_lines(report));
}

/// Adds what expert parallelism would change.
void add_experts(Document& doc, const Report& report) {
  if (!report.details.experts) return;
  doc.heading("Expert parallelism");
  doc.items({*report.details.experts});
}

}  // namespace

bool is_plain(const Plan& plan) {
  return plan.strategy.layout.tensor == 1 && plan.strategy.offload_optimizer == OffloadDevice::none &&
         plan.strategy.offload_parameters == OffloadDevice::none;
}

std::vector<std::string> reach_lines(const Report& report) {
  std::vector<std::string> lines;
  for (const TrainerReach& each : report.reaches) {
    const bool is_asked = lines.empty();
    lines.push_back(is_asked ? room_of(each)
                             : fmt::format("{} instead: {} and {} a step, {}", to_text(each.trainer),
                                           format_bytes(each.required, report.question.unit),
                                           format_seconds(each.step), room_of(each)));
  }
  return lines;
}

OptionChanges alternative_changes(const Answer& answer) {
  OptionChanges changes = strategy_options(answer.alternative->strategy);
  for (auto& each : typed_options(answer.alternative_change)) changes.push_back(std::move(each));
  return changes;
}

namespace {

void add_next(Document& doc, const std::vector<std::string>& commands) {
  doc.heading("Next");
  for (const std::string& each : commands)
    if (!each.empty()) doc.line("  " + each);
}

/// Returns the command that plans what the search found.
std::string pinned_command(const Report& report) {
  return plan_command_line(report.arguments, pinning_options(report.found->best.front(), report.options));
}

/// Returns the trainer's own command for a plan of what its recipe says.
std::string trainer_line(const Report& report) {
  const Options& options = report.options;
  if (options.command != Command::plan || options.recipes.empty()) return {};
  return recipe_command(options.recipes, report.question.cluster.gpus,
                        to_name(report.question.training.objective));
}

std::vector<std::string> next_of_plan(const Report& report, const Plan& plan) {
  if (std::string line = trainer_line(report); !line.empty()) return {std::move(line)};
  std::vector<std::string> commands;
  if (report.found != nullptr && !report.found->best.empty()) commands.push_back(pinned_command(report));
  const std::vector<std::string> advised = advised_commands(report);
  if (report.options.recipes.empty()) commands.insert(commands.end(), advised.begin(), advised.end());
  const std::vector<std::string> of_recipe = recipe_commands(report);
  commands.insert(commands.end(), of_recipe.begin(), of_recipe.end());
  const std::string config = config_path(plan, report);
  if (of_recipe.empty() && report.options.emit.empty() && !spec(plan.framework).config_file.empty())
    commands.push_back(command_line(with_options(report.arguments, {{"--emit", config}, {"--explain", ""}})));
  if (of_recipe.empty()) commands.push_back(next_line(plan, report));
  if (!report.options.recipes.empty()) commands.insert(commands.end(), advised.begin(), advised.end());
  return commands;
}

/// Returns the commands of the alternative, or a search where a recipe pins how the samples of a step are
/// divided.
std::vector<std::string> next_of_miss(const Report& report) {
  const Options& options = report.options;
  if (std::vector<std::string> advised = advised_commands(report); !advised.empty()) {
    std::ranges::move(recipe_commands(report), std::back_inserter(advised));
    return advised;
  }
  if (report.answer.alternative) {
    if (options.command == Command::compare) return {};
    std::vector<std::string> commands{
        command_line(with_options(report.arguments, alternative_changes(report.answer)))};
    std::ranges::move(recipe_commands(report), std::back_inserter(commands));
    return commands;
  }
  if (std::vector<std::string> offered = offered_commands(report); !offered.empty()) return offered;
  if (options.recipes.empty() || options.command != Command::plan) return {};
  std::vector<std::string> arguments = report.arguments;
  std::erase(arguments, to_name(Command::plan));
  arguments.insert(arguments.begin(), std::string(to_name(Command::search)));
  return {command_line(arguments)};
}

/// Returns the reasons for a plan; the range of its memory follows the first.
std::vector<std::string> reasons(const Plan& plan, const Question& question) {
  std::vector<std::string> sentences = plan.why;
  sentences.insert(sentences.begin() + (sentences.empty() ? 0 : 1), range_sentence(plan, question));
  return sentences;
}

/// Says what fits instead.
void add_alternative(Document& doc, const Report& report) {
  const Answer& answer = report.answer;
  if (!answer.alternative) return;
  doc.heading(fmt::format("What fits instead: {} ({})", answer.alternative->id(),
                          options_text(alternative_changes(answer))),
              Tone::good);
  doc.items(reasons(*answer.alternative, report.question));
}

/// Returns the other plans that fit and may be as fast, by the ranges of comparable runs.
std::optional<std::string> overlapping(const Report& report, const Plan& first) {
  const auto range = [&](const Plan& plan) {
    return likely_range(AccuracyOf::step_time, comparable_to(plan, report.question));
  };
  std::vector<std::string> others;
  for (const Plan& plan : report.answer.plans)
    if (plan.fits && &plan != &first &&
        overlap(first.time.tokens_per_second, range(first), plan.time.tokens_per_second, range(plan)))
      others.push_back(plan.id());
  if (others.empty()) return std::nullopt;
  constexpr std::size_t kMostNamed = 3;
  const std::size_t more = others.size() > kMostNamed ? others.size() - kMostNamed : 0;
  others.resize(others.size() - more);
  return fmt::format("by their ranges {}{} may be as fast", fmt::join(others, ", "),
                     more > 0 ? fmt::format(" and {} more", more) : std::string());
}

}  // namespace

std::vector<std::string> next_commands(const Report& report) {
  const Plan* plan = report.answer.recommended();
  return plan != nullptr ? next_of_plan(report, *plan) : next_of_miss(report);
}

std::string range_sentence(const Plan& plan, const Question& question) {
  const MemoryPlan& m = plan.memory();
  const std::string_view risk = m.required_high > question.cluster.usable_memory
                                    ? ": the upper end is more than the GPU has"
                                : m.required_high > available(question.cluster, question.headroom)
                                    ? ": the upper end eats into the headroom"
                                    : "";
  return fmt::format("between {} and {}, by how PyTorch's allocator packs{}",
                     format_bytes(m.required_low, question.unit),
                     format_bytes(m.required_high, question.unit), risk);
}

std::vector<Impossible> impossible_plans(const Report& report) {
  std::vector<Impossible> groups;
  for (const Rejection& each : report.answer.rejected) {
    const std::string reason = fmt::format("{}", fmt::join(each.reasons, "; "));
    const std::string id = plan_id(report.question.training.framework, each.strategy);
    const auto at = std::find_if(groups.begin(), groups.end(),
                                 [&reason](const Impossible& group) { return group.reason == reason; });
    if (at == groups.end())
      groups.push_back({reason, {id}});
    else
      at->ids.push_back(id);
  }
  return groups;
}

void add_verdict(Document& doc, const Report& report) {
  const Plan* plan = report.answer.recommended();
  if (plan != nullptr) {
    doc.heading(fmt::format("Recommended: {}", plan->id()), Tone::good);
    add_advice(doc, report);
    std::vector<std::string> sentences = reasons(*plan, report.question);
    if (auto others = overlapping(report, *plan)) sentences.push_back(std::move(*others));
    doc.items(sentences);
  } else {
    doc.heading(fmt::format("Nothing fits. Nearest miss: {}", leading_plan(report).id()), Tone::bad);
    add_advice(doc, report);
    doc.items(leading_plan(report).why);
  }
  add_misses(doc, report);
  add_rejections(doc, report);
  add_room(doc, report);
  add_experts(doc, report);
  if (plan == nullptr && advised_commands(report).empty()) add_alternative(doc, report);
  if (const std::vector<std::string> commands = next_commands(report); !commands.empty())
    add_next(doc, commands);
  if (plan != nullptr && trainer_line(report).empty()) {
    if (report.options.recipes.empty())
      doc.items({fmt::format(
          "the plan takes the script to say {}",
          fmt::join(script_calls(script_of(*plan, report), report.question.training.objective), ", "))});
    doc.items(config_notes(*plan, report));
  }
}

}  // namespace zplan
