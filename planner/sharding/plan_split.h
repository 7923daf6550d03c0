#pragma once
// Tensor parallelism beside FSDP2, as transformers sets it up where it loads a model with a DistributedConfig: the
// architecture's tp_plan divides layers among tensor-parallel ranks as DTensors, then fully_shard divides each
// rank's part. Source: transformers 5.23 distributed/{mixin,tensor_parallel,fsdp}.py.

#include "planner/question/strategy.h"

namespace zplan {

/// True if the framework divides layers by transformers' tp_plan.
[[nodiscard]] bool splits_by_plan(const Training& training);
/// True if it does so under this strategy: transformers itself then shards the model as it loads it.
[[nodiscard]] bool follows_plan(const Training& training, const Strategy& strategy);
/// True if FSDP2's units are the layers, the embedding, and final norm with head, as accelerate and
/// transformers make them where they are measured with them (Training::fsdp_wraps_ends; absent: under context
/// and tensor parallelism).
[[nodiscard]] bool wraps_ends(const Training& training, const Strategy& strategy);

/// Returns how tensor-parallel ranks divide a tensor. tp_plan divides every token embedding among them by rows,
/// AutoTP a tied one alone. Source: transformers 5.23 distributed/mixin.py init_parallel_plans.
[[nodiscard]] TensorParallelSplit split_of(const Training& training, const Tensor& tensor);
/// Returns the elements of a tensor on rank `rank` of `ranks` that divide it as split_of says.
[[nodiscard]] Elements elements_on_rank(const Training& training, const Tensor& tensor, std::int64_t ranks,
                                        std::int64_t rank);

}  // namespace zplan
