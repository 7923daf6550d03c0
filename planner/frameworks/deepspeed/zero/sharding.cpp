#include "planner/frameworks/deepspeed/zero/sharding.h"

#include <algorithm>

#include "planner/frameworks/deepspeed/zero/rules.h"

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

/// Elements of the flat groups, padding included, and of this rank's slices of them.
struct FlatGroups {
  Elements whole, slice;
};
FlatGroups flat_groups(const RankModel& model, const Training& training, const Strategy& s) {
  FlatGroups sum{};
  for (const OptimizerGroup& group : optimizer_groups(model, training, s)) {
    const Elements slice = zero12_slice(model, group, training, s);
    sum.slice += slice;
    sum.whole += slice * ranks_of(group.sharing, training, s);
  }
  return sum;
}

Shard zero12_shard(const RankModel& model, const Training& training, const Strategy& s) {
  const auto [whole, slice] = flat_groups(model, training, s);
  Shard shard;
  shard.optimizer_elements = slice;
  shard.parameters = whole * weight_size(training) + model.frozen_size;
  shard.master_weights = master_copy(slice, training, s);
  shard.moments = stored_states(model, training, s, slice);
  if (uses_bf16_optimizer(training, s)) shard.gradients = whole * Bytes(4);
  return shard;
}

/// Returns a rank's bytes of packed weights: its part of their values, and all of their scales.
Bytes packed_shards(const RankModel& model, std::int64_t ranks) {
  Bytes sum{};
  for (const RankTensor& tensor : model.tensors)
    if (tensor.packed)
      sum += share(numbers_of(tensor), ranks) * tensor.number + (tensor.stored - tensor.values);
  return sum;
}

Shard zero3_full_shard(const RankModel& model, const Training& training, const Strategy& s) {
  const Elements trained = zero3_shard(model, training, s, true);
  const Elements frozen = zero3_shard(model, training, s, false);
  const Bytes gradient_size = s.zero.fp32_gradient_accumulation ? Bytes(4) : weight_size(training);
  Shard shard;
  shard.optimizer_elements = trained;
  shard.parameters =
      (trained + frozen) * weight_size(training) + packed_shards(model, s.layout.gradient_ranks());
  shard.persistent_parameters = persistent_parameters(model, training, s) * weight_size(training);
  shard.master_weights = master_copy(trained, training, s);
  shard.moments = stored_states(model, training, s, trained);
  shard.gradients = trained * gradient_size;
  shard.bucket = gradient_bucket(training, s);
  return shard;
}

std::vector<OptimizerTensor> flat_tensors(const RankModel& model, const Training& training,
                                          const Strategy& strategy, Bytes element) {
  std::vector<OptimizerTensor> tensors;
  if (strategy.zero_stage < 3) {
    for (const OptimizerGroup& group : optimizer_groups(model, training, strategy))
      tensors.push_back({.elements = zero12_slice(model, group, training, strategy), .element = element});
    return tensors;
  }
  for (const SubGroup& each : sub_groups(model, training, strategy))
    tensors.push_back({.elements = each.elements, .element = element});
  return tensors;
}

}  // namespace

Sharing sharing_of(const RankTensor& tensor, const Training& training, const Strategy& s) {
  if (!s.experts.enabled) return Sharing::dense;
  if (tensor.role == TensorRole::expert) return Sharing::experts;
  const bool apart = s.zero_stage == 3 && !training.partitions_made_models;
  return apart && (tensor.role == TensorRole::router || tensor.divided) ? Sharing::remade : Sharing::dense;
}

std::int64_t ranks_of(Sharing sharing, const Training& training, const Strategy& s) {
  if (sharing == Sharing::experts) return process_group(s.layout, Group::expert_data).size;
  const bool over_all =
      sharing == Sharing::dense && s.experts.enabled && s.zero_stage == 3 && !training.partitions_made_models;
  return over_all ? s.layout.world() : s.layout.gradient_ranks();
}

