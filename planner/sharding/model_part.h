#pragma once
// The part of a model that the ranks of one class hold.

#include <cstdint>
#include <vector>

#include "planner/layout/rank_class.h"
#include "planner/question/strategy.h"
#include "planner/sharding/rank_model.h"

namespace zplan {

/// Layers `first` … `end` − 1 of a model.
struct LayerRange {
  std::int64_t first{}, end{};
};

/// Returns the layers of stage `stage` of `stages`: as many each, and one more for the first of them where
/// that leaves some over.
[[nodiscard]] LayerRange stage_layers(std::int64_t layers, std::int64_t stages, std::int64_t stage);

/// Returns the layers of each chunk that stage `stage` holds, in the order of the model; one where the layout
/// has no virtual stages.
[[nodiscard]] std::vector<LayerRange> chunk_layers(std::int64_t layers, const Strategy& strategy,
                                                   std::int64_t stage);

/// Returns the part of the model that chunk `chunk` of stage `stage` is, of as many parts as all stages have
/// chunks.
[[nodiscard]] std::int64_t part_of_stage(const Strategy& strategy, std::int64_t stage, std::int64_t chunk);

/// Returns the stage that holds the final norm and the head: the last, but for stages whose chunks form a V.
[[nodiscard]] std::int64_t stage_of_end(const Strategy& strategy);

/// Returns `model` with the layers of the class' stage and the experts of its rank; the embedding is there on
/// the first stage, the final norm and the head on stage_of_end(), which has a tied embedding too. `shape`
/// stays the whole model's. Layers that Megatron's full recompute computes again together are one layer.
[[nodiscard]] Model model_part(const Model& model, const Strategy& strategy, const RankClass& place);

/// Returns a model of each chunk of `part`, the part that ranks of class `place` hold.
[[nodiscard]] std::vector<Model> chunk_models(const Model& part, const Strategy& strategy,
                                              const RankClass& place);

/// Returns the tensors of `part` on ranks of class `place`, with the chunk of each.
[[nodiscard]] RankModel rank_model(const Model& part, const Training& training, const Strategy& strategy,
                                   const RankClass& place);

}  // namespace zplan
