// The answer of `zplan fit --within`, as a document and as JSON.

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>

#include "cli/document/json_values.h"
#include "cli/options/command_line.h"
#include "cli/options/strategy_words.h"
#include "cli/report/fit_report.h"
#include "cli/report/report_text.h"
#include "models/base/version.h"
#include "planner/explain/why.h"

namespace zplan {

namespace {

/// A row of the table: a run, and what it is of those in time.
struct RunRow {
  const TimedRun* run{};
  std::string role;
};

std::string role_of(const Deadline& deadline, std::size_t i) {
  std::string role;
  const auto add = [&](const std::optional<std::size_t>& which, std::string_view word) {
    if (which == i) role += (role.empty() ? "" : ", ") + std::string(word);
  };
  add(deadline.fewest, "fewest GPUs");
  add(deadline.cheapest, "cheapest");
  add(deadline.fastest, "fastest");
  add(deadline.nearest, "nearest");
  return role;
}

std::vector<RunRow> rows_of(const Deadline& deadline) {
  std::vector<RunRow> rows;
  for (std::size_t i = 0; i < deadline.tried.size(); ++i)
    rows.push_back({&deadline.tried[i], role_of(deadline, i)});
  return rows;
}

std::string days(Seconds time) { return fmt::format("{:.1f}", time.value / 86'400); }

Table runs_table(const DeadlineReport& report) {
  using R = const RunRow&;
  std::vector<Field<RunRow>> fields{
      {number_column("GPUs"), [](R each) { return fmt::format("{}", each.run->gpus); }},
      {number_column("nodes"), [](R each) { return fmt::format("{}", each.run->question.cluster.nodes); }},
      {text_column("strategy"), [](R each) { return each.run->plan.id(); }},
      {number_column("batch"),
       [](R each) { return fmt::format("{}", each.run->plan.strategy.micro_batch_size); }},
      {number_column("tok/s", "", 8),
       [](R each) { return fmt::format("{:.0f}", each.run->plan.time.tokens_per_second); }},
      {number_column("days"), [](R each) { return days(each.run->cost.wall); }},
      {number_column("GPU-hours"), [](R each) { return amount_text(each.run->cost.gpu_hours); }}};
  if (report.question.budget.price)
    fields.push_back(
        {number_column("cost"), [](R each) { return amount_text(each.run->cost.money.value_or(0)); }});
  fields.push_back({text_column("in time"), [](R each) { return each.role; }});
  return table_of<RunRow>(fields, rows_of(report.deadline),
                          [](R each) { return each.role.empty() ? Tone::faint : Tone::plain; });
}

/// The command that plans a run.
std::string plan_line(const DeadlineReport& report, const TimedRun& run) {
  const Strategy& s = run.plan.strategy;
  OptionChanges options{{"--within", ""},
                        {"--gpus", fmt::format("{}", run.gpus)},
                        {"--nodes", fmt::format("{}", run.question.cluster.nodes)},
                        {"--framework", std::string(to_name(run.question.training.framework))}};
  for (auto& each : sharding_options(s)) options.push_back(std::move(each));
  options.emplace_back("--checkpointing", to_name(s.checkpointing));
  options.emplace_back("--micro-batch", fmt::format("{}", s.micro_batch_size));
  options.emplace_back("--grad-accum", fmt::format("{}", s.gradient_accumulation_steps));
  for (auto& each : token_options(s)) options.push_back(std::move(each));
  return "  " + plan_command_line(report.arguments, options);
}

std::string answer_line(const TimedRun& run, std::string_view role) {
  std::string text = fmt::format("{}: {} GPUs, {}, {} GPU-hours", role, run.gpus,
                                 duration_text(run.cost.wall), amount_text(run.cost.gpu_hours));
  if (run.cost.money) text += fmt::format(", {} in money", amount_text(*run.cost.money));
  const Ends wall = run.cost.speeds.of_time(run.cost.wall.value);
  return text + fmt::format(" (80 % of comparable runs took {} to {})", duration_text(Seconds(wall.low)),
                            duration_text(Seconds(wall.high)));
}

std::vector<std::string> answer_lines(const DeadlineReport& report) {
  const Deadline& d = report.deadline;
  std::vector<std::string> lines;
  std::set<std::size_t> said;
  const auto add = [&](const std::optional<std::size_t>& which) {
    if (which && said.insert(*which).second)
      lines.push_back(answer_line(d.tried[*which], role_of(d, *which)));
  };
  add(d.fewest), add(d.cheapest), add(d.fastest), add(d.nearest);
  return lines;
}

}  // namespace

Document deadline_document(const DeadlineReport& report) {
  const Deadline& d = report.deadline;
  Document doc;
  const std::string time = duration_text(d.within);
  if (d.fewest)
    doc.line(fmt::format("Within {}: {} GPUs with {}", time, d.tried[*d.fewest].gpus,
                         d.tried[*d.fewest].plan.id()),
             Tone::good);
  else if (d.nearest)
    doc.line(fmt::format("Not within {}: {} GPUs take {}", time, d.tried[*d.nearest].gpus,
                         duration_text(d.tried[*d.nearest].cost.wall)),
             Tone::bad);
  else
    doc.line("It fits on none of the numbers of GPUs that were tried", Tone::bad);
  doc.items(answer_lines(report));
  doc.line();
  doc.shown = Shown::both;
  doc.table(runs_table(report));
  doc.shown = Shown::text;
  for (const std::string& each : report.warnings) doc.paragraph("Warning  ", each);
  if (!d.fewest) return doc;
  doc.heading("Next");
  doc.line(plan_line(report, d.tried[*d.fewest]));
  return doc;
}

Json deadline_json(const DeadlineReport& report) {
  const Deadline& d = report.deadline;
  const auto run_json = [&](const TimedRun& run) {
    return Json{{"gpus", run.gpus},
                {"nodes", run.question.cluster.nodes},
                {"framework", std::string(to_name(run.question.training.framework))},
                {"strategy", run.plan.id()},
                {"micro_batch", run.plan.strategy.micro_batch_size},
                {"grad_accum", run.plan.strategy.gradient_accumulation_steps},
                {"required", run.plan.memory().required.value},
                {"tokens_per_second", run.plan.time.tokens_per_second},
                {"steps", run.cost.steps},
                {"seconds", run.cost.wall.value},
                {"gpu_hours", run.cost.gpu_hours},
                {"cost", or_null(run.cost.money)}};
  };
  const auto one = [&](const std::optional<std::size_t>& which) {
    return which ? Json(d.tried[*which].gpus) : Json(nullptr);
  };
  return {{"schema", "zplan.fit/1"},
          {"zplan_version", std::string(version())},
          {"deadline",
           {{"within_seconds", d.within.value},
            {"fewest", one(d.fewest)},
            {"cheapest", one(d.cheapest)},
            {"fastest", one(d.fastest)},
            {"nearest", one(d.nearest)},
            {"runs", json_list(d.tried, run_json)}}},
          {"warnings", report.warnings}};
}

}  // namespace zplan
