#include "planner/plan/plan_figures.h"

#include "planner/plan/plan.h"
#include "planner/question/question.h"

namespace zplan {

const Training& training_of(const Plan& plan, const Question& q) {
  return plan.training ? *plan.training : q.training;
}

Bytes shortage(const Plan& plan, const Question& q) {
  return plan.memory.required - available(q.cluster, q.headroom);
}

Bytes host_shortage(const Plan& plan, const Question& q) {
  return plan.memory.host.total - available_on_host(q.cluster, q.headroom);
}

const MomentMemory* short_moment(const Plan& plan, const Question& q) {
  return short_moment(plan.moments, available(q.cluster, q.headroom),
                      available_on_host(q.cluster, q.headroom));
}

Comparable comparable_to(const Plan& plan, const Question& q) {
  return comparable(plan.framework, training_of(plan, q).method, q.cluster.gpu, plan.strategy);
}

}  // namespace zplan