Group group_of(Sharing sharing) { return sharing == Sharing::experts ? Group::expert_data : Group::data; }

std::int64_t ranks_of(const RankTensor& tensor, const Training& training, const Strategy& s) {
  return ranks_of(sharing_of(tensor, training, s), training, s);
}

std::vector<OptimizerGroup> optimizer_groups(const RankModel& model, const Training& training,
                                             const Strategy& s) {
  constexpr Elements kMostExpertElements{178'956'971};
  // Stages 1 and 2 refuse the script's own optimizer beside experts.
  const bool is_scripts = s.zero_stage == 3 && training.optimizer_kernel == OptimizerKernel::fused;
  std::vector<OptimizerGroup> groups(1);
  const auto add = [&](std::size_t tensor) {
    groups.back().tensors.push_back(tensor);
    groups.back().elements += model.tensors[tensor].elements;
  };
  const auto is_new = [&](const RankTensor& tensor) {
    return s.experts.enabled && tensor.role == TensorRole::router;
  };
  // The parameters that the engine was given; what AutoEP made anew takes its place behind them.
  for (const bool anew : {false, true})
    for (std::size_t i = 0; i < model.tensors.size(); ++i) {
      const RankTensor& tensor = model.tensors[i];
      const bool dense = sharing_of(tensor, training, s) != Sharing::experts;
      if (tensor.trainable && dense && is_new(tensor) == anew) add(i);
    }
  for (std::size_t i = 0; i < model.tensors.size(); ++i) {
    const RankTensor& tensor = model.tensors[i];
    if (!tensor.trainable || sharing_of(tensor, training, s) != Sharing::experts) continue;
    const bool full = !is_scripts && groups.back().elements + tensor.elements > kMostExpertElements;
    if (groups.size() == 1 || full) groups.push_back({.sharing = Sharing::experts});
    add(i);
  }
  return groups;
}

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

Elements zero12_slice(const RankModel& model, const OptimizerGroup& group, const Training& training,
                      const Strategy& s) {
  const std::int64_t ranks = ranks_of(group.sharing, training, s);
  Elements flat{};
  for (const std::size_t i : group.tensors) flat = flat_start(flat, training, s) + model.tensors[i].elements;
  return share(round_up(flat, 2 * ranks), ranks);
}

