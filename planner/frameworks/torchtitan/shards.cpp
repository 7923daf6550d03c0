#include "planner/frameworks/torchtitan/shards.h"

namespace zplan::titan {

std::int64_t shard_ranks(const RankTensor& tensor, const ParallelLayout& layout) {
  if (tensor.role != TensorRole::expert) return layout.shard_ranks();
  return layout.shard_ranks() * (divides_experts(layout) ? layout.tensor : 1) / layout.expert;
}

// Without expert parallelism torchtitan counts all ranks of the mesh that holds parameters, copies and
// tensor-parallel ranks, too.
bool shards_widths(const RankTensor& tensor, const ParallelLayout& layout) {
  if (tensor.role != TensorRole::expert) return false;
  const std::int64_t ranks =
      divides_experts(layout) ? shard_ranks(tensor, layout) : layout.world() / layout.pipeline;
  return ranks > tensor.copies;
}

Elements shard_of(const RankTensor& tensor, const ParallelLayout& layout) {
  const std::int64_t ranks = shard_ranks(tensor, layout);
  return shards_widths(tensor, layout) ? share(tensor.elements, ranks) : fsdp_shard(tensor, ranks);
}

std::vector<OptimizerTensor> optimized_shards(const RankModel& model, const Strategy& strategy) {
  const ParallelLayout& layout = strategy.layout;
  const bool skips_norm = strategy.torchtitan && skips_final_norm(*strategy.torchtitan, layout);
  const auto has_gradient = [&](const RankTensor& each) {
    return each.trainable && !(skips_norm && each.layer < 0 && each.role == TensorRole::norm);
  };
  std::vector<OptimizerTensor> all;
  for (const RankTensor& each : model.tensors)
    if (has_gradient(each))
      all.push_back({.elements = shard_of(each, layout),
                     .element = Bytes(each.stored.value / each.elements.value),
                     .rows = each.rows,
                     .columns = each.columns});
  return all;
}

Shard held_shard(const RankModel& model, const Training& training, const Strategy& strategy) {
  Shard shard;
  for (const RankTensor& each : model.tensors)
    shard.parameters += shard_of(each, strategy.layout) * Bytes(each.stored.value / each.elements.value);
  for (const OptimizerTensor& each : optimized_shards(model, strategy)) {
    shard.optimizer_elements += each.elements;
    for (const Bytes block : optimizer_state_blocks(training, each)) shard.moments += block;
  }
  return shard;
}

}  // namespace zplan::titan
