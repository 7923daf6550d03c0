#include "cli/scenarios/scenario_plan.h"

#include <algorithm>
#include <limits>
#include <nlohmann/json.hpp>

#include "cli/options/request.h"
#include "cli/scenarios/saved_report.h"

namespace zplan {

namespace {

/// Throws InputError for options of output, which are no part of a question.
void check_asks(const Options& options) {
  if (options.command != Command::plan)
    throw InputError(std::string(to_name(options.command)), "a scenario is planned, nothing else",
                     "accepted: options of zplan plan");
  for (const std::string_view option :
       {"--json", "--csv", "--markdown", "--explain", "--emit", "--recipe-out", "--snapshot", "--trace",
        "--html", "--no-advice", "--no-color", "--help", "--version"})
    if (options.has(option))
      throw InputError(std::string(option), "not an option of a scenario",
                       "accepted: options that change the plan");
}

/// Returns the index of the plan of this id, else 0.
std::size_t index_of(const std::vector<Plan>& plans, const std::string& id) {
  const auto at =
      std::find_if(plans.begin(), plans.end(), [&id](const Plan& plan) { return plan.id() == id; });
  return at == plans.end() ? 0 : static_cast<std::size_t>(at - plans.begin());
}

PlannedScenario planned(const Scenario& scenario, const Options& options, const Request& request,
                        Answer answer, bool draft) {
  answer.warnings.insert(answer.warnings.begin(), request.warnings.begin(), request.warnings.end());
  PlannedScenario made{
      .scenario = scenario, .options = options, .question = request.question, .answer = std::move(answer)};
  made.shown = index_of(made.answer.plans, scenario.strategy);
  made.draft = draft;
  return made;
}

template <class E>
E name_or(const JsonReader& from, std::string_view key, E fallback) {
  return from.has(key) ? from_name<E>(from.at(key).text()).value_or(fallback) : fallback;
}

std::int64_t count_or(const JsonReader& from, std::string_view key, std::int64_t fallback) {
  return from.integer_or(key, fallback, 0, std::numeric_limits<std::int64_t>::max());
}

/// Returns the part of the question that a report holds.
Question question_of_report(const JsonReader& report) {
  const JsonReader model = report.at("model"), cluster = report.at("cluster"),
                   training = report.at("training");
  Question q;
  q.model.name = model.text_or("name", "?");
  q.cluster.gpu.name = cluster.text_or("gpu", "?");
  q.cluster.gpus = count_or(cluster, "gpus", 1);
  q.cluster.nodes = count_or(cluster, "nodes", 1);
  q.cluster.gpus_per_node = count_or(cluster, "gpus_per_node", 1);
  q.cluster.memory = Bytes(count_or(cluster, "memory_bytes", 0));
  q.cluster.usable_memory = Bytes(count_or(cluster, "usable_memory_bytes", 0));
  q.cluster.host_memory_per_node = Bytes(count_or(cluster, "host_memory_bytes_per_node", 0));
  if (cluster.has("headroom")) q.headroom.fraction = cluster.at("headroom").number(0, 1);
  q.training.method = name_or(training, "method", Method::full);
  q.training.precision = name_or(training, "precision", Precision::bf16);
  q.training.optimizer = name_or(training, "optimizer", Optimizer::adamw);
  q.training.sequence_length = count_or(training, "sequence_length", q.training.sequence_length);
  q.training.framework = name_or(training, "framework", Training{}.framework);
  return q;
}

PlannedScenario read_report(const Scenario& scenario) {
  SavedReport saved =
      read_saved_report(parse_json(read_file(scenario.report), scenario.report), scenario.report);
  PlannedScenario made{.scenario = scenario,
                       .options = {},
                       .question = question_of_report(JsonReader(saved.whole, scenario.report)),
                       .answer = {}};
  made.answer.plans = std::move(saved.plans);
  made.shown = index_of(made.answer.plans, scenario.strategy);
  made.saved = true;
  return made;
}

}  // namespace

PlannedScenario planned_scenario(const Scenario& scenario, const Environment& environment, Depth depth,
                                 const std::string& likely) {
  if (!scenario.report.empty()) return read_report(scenario);
  const Options options = without_missing(with_recipes(parse_options(scenario.arguments)), environment);
  check_asks(options);
  const Request request = make_request(options, environment);
  const Question& question = request.question;
  if (depth == Depth::full) return planned(scenario, options, request, answer(question), false);
  if (depth == Depth::glance)
    if (auto plan = plan_called(question, scenario.strategy.empty() ? likely : scenario.strategy)) {
      Answer one;
      one.plans.push_back(*std::move(plan));
      PlannedScenario made = planned(scenario, options, request, std::move(one), true);
      made.glance = true;
      return made;
    }
  return planned(scenario, options, request, draft_answer(question, scenario.strategy, likely), true);
}

AnswerDetails details_for(const Question& question, const Answer& answer, OutputFormat format) {
  if (format == OutputFormat::json) return {.issued = issued_step(question, answer.plans.front())};
  if (format == OutputFormat::text) return {.experts = weigh_experts(question, answer)};
  return {};
}

}  // namespace zplan
