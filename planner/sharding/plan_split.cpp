#include "planner/sharding/plan_split.h"

#include "planner/question/framework.h"

namespace zplan {

// accelerate launches trainers whose models are transformers', which have plans.
bool splits_by_plan(const Training& training) { return spec(training.framework).reads_accelerate_config; }

bool follows_plan(const Training& training, const Strategy& strategy) {
  return splits_by_plan(training) && strategy.layout.tensor > 1;
}

bool wraps_ends(const Training& training, const Strategy& strategy) {
  return training.fsdp_wraps_ends.value_or(strategy.layout.context > 1 || follows_plan(training, strategy));
}

TensorParallelSplit split_of(const Training& training, const Tensor& tensor) {
  const bool by_plan = splits_by_plan(training) && tensor.role == TensorRole::token_embedding;
  return by_plan ? TensorParallelSplit::vocabulary : tensor.split;
}

Elements elements_on_rank(const Training& training, const Tensor& tensor, std::int64_t ranks,
                          std::int64_t rank) {
  if (split_of(training, tensor) == tensor.split) return elements_on_rank(tensor, ranks, rank);
  const std::int64_t rows = tensor.shape.front();
  return Elements(tensor.elements().value / rows * units_on_rank(rows, ranks, rank));
}

}  // namespace zplan
