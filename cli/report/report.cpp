#include "cli/report/report.h"

#include <algorithm>

#include "planner/sharding/rank_model.h"

namespace zplan {

namespace {

const Plan* plan_named(const std::vector<Plan>& plans, const std::string& id) {
  const auto at =
      std::find_if(plans.begin(), plans.end(), [&id](const Plan& plan) { return plan.id() == id; });
  return at == plans.end() ? nullptr : &*at;
}

}  // namespace

Report report_of(const PlannedScenario& planned) {
  return {.question = planned.question,
          .answer = planned.answer,
          .options = planned.options,
          .arguments = planned.scenario.arguments,
          .details = planned.details};
}

std::vector<const Plan*> plans_in_order(const Report& report) {
  std::vector<const Plan*> plans;
  const std::vector<Plan>& all = report.answer.plans;
  if (report.comparison == nullptr) {
    for (const Plan& plan : all) plans.push_back(&plan);
    return plans;
  }
  for (const std::string& id : report.comparison->ids)
    if (const Plan* plan = plan_named(all, id)) plans.push_back(plan);
  return plans;
}

const Plan* baseline_of(const Plan& plan, const Report& report) {
  if (report.comparison == nullptr) return nullptr;
  const Comparison& comparison = *report.comparison;
  return comparison.saved ? plan_named(comparison.saved->plans, plan.id())
                          : plan_named(report.answer.plans, comparison.baseline);
}

const Plan& leading_plan(const Report& report) { return report.answer.plans.front(); }

Training training_of(const Plan& plan, const Report& report) {
  const Training& training = report.question.training;
  if (plan.training) return *plan.training;
  return plan.framework == training.framework ? training : with_framework(training, plan.framework);
}

Question question_of(const Plan& plan, const Report& report) {
  Question question = report.question;
  question.training = training_of(plan, report);
  return question;
}

Elements trainable_parameters(const Question& question) {
  return rank_model(question.model, question.training, 1).trainable;
}

}  // namespace zplan
