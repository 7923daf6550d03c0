#include "cli/report.h"

#include <algorithm>

#include "planner/sharding/rank_model.h"

namespace zplan {

std::vector<const Plan*> plans_in_order(const Report& report) {
  std::vector<const Plan*> plans;
  const std::vector<Plan>& all = report.answer.plans;
  if (report.order.empty())
    for (const Plan& plan : all) plans.push_back(&plan);
  for (const std::string& id : report.order) {
    const auto at = std::find_if(all.begin(), all.end(), [&id](const Plan& plan) { return plan.id() == id; });
    if (at != all.end()) plans.push_back(&*at);
  }
  return plans;
}

const Plan& leading_plan(const Report& report) { return report.answer.plans.front(); }

Question question_of(const Plan& plan, const Report& report) {
  Question question = report.question;
  if (plan.framework != question.training.framework)
    question.training = with_framework(question.training, plan.framework);
  return question;
}

Elements trainable_parameters(const Question& question) {
  return rank_model(question.model, question.training, 1).trainable;
}

}  // namespace zplan
