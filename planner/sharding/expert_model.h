#pragma once
// The model of one rank of an expert-parallel group.

#include <cstdint>
#include <vector>

#include "planner/question/strategy.h"

namespace zplan {

/// `model` with its blocks of routed experts as DeepSpeed's AutoEP makes them: a router, w1, w2 and w3 of the
/// rank's own experts in a tensor each, then what every token passes. The same model where the strategy does
/// not ask for it. Shapes stay the whole model's. Source: DeepSpeed 0.19.8 module_inject/auto_ep_layer.py
/// AutoEPMoELayer.__init__, moe/ep_experts.py GroupedExperts.
[[nodiscard]] Model with_local_experts(const Model& model, const Strategy& strategy);

/// Rows that a rank sends and receives in a micro-step of one layer: token-expert pairs.
struct RoutedRows {
  std::int64_t sent{}, received{};
  bool operator==(const RoutedRows&) const = default;
};
/// Returns the rows of rank `expert_rank` of an expert-parallel group. Under AutoTP each tensor-parallel rank
/// sends its part of the pairs.
[[nodiscard]] RoutedRows routed_rows(const Model& model, const Training& training, const Strategy& strategy,
                                     std::int64_t expert_rank);
/// Returns the rows that any one rank sends, by the rank of the expert-parallel group that receives them.
[[nodiscard]] std::vector<std::int64_t> rows_to_each(const Model& model, const Training& training,
                                                     const Strategy& strategy);

}  // namespace zplan
