#include "planner/search/answer_details.h"

#include <fmt/format.h>

#include <numeric>

#include "models/base/format.h"
#include "planner/plan/plan_context.h"
#include "planner/plan/plan_figures.h"
#include "planner/question/framework.h"
#include "planner/search/search.h"
#include "planner/sharding/expert_model.h"

namespace zplan {

namespace {

constexpr double kAlike = 0.02;  ///< of the speed: no more than times are off by

/// Over the GPUs of a node, which are fast to reach, and over all.
std::vector<std::int64_t> degrees(const Question& q, std::int64_t experts) {
  std::vector<std::int64_t> found;
  for (const std::int64_t gpus : {q.cluster.gpus_per_node, q.cluster.gpus})
    if (const std::int64_t degree = std::gcd(gpus, experts);
        degree > 1 && (found.empty() || degree > found.back()))
      found.push_back(degree);
  return found;
}

std::string beside(const Plan& divided, const Plan& taken, Framework framework) {
  const double speed = divided.time.tokens_per_second / taken.time.tokens_per_second;
  const std::string other = plan_id(framework, taken.strategy);
  if (speed > 1 + kAlike) return fmt::format("{:.2f} times as fast as {}", speed, other);
  if (speed > 1 - kAlike) return fmt::format("as fast as {}", other);
  return fmt::format("{} is {:.2f} times as fast", other, 1 / speed);
}

}  // namespace

IssuedStep issued_step(const Question& question, const Plan& plan) {
  const Training& training = training_of(plan, question);
  PlanContext context(question.model, question.cluster, training, question.headroom);
  IssuedStep issued{.calls = context.calls(plan.strategy), .rows_to_each = {}};
  if (plan.strategy.layout.expert > 1)
    issued.rows_to_each = rows_to_each(question.model, training, plan.strategy);
  return issued;
}

std::optional<std::string> weigh_experts(const Question& question, const Answer& answer) {
  const std::optional<MixtureOfExperts>& experts = question.model.shape.experts;
  const SearchSpace& space = question.space;
  if (!experts || !spec(question.training.framework).divides_experts || question.cluster.gpus == 1 ||
      !space.expert_parallel.empty() || space.experts.enabled)
    return std::nullopt;
  Question divided = question;
  divided.space.expert_parallel = degrees(question, experts->experts);
  if (divided.space.expert_parallel.empty())
    return fmt::format(
        "{} GPUs and {} experts have no divisor in common: experts can be sharded (ZeRO-3), not divided "
        "(--ep)",
        question.cluster.gpus, experts->experts);
  if (space.tensor_parallel.empty()) divided.space.tensor_parallel = {1};
  if (const Candidates found = candidates(divided); found.legal.empty())
    return fmt::format("not with --ep {}: {}", divided.space.expert_parallel.front(),
                       found.rejected.front().reasons.front());
  const Answer other = draft_answer(divided);
  const Plan& best = other.plans.front();
  const std::string need = fmt::format("--ep {}: {} needs {} per GPU", best.strategy.layout.expert, best.id(),
                                       format_bytes(best.memory().required, question.unit));
  if (!best.fits) return need + ", which does not fit";
  const std::string step = fmt::format("{} and takes {} a step", need, format_seconds(best.time.step));
  const Plan* taken = answer.recommended();
  if (taken == nullptr) return step;
  return fmt::format("{}: {}; times of expert parallelism are not validated", step,
                     beside(best, *taken, question.training.framework));
}

}  // namespace zplan
