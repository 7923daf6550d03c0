#pragma once
// Gradients as DeepSpeed's engine handles them at every stage.

#include <vector>

#include "planner/simulation/rank_state.h"

namespace zplan {

/// EngineBucket holds whole trainable gradients that DeepSpeed's engine all-reduces together.
struct EngineBucket {
  Elements elements;
  int tensors{};
  Over over{1};
};
/// Returns the buckets in order. They close once they exceed 5e8 elements; experts' come behind the others'.
/// Source: DeepSpeed 0.19.8 runtime/engine.py buffered_allreduce_fallback, allreduce_no_retain.
[[nodiscard]] std::vector<EngineBucket> engine_buckets(const StepInputs& in);

/// Returns the bytes of one element of a gradient on its way.
[[nodiscard]] Bytes sent_gradient(const StepInputs& in);

/// Averages in fp32, over tensor-parallel ranks, the gradient of a parameter that all of them have, under
/// AutoTP with expert parallelism; does nothing elsewhere. Source: DeepSpeed 0.19.8
/// module_inject/auto_ep_folding.py reduce_autoep_folding_gradient.
void average_replicated(RankState& state, std::size_t tensor);

}  // namespace zplan