namespace {

/// The slices of one group, by rank of those that share it.
std::vector<GroupSlice> slices_of(const RankModel& model, const OptimizerGroup& group,
                                  const Training& training, const Strategy& s) {
  const Elements size = zero12_slice(model, group, training, s);
  std::vector<GroupSlice> all(static_cast<std::size_t>(ranks_of(group.sharing, training, s)),
                              GroupSlice{size, {}, {}, 0});
  for (std::size_t i = 0; i < all.size(); ++i) all[i].rank = static_cast<std::int64_t>(i);
  if (size.value == 0) return all;
  std::size_t rank = 0;
  Elements start{};
  for (const std::size_t index : group.tensors) {
    const RankTensor& tensor = model.tensors[index];
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

}  // namespace

std::vector<Slice> slices(const RankModel& model, const Training& training, const Strategy& s) {
  std::vector<Slice> all(static_cast<std::size_t>(s.layout.gradient_ranks()));
  const std::int64_t stride = process_group(s.layout, Group::data).stride;
  for (const OptimizerGroup& group : optimizer_groups(model, training, s)) {
    const std::vector<GroupSlice> of_group = slices_of(model, group, training, s);
    const ProcessGroup sharing = process_group(s.layout, group_of(group.sharing));
    for (std::size_t i = 0; i < all.size(); ++i) {
      const std::int64_t place = sharing.place_of(static_cast<std::int64_t>(i) * stride);
      const GroupSlice& own = of_group[static_cast<std::size_t>(place)];
      Slice& slice = all[i];
      slice.rank = static_cast<std::int64_t>(i);
      slice.size += own.size, slice.touching += own.touching;
      slice.largest = std::max(slice.largest, own.largest);
      slice.groups.push_back(own);
    }
  }
  return all;
}

Slice worst_slice(const RankModel& model, const Training& training, const Strategy& s) {
  const std::vector<Slice> all = slices(model, training, s);
  Slice worst{all.front().size, {}, {}, 0};
  for (const Slice& each : all) {
    if (each.touching > worst.touching) worst.touching = each.touching, worst.rank = each.rank;
    worst.largest = std::max(worst.largest, each.largest);
  }
  return worst;
}

Elements zero3_shard(const RankModel& model, const Training& training, const Strategy& s, bool trainable) {
  Elements sum{};
  for (const RankTensor& tensor : model.tensors)
    if (tensor.trainable == trainable && !tensor.packed)
      sum += share(tensor.elements, ranks_of(tensor, training, s));
  return sum;
}

Elements persistent_parameters(const RankModel& model, const Training& training, const Strategy& s) {
  Elements sum{};
  for (const RankTensor& tensor : model.tensors) {
    const std::int64_t ranks = ranks_of(tensor, training, s);
    if (!tensor.packed && tensor.elements <= s.zero.persistence_threshold)
      sum += share(tensor.elements, ranks) * ranks;
  }
  return sum;
}

namespace {

/// Those of a group that are shared alike, closed by themselves.
void add_sub_groups(const RankModel& model, const OptimizerGroup& group, Sharing sharing,
                    const Training& training, const Strategy& s, std::vector<SubGroup>& groups) {
  Elements open{};
  for (const std::size_t i : group.tensors) {
    if (sharing_of(model.tensors[i], training, s) != sharing) continue;
    open += share(model.tensors[i].elements, ranks_of(sharing, training, s));
    if (open >= s.zero.sub_group_size) groups.push_back({open, sharing}), open = {};
  }
  if (open.value > 0) groups.push_back({open, sharing});
}

}  // namespace

std::vector<SubGroup> sub_groups(const RankModel& model, const Training& training, const Strategy& s) {
  std::vector<SubGroup> groups;
  for (const OptimizerGroup& group : optimizer_groups(model, training, s))
    for (const Sharing sharing : {Sharing::dense, Sharing::remade, Sharing::experts})
      add_sub_groups(model, group, sharing, training, s, groups);
  return groups;
}

Elements swap_buffer_size(const RankModel& model, const Training& training, const Strategy& s) {
  Elements largest(100'000'000);
  for (const RankTensor& tensor : model.tensors)
    largest = std::max(largest, share(tensor.elements, ranks_of(tensor, training, s)));
  return largest;
}

Elements largest_sub_group(const RankModel& model, const Training& training, const Strategy& s) {
  Elements largest{};
  for (const SubGroup& each : sub_groups(model, training, s)) largest = std::max(largest, each.elements);
  return largest;
}

Shard deepspeed_shard(const RankModel& model, const Training& training, const Strategy& s) {
  if (s.zero_stage == 0) return replicated_shard(model, training, s);
  return s.zero_stage < 3 ? zero12_shard(model, training, s) : zero3_full_shard(model, training, s);
}

std::vector<OptimizerTensor> deepspeed_optimizer_tensors(const RankModel& model, const Training& training,
                                                         const Strategy& s) {
  const Bytes master(training.precision == Precision::fp32 ? 4 : master_size(training, s).value);
  if (s.zero_stage > 0) return flat_tensors(model, training, s, master);
  if (!flattens_replicated(training)) return tensors_by_rows(model, 1, master);
  std::vector<OptimizerTensor> groups;
  for (const OptimizerGroup& each : optimizer_groups(model, training, s))
    groups.push_back({.elements = each.elements, .element = master});
  return groups;
}

}  // namespace zplan
