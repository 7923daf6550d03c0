#include "planner/sharding/model_part.h"

#include <algorithm>
#include <utility>

#include "planner/sharding/expert_model.h"
#include "planner/sharding/megatron_model.h"

namespace zplan {

LayerRange stage_layers(std::int64_t layers, std::int64_t stages, std::int64_t stage) {
  const std::int64_t each = layers / stages, over = layers % stages;
  const std::int64_t first = stage * each + std::min(stage, over);
  return {first, first + each + (stage < over ? 1 : 0)};
}

namespace {

/// Makes one layer of each `together` that follow each other; the last may have fewer.
void group_layers(Inventory& inventory, std::int64_t together) {
  if (together == 1) return;
  const std::vector<LayerKind> kinds = std::exchange(inventory.kinds, {});
  const std::vector<std::size_t> layers = std::exchange(inventory.layers, {});
  for (std::size_t first = 0; first < layers.size(); first += static_cast<std::size_t>(together)) {
    LayerKind group;
    const std::size_t end = std::min(layers.size(), first + static_cast<std::size_t>(together));
    for (std::size_t i = first; i < end; ++i) {
      const LayerKind& each = kinds[layers[i]];
      group.name = each.name;
      group.tensors.insert(group.tensors.end(), each.tensors.begin(), each.tensors.end());
    }
    auto at = std::ranges::find(inventory.kinds, group);
    if (at == inventory.kinds.end()) at = inventory.kinds.insert(at, std::move(group));
    inventory.layers.push_back(static_cast<std::size_t>(at - inventory.kinds.begin()));
  }
}

}  // namespace

Model model_part(const Model& model, const Strategy& strategy, const RankClass& place) {
  Model part = strategy.megatron ? megatron_model(model, strategy.layout, strategy.megatron->predictions)
                                 : with_local_experts(model, strategy);
  const std::int64_t stages = strategy.layout.pipeline;
  const std::int64_t together = strategy.megatron ? grouped_layers(*strategy.megatron) : 1;
  Inventory& inventory = part.inventory;
  if (stages == 1) {
    group_layers(inventory, together);
    return part;
  }
  const std::int64_t layers = std::ssize(inventory.layers);
  const LayerRange own = strategy.megatron
                             ? megatron_stage_layers(layers, stages, place.stage, *strategy.megatron)
                             : stage_layers(layers, stages, place.stage);
  inventory.layers = {inventory.layers.begin() + own.first, inventory.layers.begin() + own.end};
  group_layers(inventory, together);
  const bool is_first = place.stage == 0, is_last = place.stage + 1 == stages;
  if (!is_last) inventory.after.clear();
  if (!is_first)
    std::erase_if(inventory.before, [&](const Tensor& each) {
      return !is_last || !model.shape.tied_embeddings || each.role != TensorRole::token_embedding;
    });
  return part;
}

}  // namespace zplan
