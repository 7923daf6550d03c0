#include "planner/frameworks/torchtitan/units.h"

#include <algorithm>
#include <utility>

namespace zplan::titan {

namespace {

constexpr Bytes kReduced{4};  ///< of an element: gradients are reduced in fp32

bool has_gradient(const Member& each) {
  return each.gradient != Device::kNone || each.summed != Device::kNone;
}

}  // namespace

Units::Units(RankState& state)
    : state_(state),
      device_(state.device()),
      graded_(state.tensors().size()),
      last_inputs_(static_cast<std::size_t>(layout().virtual_stages)) {}

void Units::shard(const Unit& unit) {
  for (const Member& each : unit.members)
    if (!each.is_head || !state_.tensors()[each.tensor].tied)
      device_.allocate(Term::trained_parameters, each.shard * stored());
}

/// The shards are cast into one flat input. Source: _fsdp_collectives.py foreach_all_gather.
void Units::gather(Unit& unit, int stream) {
  if (unit.is_pending || unit.is_whole || unit.members.empty()) return;
  unit.is_pending = true;
  const std::int64_t ranks = unit.among.ranks;
  if (ranks == 1) return;
  Elements shards{};
  for (const Member& each : unit.members) shards += each.shard;
  Device::Block input = Device::kNone;
  if (stored() != computed())
    input = device_.allocate(Term::gathered_parameters, shards * computed(), stream);
  unit.gathered = device_.allocate(Term::gathered_parameters, shards * computed() * ranks, stream);
  device_.release(input);
  const Instant earliest = stream == kCompute ? state_.clock().computed() : copied_out_;
  unit.arrives =
      state_.issue(earliest, Operation::all_gather, shards * ranks, computed(), "layer weights", unit.among);
}

void Units::copy_out(Unit& unit, bool in_forward) {
  if (!unit.is_pending) return;
  unit.is_pending = false, unit.is_whole = true;
  const std::int64_t ranks = unit.among.ranks;
  if (ranks == 1) return copy_alone(unit);
  state_.wait(unit.arrives);
  Bytes copied{};
  if (in_forward) device_.release(last_gathered_);
  std::vector<Device::Block> chunks;
  for (Member& each : unit.members) {
    const Bytes whole = each.shard * computed() * ranks;
    each.whole = device_.allocate(Term::gathered_parameters, whole);
    if (each.is_by_width) chunks.push_back(device_.allocate(Term::gathered_parameters, whole));
    copied += each.is_by_width ? whole * 2 : whole;
  }
  device_.release(chunks);
  state_.clock().move(copied * 2);
  copied_out_ = state_.clock().computed();
  if (!in_forward) return device_.release(unit.gathered);
  last_gathered_ = std::exchange(unit.gathered, Device::kNone);
}

/// One rank gathers nothing: each parameter is copied by way of its cast.
void Units::copy_alone(Unit& unit) {
  Device::Block earlier = Device::kNone;
  for (Member& each : unit.members) {
    const Bytes size = each.shard * computed();
    const Device::Block cast =
        stored() != computed() ? device_.allocate(Term::gathered_parameters, size) : Device::kNone;
    device_.release(earlier);
    earlier = cast;
    each.whole = device_.allocate(Term::gathered_parameters, size);
  }
  device_.release(earlier);
}

void Units::release(Unit& unit) {
  if (!unit.is_whole) return;
  for (Member& each : unit.members) device_.release(each.whole);
  unit.is_whole = false;
}

/// Source: _fsdp_param.py to_accumulated_grad_if_needed, accumulate_unsharded_grad_if_needed.
void Units::sum_up(Unit& unit) {
  for (Member& each : unit.members) {
    if (each.gradient == Device::kNone) continue;
    if (each.summed == Device::kNone && computed() == kReduced) {
      each.summed = std::exchange(each.gradient, Device::kNone);
      device_.rename(each.summed, Term::fp32_gradients);
      continue;
    }
    if (each.summed == Device::kNone)
      each.summed = device_.allocate(Term::fp32_gradients, each.elements * kReduced);
    else
      state_.clock().move(each.elements * (computed() + kReduced + kReduced));
    device_.release(each.gradient);
  }
}

/// Source: _fsdp_param.py accumulate_unsharded_grad_if_needed.
void Units::add_gradients(Unit& unit) {
  for (Member& each : unit.members) {
    if (each.gradient == Device::kNone || each.summed == Device::kNone) continue;
    state_.clock().move(each.elements * (computed() + kReduced + kReduced));
    device_.release(each.gradient);
  }
}

/// Weights that tensor-parallel ranks hold alike get gradients of each rank's own tokens, or heads: they are
/// summed as they are, before FSDP reduces them. Source: torchtitan 0.3.0 protocols/sharding.py;
/// _fsdp_param.py unsharded_grad_data.
void Units::sum_replicated(const Unit& unit) {
  if (layout().tensor == 1) return;
  for (const Member& each : unit.members)
    if (each.is_replicated && has_gradient(each))
      state_.communicate(Operation::all_reduce, each.elements,
                         each.summed != Device::kNone ? kReduced : computed(), "replicated norms",
                         Over(Group::tensor, layout().tensor));
}

/// Gradients of what is sharded along another dimension are copied chunk by chunk; the last one stays until
/// the copies are reduced.
void Units::put_chunks_together(Unit& unit) {
  Device::Block last = Device::kNone;
  for (Member& each : unit.members) {
    if (!each.is_by_width || !has_gradient(each) || unit.among.ranks == 1) continue;
    Device::Block& gradient = each.gradient != Device::kNone ? each.gradient : each.summed;
    const bool is_summed = each.gradient == Device::kNone;
    const Device::Block copy = device_.allocate(is_summed ? Term::fp32_gradients : Term::gradients,
                                                each.elements * (is_summed ? kReduced : computed()));
    device_.release(last);
    last = std::exchange(gradient, copy);
  }
  device_.release(unit.kept_gradient);
  unit.kept_gradient = last;
}

/// Source: _fsdp_collectives.py foreach_reduce, _fsdp_param_group.py post_backward.
void Units::reduce(Unit& unit) {
  constexpr std::int64_t kIndexed = 2048;  // bytes that one entry of _chunk_cat's table stands for
  if (unit.members.empty()) return;
  const std::int64_t ranks = unit.among.ranks;
  sum_replicated(unit);
  Elements shards{};
  std::int64_t entries = 2;
  bool is_viewed = false;
  for (const Member& each : unit.members) {
    if (!has_gradient(each)) continue;
    is_viewed = is_viewed || !graded_[each.tensor];
    graded_[each.tensor] = true;
    shards += each.shard;
    entries += share(each.shard * kReduced, kIndexed).value + 6;
  }
  std::vector<Device::Block>& earlier = last_inputs_[unit.chunk];
  if (!unit.follows) {
    state_.wait(reduced_);
    device_.release(earlier);
    earlier.clear();
  }
  if (shards.value == 0) return;
  device_.release(unit.all_reduced);
  put_chunks_together(unit);
  const Device::Block input = device_.allocate(Term::gradient_bucket, shards * kReduced * ranks);
  device_.spike(Term::bucket_copy, Bytes(8) * entries);
  state_.clock().move(shards * (kReduced + computed()) * ranks);
  if (ranks > 1)
    reduced_ = state_.issue(state_.clock().computed(), Operation::reduce_scatter, shards * ranks, kReduced,
                            "gradients", unit.among);
  // Python's loop variable holds the last gradient until the end.
  Device::Block* last = nullptr;
  for (Member& each : unit.members) {
    if (!has_gradient(each)) continue;
    if (last != nullptr) device_.release(*last);
    last = each.gradient != Device::kNone ? &each.gradient : &each.summed;
  }
  if (ranks == 1) device_.release(*last);
  Device::Block reduced = device_.allocate(Term::gradient_partition, shards * kReduced, kReduce);
  if (ranks == 1) device_.spike(Term::gradient_bucket, shards * kReduced, kReduce);
  if (layout().replicate > 1)
    reduced_ = state_.issue(reduced_, Operation::all_reduce, shards, kReduced, "gradients",
                            layout().replicate, {}, layout().shard_ranks());
  if (stored() != kReduced) {
    const Device::Block cast = device_.allocate(Term::gradient_partition, shards * stored(),
                                                layout().replicate > 1 ? kReplicate : kReduce);
    keep_or_release(unit, reduced);
    reduced = cast;
  }
  // A shard's first gradient is a view of the reduction's output, whose whole memory it keeps; later ones are
  // added to it. A tied weight has one shard for both of its members.
  if (is_viewed)
    unit.reduced.push_back(reduced);
  else
    keep_or_release(unit, reduced);
  device_.release(*last);
  device_.release(unit.kept_gradient);
  earlier.push_back(input);
}

/// What was all-reduced stays until the unit's next reduction, or until the last backward is over. Source:
/// _fsdp_param_group.py _all_reduce_state.
void Units::keep_or_release(Unit& unit, Device::Block reduced) {
  if (layout().replicate == 1) return device_.release(reduced);
  device_.release(unit.all_reduced);
  unit.all_reduced = reduced;
}

void Units::zero_gradients(std::vector<Unit>& units) {
  for (Unit& each : units) {
    device_.release(each.reduced);
    each.reduced.clear();
    for (const Member& member : each.members) graded_[member.tensor] = false;
  }
}

void Units::end_backward(const std::vector<Unit*>& units) {
  state_.wait(reduced_);
  for (Unit* each : units) {
    device_.release(last_inputs_[each->chunk]);
    last_inputs_[each->chunk].clear();
    device_.release(each->all_reduced);
  }
}

}  // namespace zplan::titan
