#include "planner/sharding/shard.h"

#include <algorithm>

#include "planner/sharding/optimizer_state.h"

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
                      !packed_optimizer(training.optimizer);
  return halved ? share(states, 2) : states;
}

Bytes total(const std::vector<Bytes>& blocks) {
  Bytes sum{};
  for (const Bytes block : blocks) sum += block;
  return sum;
}

/// Plain PyTorch holds everything; FSDP a part of every parameter, which the optimizer works on.
Shard torch_shard(const RankModel& model, const Training& training, const Strategy& s) {
  const std::int64_t ranks = training.framework == Framework::fsdp ? s.sharding_ranks() : 1;
  Shard shard;
  for (const RankTensor& tensor : model.tensors)
    shard.parameters += tensor.packed
                            ? tensor.stored
                            : fsdp_shard(tensor, ranks) * Bytes(tensor.stored.value / tensor.elements.value);
  for (const OptimizerTensor& tensor : optimizer_tensors(model, training, s)) {
    shard.optimizer_elements += tensor.elements;
    shard.moments += total(optimizer_state_blocks(training, tensor));
  }
  return shard;
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
  shard.parameters = slice * s.data_parallel * weight_size(training) + model.frozen_size;
  shard.master_weights = master_copy(slice, training, s);
  shard.moments = stored_states(model, training, s, slice);
  if (uses_bf16_optimizer(training, s)) shard.gradients = slice * s.data_parallel * Bytes(4);
  return shard;
}

Shard zero3_full_shard(const RankModel& model, const Training& training, const Strategy& s) {
  const Elements trained = zero3_shard(model, s.data_parallel, true);
  const Elements frozen = zero3_shard(model, s.data_parallel, false);
  const Bytes gradient_size = s.zero.fp32_gradient_accumulation ? Bytes(4) : weight_size(training);
  Shard shard;
  shard.optimizer_elements = trained;
  shard.parameters = (trained + frozen) * weight_size(training);
  shard.persistent_parameters = persistent_parameters(model, s) * weight_size(training);
  shard.master_weights = master_copy(trained, training, s);
  shard.moments = stored_states(model, training, s, trained);
  shard.gradients = trained * gradient_size;
  shard.bucket = gradient_bucket(training, s);
  return shard;
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
  return share(round_up(flat, 2 * s.data_parallel), s.data_parallel);
}

std::vector<Slice> slices(const RankModel& model, const Training& training, const Strategy& s) {
  const Elements size = zero12_slice(model, training, s);
  std::vector<Slice> all(static_cast<std::size_t>(s.data_parallel), Slice{size, {}, {}, 0});
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
    if (tensor.trainable == trainable) sum += share(tensor.elements, data_parallel);
  return sum;
}

Elements persistent_parameters(const RankModel& model, const Strategy& s) {
  Elements sum{};
  for (const RankTensor& tensor : model.tensors)
    if (tensor.elements <= s.zero.persistence_threshold)
      sum += share(tensor.elements, s.data_parallel) * s.data_parallel;
  return sum;
}

std::vector<Elements> sub_groups(const RankModel& model, const Strategy& s) {
  std::vector<Elements> groups;
  Elements open{};
  for (const RankTensor& tensor : model.tensors) {
    if (!tensor.trainable) continue;
    open += share(tensor.elements, s.data_parallel);
    if (open >= s.zero.sub_group_size) groups.push_back(open), open = {};
  }
  if (open.value > 0) groups.push_back(open);
  return groups;
}

Elements swap_buffer_size(const RankModel& model, const Strategy& s) {
  return std::max(Elements(100'000'000), share(model.largest_tensor, s.data_parallel));
}

Elements largest_sub_group(const RankModel& model, const Strategy& s) {
  const std::vector<Elements> groups = sub_groups(model, s);
  return groups.empty() ? Elements{} : *std::max_element(groups.begin(), groups.end());
}

Bytes optimizer_states(const RankModel& model, const Training& training, Elements elements) {
  switch (training.optimizer) {
    case Optimizer::adamw: return elements * Bytes(8);
    case Optimizer::sgd: return Bytes(0);
    case Optimizer::muon: {
      if (model.trainable.value == 0) return Bytes(0);
      // Matrices and the rest are sharded evenly: their proportion on a rank is the model's.
      const double matrices = ratio(model.trainable_matrices, model.trainable);
      return elements * Bytes(8) -
             Bytes(static_cast<std::int64_t>(4.0 * matrices * static_cast<double>(elements.value)));
    }
    default: return total(optimizer_state_blocks(training, elements, Bytes(4)));
  }
}

Shard make_shard(const RankModel& model, const Training& training, const Strategy& s) {
  if (training.framework != Framework::deepspeed) return torch_shard(model, training, s);
  if (s.zero_stage == 0) return replicated_shard(model, training, s);
  return s.zero_stage < 3 ? zero12_shard(model, training, s) : zero3_full_shard(model, training, s);
}

SteadyState steady_state(const RankModel& model, const Training& training, const Strategy& s) {
  const std::int64_t n = s.data_parallel;
  const Bytes weights = model.trainable * weight_size(training);
  // The papers' table: a dropped master copy is simply not there, and moments stay fp32.
  const bool master = training.master_weights && training.precision != Precision::fp32;
  const Bytes states =
      model.trainable * Bytes(master ? 4 : 0) + optimizer_states(model, training, model.trainable);
  return {.parameters = share(weights + model.frozen_size, s.zero_stage >= 3 ? n : 1),
          .gradients = share(weights, s.zero_stage >= 2 ? n : 1),
          .optimizer_states = share(states, s.zero_stage >= 1 ? n : 1)};
}

}  // namespace zplan
