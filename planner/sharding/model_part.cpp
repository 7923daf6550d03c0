#include "planner/sharding/model_part.h"

#include <algorithm>
#include <utility>

#include "planner/sharding/expert_model.h"
#include "planner/sharding/megatron_model.h"
#include "planner/sharding/torchtitan_model.h"

namespace zplan {

LayerRange stage_layers(std::int64_t layers, std::int64_t stages, std::int64_t stage) {
  const std::int64_t each = layers / stages, over = layers % stages;
  const std::int64_t first = stage * each + std::min(stage, over);
  return {first, first + each + (stage < over ? 1 : 0)};
}

std::vector<LayerRange> chunk_layers(std::int64_t layers, const Strategy& strategy, std::int64_t stage) {
  const ParallelLayout& layout = strategy.layout;
  if (layout.pipeline == 1) return {{0, layers}};
  if (!strategy.megatron && !strategy.torchtitan) return {stage_layers(layers, layout.pipeline, stage)};
  std::vector<LayerRange> all;
  for (std::int64_t i = 0; i < layout.virtual_stages; ++i)
    all.push_back(strategy.megatron ? megatron_layers(layers, layout, stage, i, *strategy.megatron)
                                    : torchtitan_layers(layers, layout, stage, i, *strategy.torchtitan));
  return all;
}

namespace {

/// Returns how many layers of the model are one of the tape's: Megatron's full recompute computes some
/// together.
std::int64_t layers_together(const Strategy& strategy) {
  return strategy.megatron ? grouped_layers(*strategy.megatron) : 1;
}

/// Leaves the layers of `chunks`, of which each `together` that follow each other become one; the last of a
/// chunk may have fewer.
void keep_layers(Inventory& inventory, const std::vector<LayerRange>& chunks, std::int64_t together) {
  const std::vector<LayerKind> kinds = inventory.kinds;
  const std::vector<std::size_t> layers = std::exchange(inventory.layers, {});
  if (together > 1) inventory.kinds.clear();
  for (const LayerRange& chunk : chunks)
    for (std::int64_t first = chunk.first; first < chunk.end; first += together) {
      if (together == 1) {
        inventory.layers.push_back(layers[static_cast<std::size_t>(first)]);
        continue;
      }
      LayerKind group;
      for (std::int64_t i = first; i < std::min(chunk.end, first + together); ++i) {
        const LayerKind& each = kinds[layers[static_cast<std::size_t>(i)]];
        group.name = each.name;
        group.tensors.insert(group.tensors.end(), each.tensors.begin(), each.tensors.end());
      }
      auto at = std::ranges::find(inventory.kinds, group);
      if (at == inventory.kinds.end()) at = inventory.kinds.insert(at, std::move(group));
      inventory.layers.push_back(static_cast<std::size_t>(at - inventory.kinds.begin()));
    }
}

/// Returns the tape's layers of each chunk.
std::vector<std::int64_t> chunk_sizes(const Model& part, const Strategy& strategy, std::int64_t stage) {
  std::vector<std::int64_t> sizes;
  for (const LayerRange& each : chunk_layers(part.shape.layers, strategy, stage))
    sizes.push_back(divide_up(each.end - each.first, layers_together(strategy)));
  return sizes;
}

/// The chunks of a stage that hold what stands in front of all layers and what stands behind them. A stage
/// has both where its chunks form a V.
struct EndChunks {
  std::size_t before{}, after{};
};
EndChunks end_chunks(const Strategy& strategy, const RankClass& place) {
  const auto last = static_cast<std::size_t>(strategy.layout.virtual_stages - 1);
  if (place.stage > 0) return {last, last};
  return {0, stage_of_end(strategy) == 0 ? last : 0};
}

}  // namespace

std::int64_t part_of_stage(const Strategy& strategy, std::int64_t stage, std::int64_t chunk) {
  return strategy.torchtitan ? part_of_chunk(*strategy.torchtitan, strategy.layout, stage, chunk)
                             : chunk * strategy.layout.pipeline + stage;
}

std::int64_t stage_of_end(const Strategy& strategy) {
  const ParallelLayout& layout = strategy.layout;
  const bool is_v =
      strategy.torchtitan && layout.virtual_stages > 1 && is_v_shaped(strategy.torchtitan->schedule);
  return is_v ? 0 : layout.pipeline - 1;
}

Model model_part(const Model& model, const Strategy& strategy, const RankClass& place) {
  Model part = strategy.megatron     ? megatron_model(model, strategy.layout, strategy.megatron->predictions)
               : strategy.torchtitan ? torchtitan_model(model, strategy.layout)
                                     : with_local_experts(model, strategy);
  if (strategy.megatron && model.teacher)
    part.teacher = std::make_shared<Model>(model_part(*model.teacher, strategy, place));
  const std::int64_t stages = strategy.layout.pipeline;
  Inventory& inventory = part.inventory;
  keep_layers(inventory, chunk_layers(std::ssize(inventory.layers), strategy, place.stage),
              layers_together(strategy));
  if (stages == 1) return part;
  const bool is_first = place.stage == 0, is_last = place.stage == stage_of_end(strategy);
  if (!is_last) inventory.after.clear();
  if (!is_first)
    std::erase_if(inventory.before, [&](const Tensor& each) {
      return !is_last || !model.shape.tied_embeddings || each.role != TensorRole::token_embedding;
    });
  return part;
}

std::vector<Model> chunk_models(const Model& part, const Strategy& strategy, const RankClass& place) {
  std::vector<Model> models;
  const EndChunks ends = end_chunks(strategy, place);
  auto next = part.inventory.layers.begin();
  for (const std::int64_t size : chunk_sizes(part, strategy, place.stage)) {
    Inventory& inventory = models.emplace_back(part).inventory;
    inventory.layers = {next, next + size};
    next += size;
    if (models.size() - 1 != ends.before) inventory.before.clear();
    if (models.size() - 1 != ends.after) inventory.after.clear();
  }
  return models;
}

RankModel rank_model(const Model& part, const Training& training, const Strategy& strategy,
                     const RankClass& place) {
  RankModel made = rank_model(part, training, strategy.layout.tensor, place.tensor);
  if (strategy.layout.virtual_stages == 1) return made;
  std::vector<std::int64_t> ends;  // of each chunk's layers among the rank's
  for (const std::int64_t size : chunk_sizes(part, strategy, place.stage))
    ends.push_back((ends.empty() ? 0 : ends.back()) + size);
  const auto [before, after] = end_chunks(strategy, place);
  for (RankTensor& each : made.tensors)
    each.chunk = each.layer >= 0
                     ? static_cast<std::size_t>(std::ranges::upper_bound(ends, each.layer) - ends.begin())
                 : each.role == TensorRole::token_embedding ? before
                                                            : after;
  return made;
}

}  // namespace zplan
