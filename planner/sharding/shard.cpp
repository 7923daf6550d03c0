#include "planner/sharding/shard.h"

#include <algorithm>

#include "planner/question/framework.h"
#include "planner/sharding/optimizer_state.h"

namespace zplan {

namespace {

Bytes total(const std::vector<Bytes>& blocks) {
  Bytes sum{};
  for (const Bytes block : blocks) sum += block;
  return sum;
}

}  // namespace

Bytes optimizer_states(const RankModel& model, const Training& training, Elements elements) {
  const OptimizerSpec& optimizer = spec(training.optimizer);
  if (optimizer.form == StateForm::moments) return elements * Bytes(4 * optimizer.moments);
  if (optimizer.form != StateForm::muon) return total(optimizer_state_blocks(training, elements, Bytes(4)));
  if (model.trainable.value == 0) return Bytes(0);
  // Matrices and the rest are sharded evenly: their proportion on a rank is the model's.
  const double matrices = ratio(model.trainable_matrices, model.trainable);
  return elements * Bytes(8) -
         Bytes(static_cast<std::int64_t>(4.0 * matrices * static_cast<double>(elements.value)));
}

Shard shard_by_rows(const RankModel& model, const Training& training, std::int64_t ranks) {
  Shard shard;
  for (const RankTensor& tensor : model.tensors)
    shard.parameters +=
        tensor.packed ? share(numbers_of(tensor), ranks) * tensor.number + (tensor.stored - tensor.values)
                      : fsdp_shard(tensor, ranks) * Bytes(tensor.stored.value / tensor.elements.value);
  for (const OptimizerTensor& tensor : tensors_by_rows(model, ranks)) {
    shard.optimizer_elements += tensor.elements;
    shard.moments += total(optimizer_state_blocks(training, tensor));
  }
  return shard;
}

Bytes held_states(const Shard& shard, const Strategy& strategy) {
  Bytes held{};
  if (strategy.offload_parameters == OffloadDevice::none) held += shard.parameters;
  if (strategy.offload_optimizer == OffloadDevice::none) held += shard.master_weights + shard.moments;
  return held;
}

Shard make_shard(const RankModel& model, const Training& training, const Strategy& s) {
  return spec(training.framework).shard(model, training, s);
}

SteadyState steady_state(const RankModel& model, const Training& training, const Strategy& s) {
  const std::int64_t n = s.layout.gradient_ranks();
  const Bytes weights = model.trainable * weight_size(training);
  // The papers' table: a dropped master copy is simply not there, and moments stay fp32.
  const bool master = training.master_weights && training.precision != Precision::fp32;
  const Bytes states =
      model.trainable * Bytes(master ? 4 : 0) + optimizer_states(model, training, model.trainable);
  // Scales of packed values are whole on every rank.
  Bytes scales{};
  for (const RankTensor& tensor : model.tensors)
    if (tensor.packed && shards_packed(training)) scales += tensor.stored - tensor.values;
  return {.parameters = share(weights + model.frozen_size - scales, s.zero_stage >= 3 ? n : 1) + scales,
          .gradients = share(weights, s.zero_stage >= 2 ? n : 1),
          .optimizer_states = share(states, s.zero_stage >= 1 ? n : 1)};
}

}  // namespace zplan
