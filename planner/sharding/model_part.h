#pragma once
// The part of a model that the ranks of one class hold.

#include <cstdint>

#include "planner/layout/rank_class.h"
#include "planner/question/strategy.h"

namespace zplan {

/// Layers `first` … `end` − 1 of a model.
struct LayerRange {
  std::int64_t first{}, end{};
};

/// Returns the layers of stage `stage` of `stages`: as many each, and one more for the first of them where
/// that leaves some over.
[[nodiscard]] LayerRange stage_layers(std::int64_t layers, std::int64_t stages, std::int64_t stage);

/// Returns `model` with the layers of the class' stage and the experts of its rank; the embedding is there on
/// the first stage, the final norm and the head on the last, which has a tied embedding too. `shape` stays
/// the whole model's. Layers that Megatron's full recompute computes again together are one layer.
[[nodiscard]] Model model_part(const Model& model, const Strategy& strategy, const RankClass& place);

}  // namespace zplan
