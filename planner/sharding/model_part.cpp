#include "planner/sharding/model_part.h"

#include <algorithm>

#include "planner/sharding/expert_model.h"
#include "planner/sharding/megatron_model.h"

namespace zplan {

LayerRange stage_layers(std::int64_t layers, std::int64_t stages, std::int64_t stage) {
  const std::int64_t each = layers / stages, over = layers % stages;
  const std::int64_t first = stage * each + std::min(stage, over);
  return {first, first + each + (stage < over ? 1 : 0)};
}

Model model_part(const Model& model, const Strategy& strategy, const RankClass& place) {
  Model part =
      strategy.megatron ? megatron_model(model, strategy.layout.tensor) : with_local_experts(model, strategy);
  const std::int64_t stages = strategy.layout.pipeline;
  if (stages == 1) return part;
  Inventory& inventory = part.inventory;
  const std::int64_t layers = std::ssize(inventory.layers);
  const LayerRange own = strategy.megatron
                             ? megatron_stage_layers(layers, stages, place.stage, *strategy.megatron)
                             : stage_layers(layers, stages, place.stage);
  inventory.layers = {inventory.layers.begin() + own.first, inventory.layers.begin() + own.end};
  const bool is_first = place.stage == 0, is_last = place.stage + 1 == stages;
  if (!is_last) inventory.after.clear();
  if (!is_first)
    std::erase_if(inventory.before, [&](const Tensor& each) {
      return !is_last || !model.shape.tied_embeddings || each.role != TensorRole::token_embedding;
    });
  return part;
}

}  // namespace zplan
