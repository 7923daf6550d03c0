#include "planner/frameworks/deepspeed/sharding.h"

#include <algorithm>

#include "planner/frameworks/deepspeed/rules.h"

namespace zplan {

namespace {

/// The optimizer's copy of the weights it updates. Even an fp32 model gets one of its own slice or shard at
/// ZeRO 1 to 3: the optimizer works on it, not on the flat parameters.
Bytes master_copy(Elements elements, const Training& training, const Strategy& s) {
  return elements * (training.precision == Precision::fp32 ? Bytes(4) : master_size(training, s));
}

/// States as this strategy stores them: bf16_optimizer_states halves what is fp32 otherwise.
Bytes stored_states(const RankModel& model, const Training& training, const Strategy& s, Elements elements) {
  const Bytes states = optimizer_states(model, training, elements);
  const bool halved = drops_master(training, s) && training.precision == Precision::bf16 &&
                      spec(training.optimizer).form != StateForm::packed;
  return halved ? share(states, 2) : states;
}

Shard replicated_shard(const RankModel& model, const Training& training, const Strategy& s) {
  return {.optimizer_elements = model.trainable,
          .parameters = model.trainable * weight_size(training) + model.frozen_size,
          .persistent_parameters = {},
          .master_weights = model.trainable * master_size(training, s),
          .moments = optimizer_states(model, training, model.trainable),
          .gradients = {},
          .bucket = {}};
}

Shard zero12_shard(const RankModel& model, const Training& training, const Strategy& s) {
  const Elements slice = zero12_slice(model, training, s);
  Shard shard;
  shard.optimizer_elements = slice;
  shard.parameters = slice * s.layout.gradient_ranks() * weight_size(training) + model.frozen_size;
  shard.master_weights = master_copy(slice, training, s);
  shard.moments = stored_states(model, training, s, slice);
  if (uses_bf16_optimizer(training, s)) shard.gradients = slice * s.layout.gradient_ranks() * Bytes(4);
  return shard;
}

/// Of packed weights: a rank's part of their values, and all that scales them.
Bytes packed_shards(const RankModel& model, std::int64_t ranks) {
  Bytes sum{};
  for (const RankTensor& tensor : model.tensors)
    if (tensor.packed)
      sum += share(numbers_of(tensor), ranks) * tensor.number + (tensor.stored - tensor.values);
  return sum;
}

Shard zero3_full_shard(const RankModel& model, const Training& training, const Strategy& s) {
  const Elements trained = zero3_shard(model, s.layout.gradient_ranks(), true);
  const Elements frozen = zero3_shard(model, s.layout.gradient_ranks(), false);
  const Bytes gradient_size = s.zero.fp32_gradient_accumulation ? Bytes(4) : weight_size(training);
  Shard shard;
  shard.optimizer_elements = trained;
  shard.parameters =
      (trained + frozen) * weight_size(training) + packed_shards(model, s.layout.gradient_ranks());
  shard.persistent_parameters = persistent_parameters(model, s) * weight_size(training);
  shard.master_weights = master_copy(trained, training, s);
  shard.moments = stored_states(model, training, s, trained);
  shard.gradients = trained * gradient_size;
  shard.bucket = gradient_bucket(training, s);
  return shard;
}

std::vector<OptimizerTensor> flat_groups(const RankModel& model, const Training& training,
                                         const Strategy& strategy, Bytes element) {
  if (strategy.zero_stage < 3)
    return {{.elements = zero12_slice(model, training, strategy), .element = element}};
  std::vector<OptimizerTensor> groups;
  for (const Elements each : sub_groups(model, strategy))
    groups.push_back({.elements = each, .element = element});
  return groups;
}

}  // namespace

Elements flat_start(Elements end, const Training& training, const Strategy& s) {
  return s.zero.parameter_alignment ? round_up(end, 16 / weight_size(training).value) : end;
}

Bytes gradient_bucket(const Training& training, const Strategy& s) {
  if (s.zero_stage == 0 || uses_bf16_optimizer(training, s)) return {};
  const std::int64_t buffers = s.zero_stage < 3 && s.overlaps_communication() ? 2 : 1;
  // Stage 3's is of the type that travels (DeepSpeed 0.19.8 stage3.py _setup_for_real_optimizer).
  const bool fp32 = s.zero_stage == 3
                        ? sent_gradient_type(training, s) == Precision::fp32
                        : accumulates_whole_fp32(training, s) || weight_size(training) == Bytes(4);
  const Bytes each(fp32 ? 4 : 2);
  return s.zero.reduce_bucket_size * each * buffers;
}

Elements zero12_slice(const RankModel& model, const Training& training, const Strategy& s) {
  Elements flat{};
  for (const RankTensor& tensor : model.tensors)
    if (tensor.trainable) flat = flat_start(flat, training, s) + tensor.elements;
  return share(round_up(flat, 2 * s.layout.gradient_ranks()), s.layout.gradient_ranks());
}

std::vector<Slice> slices(const RankModel& model, const Training& training, const Strategy& s) {
  const Elements size = zero12_slice(model, training, s);
  std::vector<Slice> all(static_cast<std::size_t>(s.layout.gradient_ranks()), Slice{size, {}, {}, 0});
  for (std::size_t i = 0; i < all.size(); ++i) all[i].rank = static_cast<std::int64_t>(i);
  if (size.value == 0) return all;
  std::size_t rank = 0;
  Elements start{};
  for (const RankTensor& tensor : model.tensors) {
    if (!tensor.trainable) continue;
    // Padding before a parameter is too small to matter to what a slice holds, but not to where the next one
    // lies.
    const Elements end = flat_start(start, training, s) + tensor.elements;
    while (start < end) {
      const Elements slice_end = size * static_cast<std::int64_t>(rank + 1);
      const Elements piece = std::min(end, slice_end) - start;
      all[rank].touching += tensor.elements;
      all[rank].largest = std::max(all[rank].largest, piece);
      start += piece;
      if (start == slice_end && rank + 1 < all.size()) ++rank;
    }
  }
  return all;
}

Slice worst_slice(const RankModel& model, const Training& training, const Strategy& s) {
  Slice worst{zero12_slice(model, training, s), {}, {}, 0};
  for (const Slice& each : slices(model, training, s)) {
    if (each.touching > worst.touching) worst.touching = each.touching, worst.rank = each.rank;
    worst.largest = std::max(worst.largest, each.largest);
  }
  return worst;
}

Elements zero3_shard(const RankModel& model, std::int64_t data_parallel, bool trainable) {
  Elements sum{};
  for (const RankTensor& tensor : model.tensors)
    if (tensor.trainable == trainable && !tensor.packed) sum += share(tensor.elements, data_parallel);
  return sum;
}

Elements persistent_parameters(const RankModel& model, const Strategy& s) {
  Elements sum{};
  for (const RankTensor& tensor : model.tensors)
    if (!tensor.packed && tensor.elements <= s.zero.persistence_threshold)
      sum += share(tensor.elements, s.layout.gradient_ranks()) * s.layout.gradient_ranks();
  return sum;
}

std::vector<Elements> sub_groups(const RankModel& model, const Strategy& s) {
  std::vector<Elements> groups;
  Elements open{};
  for (const RankTensor& tensor : model.tensors) {
    if (!tensor.trainable) continue;
    open += share(tensor.elements, s.layout.gradient_ranks());
    if (open >= s.zero.sub_group_size) groups.push_back(open), open = {};
  }
  if (open.value > 0) groups.push_back(open);
  return groups;
}

Elements swap_buffer_size(const RankModel& model, const Strategy& s) {
  return std::max(Elements(100'000'000), share(model.largest_tensor, s.layout.gradient_ranks()));
}

Elements largest_sub_group(const RankModel& model, const Strategy& s) {
  const std::vector<Elements> groups = sub_groups(model, s);
  return groups.empty() ? Elements{} : *std::max_element(groups.begin(), groups.end());
}

Shard deepspeed_shard(const RankModel& model, const Training& training, const Strategy& s) {
  if (s.zero_stage == 0) return replicated_shard(model, training, s);
  return s.zero_stage < 3 ? zero12_shard(model, training, s) : zero3_full_shard(model, training, s);
}

std::vector<OptimizerTensor> deepspeed_optimizer_tensors(const RankModel& model, const Training& training,
                                                         const Strategy& s) {
  const Bytes master(training.precision == Precision::fp32 ? 4 : master_size(training, s).value);
  if (s.zero_stage > 0) return flat_groups(model, training, s, master);
  if (flattens_replicated(training)) return {{.elements = model.trainable, .element = master}};
  return tensors_by_rows(model, 1, master);
}

}  // namespace zplan
