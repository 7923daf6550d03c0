#include "planner/frameworks/deepspeed/zero/sliced_run.h"

#include <algorithm>
#include <unordered_map>
#include <utility>

#include "planner/frameworks/deepspeed/zero/engine_gradients.h"
#include "planner/frameworks/deepspeed/zero/rules.h"
#include "planner/frameworks/deepspeed/zero/sharding.h"
#include "planner/sharding/optimizer_state.h"
#include "planner/step/host_time.h"

namespace zplan {

SlicedRun::SlicedRun(RankState& state)
    : state_(state),
      device_(state.device()),
      groups_(optimizer_groups(in().rank, in().training, in().strategy)),
      flat_partitions_(groups_.size(), Device::kNone),
      of_group_(state.tensors().size()),
      start_(state.tensors().size()),
      accumulators_(state.tensors().size(), Device::kNone) {
  for (std::size_t group = 0; group < groups_.size(); ++group) {
    Elements next{};
    for (const std::size_t i : groups_[group].tensors) {
      of_group_[i] = group;
      start_[i] = flat_start(next, in().training, in().strategy);
      next = start_[i] + state.tensors()[i].elements;
    }
  }
}

/// True if weights are flattened on the host, as on GPUs smaller than `gpu`: from there on the flat copy
/// finds memory in addition to what is allocated. DeepSpeed counts all memory but that of torch's tensors as
/// free, unless pynvml is there to say what is free.
bool SlicedRun::flattens_on_host(Bytes gpu) const {
  if (!device_.has_allocator()) return true;
  if (!device_.capacity()) return state_.inputs().flattens_on_host;
  return *device_.capacity() + state_.inputs().outside < gpu;
}

/// The flat copy is made beside the parameters, which then become views of it; where the GPU has no memory
/// for it, parameters move to the host, are flattened there, and the copy comes back. Groups follow each
/// other: of the first ones' parameters the flat copy and the master weights are there already.
void SlicedRun::decide_flattening() {
  device_.empty_cache();
  if (uses_bf16_optimizer(in().training, in().strategy)) return;
  const Bytes master(in().shard.master_weights.value / std::max<std::int64_t>(1, in().slice.size.value));
  Bytes taken = device_.allocated(), most{}, all{};
  for (std::size_t group = 0; group < groups_.size(); ++group) {
    const Bytes flat = flat_size(group) * weight();
    most = std::max(most, taken + flat);
    taken += flat - groups_[group].elements * weight();
    if (!offloaded()) taken += in().slice.groups[group].size * master;
    all += flat;
  }
  flattening_ = {.gpu = most, .reserved = {}, .on_host = in().rank.trainable * weight() + all};
  if (!flattens_on_host(flattening_->gpu)) return;
  state_.move_trainable_parameters_to_host();
  device_.empty_cache();
}

void SlicedRun::flatten(std::size_t group) {
  device_.allocate(Term::trained_parameters, flat_size(group) * weight());
  if (flattening_)
    flattening_->reserved = std::max({flattening_->reserved, device_.reserved(), flattening_->gpu});
  for (const std::size_t tensor : groups_[group].tensors) state_.release_parameter(tensor);
}

/// A clone of the slice becomes the master copy, by way of a cast where the types differ; offloaded, it goes
/// to the host.
void SlicedRun::make_master(std::size_t group) {
  const Elements slice = in().slice.groups[group].size;
  if (offloaded()) return device_.spike(Term::trained_parameters, slice * weight());
  const Bytes master(in().shard.master_weights.value / std::max<std::int64_t>(1, in().slice.size.value));
  const bool casts = master != weight();
  Device::Block clone = casts ? device_.allocate(Term::trained_parameters, slice * weight()) : Device::kNone;
  device_.allocate(Term::master_weights, slice * master);
  device_.release(clone);
}

void SlicedRun::initialise() {
  state_.make_parameters();
  decide_flattening();
  for (std::size_t group = 0; group < groups_.size(); ++group) flatten(group), make_master(group);
  if (offloaded()) {
    device_.allocate(Term::offload_staging, in().rank.largest_trainable * weight());
    return;
  }
  if (uses_bf16_optimizer(in().training, in().strategy)) {
    device_.allocate(Term::fp32_gradients, in().shard.gradients);
    return;
  }
  // The zero gradients of initialize_optimizer_states, group by group.
  const Bytes master(in().shard.master_weights.value / std::max<std::int64_t>(1, in().slice.size.value));
  for (const GroupSlice& slice : in().slice.groups) device_.spike(Term::gradient_copy, slice.size * master);
}

bool SlicedRun::reduces_in_hooks() const {
  if (is_second_stage()) return true;
  return in().strategy.overlaps_communication() && last_micro_step_ &&
         !uses_bf16_optimizer(in().training, in().strategy);
}

bool SlicedRun::averages_in_hooks() const {
  return reduces_in_hooks() || uses_bf16_optimizer(in().training, in().strategy);
}

bool SlicedRun::keeps_flat_fp32() const {
  return is_second_stage() ? accumulates_fp32() : accumulates_whole_fp32(in().training, in().strategy);
}

void SlicedRun::make_buckets() {
  if (!buckets_.empty() || uses_bf16_optimizer(in().training, in().strategy)) return;
  const std::int64_t count = in().strategy.overlaps_communication() ? 2 : 1;
  const Bytes all = gradient_bucket(in().training, in().strategy);
  for (std::int64_t i = 0; i < count; ++i)
    buckets_.push_back(device_.allocate(Term::gradient_bucket, share(all, count)));
}

void SlicedRun::gradient(std::size_t tensor, Device::Block block) {
  make_buckets();
  state_.take_gradient(tensor, block);
  if (accumulates_whole_fp32(in().training, in().strategy)) {
    Device::Block& sum = accumulators_[tensor];
    const Bytes size = state_.tensors()[tensor].elements * Bytes(4);
    if (sum == Device::kNone)
      sum = device_.allocate(Term::gradients, size);
    else
      device_.spike(Term::gradients, size);  // cast before it is added
    state_.release_gradient(tensor);
  }
  if (averages_in_hooks()) average_replicated(state_, tensor);
  if (reduces_in_hooks()) put_in_bucket(tensor), state_.clock().host(host_time::kGradientHook);
}

void SlicedRun::put_in_bucket(std::size_t tensor) {
  const Elements n = state_.tensors()[tensor].elements;
  if (!pending_.empty() && open_ + n > bucket_size()) flush();
  // A gradient that fits is copied into the bucket, and becomes a view of it.
  if (n <= bucket_size()) state_.release_gradient(tensor), device_.release(accumulators_[tensor]);
  if (n <= bucket_size()) state_.clock().move(n * weight() * 2);
  // On its way to the host what does not fit must not be touched by others: a clone takes its place.
  if (n > bucket_size() && offloaded() && state_.has_gradient(tensor)) {
    const Device::Block clone = device_.allocate(Term::gradients, n * weight());
    state_.release_gradient(tensor);
    state_.take_gradient(tensor, clone);
  }
  pending_.push_back({tensor, n, start_[tensor]});
  open_ += n;
}

bool SlicedRun::spans_slices() const {
  return in().strategy.layout.gradient_ranks() > 1 && parts().count > 1;
}

/// Neighbours bound for the same rank are one part, but for those that this rank adds to its fp32 slice.
bool SlicedRun::sends_parts() const {
  const ZeroOptions& zero = in().strategy.zero;
  // A whole bucket is reduced in place, and what goes to one owner is a view of it.
  if (!keeps_flat_fp32() && (!zero.reduce_scatter || !zero.multi_rank_bucket_allreduce)) return false;
  if (spans_slices() || !keeps_flat_fp32()) return spans_slices();
  return std::count_if(pending_.begin(), pending_.end(),
                       [&](const Pending& each) { return piece_of(each).value > 0; }) > 1;
}

Elements SlicedRun::piece_of(const Pending& each) const {
  const GroupSlice& slice = slice_of(each.tensor);
  const Elements low = slice.size * slice.rank, high = slice.size * (slice.rank + 1);
  return std::max(std::min(each.start + each.elements, high) - std::max(each.start, low), Elements{});
}

/// In fp32 a group's slice by itself, when the first of it comes; else one for all.
void SlicedRun::make_partition(std::size_t tensor) {
  if (!keeps_flat_fp32()) {
    if (partition_ == Device::kNone)
      partition_ = device_.allocate(Term::gradient_partition, in().slice.touching * weight());
    return;
  }
  Device::Block& flat = flat_partitions_[of_group_[tensor]];
  if (flat == Device::kNone)
    flat = device_.allocate(Term::gradient_partition, slice_of(tensor).size * Bytes(4));
}

/// Keeps this rank's part of a reduced gradient: whole parameters that touch its slice, in one buffer made
/// with the first of them, or an fp32 slice. With offload it goes to the host, and its norm is computed
/// before.
void SlicedRun::keep(const Pending& each) {
  const Elements piece = piece_of(each);
  if (piece.value == 0) return;
  if (offloaded()) return device_.spike(Term::norm_in_fp64, piece * Bytes(8));
  make_partition(each.tensor);
  // A gradient that arrived in fp32 is added without a copy.
  if (keeps_flat_fp32() && sent_gradient(in()) != Bytes(4))
    device_.spike(Term::gradient_copy, piece * Bytes(4));
}

void SlicedRun::make_missing_gradients() {
  if (keeps_flat_fp32() || offloaded()) return;
  for (std::size_t i = 0; i < state_.tensors().size(); ++i) {
    const RankTensor& tensor = state_.tensors()[i];
    if (tensor.idle && piece_of({i, tensor.elements, start_[i]}).value > 0)
      missing_.push_back(device_.allocate(Term::gradient_partition, tensor.elements * weight()));
  }
}

const SlicedRun::PendingParts& SlicedRun::parts() const {
  for (; parts_.counted < pending_.size(); ++parts_.counted) add_parts(pending_[parts_.counted]);
  return parts_;
}

void SlicedRun::add_parts(const Pending& each) const {
  const std::int64_t size = slice_of(each.tensor).size.value;
  const Sharing sharing = group_of(each.tensor).sharing;
  const std::int64_t end = (each.start + each.elements).value;
  if (each.elements.value == 0) return;
  // The last part of all is the last of its list.
  const bool goes_on = std::exchange(parts_.latest, sharing) == sharing && parts_.count > 0;
  std::vector<Parts>& lists = parts_.by_sharing;
  auto list = std::find_if(lists.begin(), lists.end(),
                           [&](const Parts& known) { return known.front().sharing == sharing; });
  if (list == lists.end()) list = lists.insert(list, Parts{});
  for (std::int64_t at = each.start.value; at < end;) {
    const std::int64_t owner = at / size, until = std::min(end, (owner + 1) * size);
    const bool goes_on_here = at > each.start.value || goes_on;
    if (!goes_on_here || list->back().owner != owner) list->push_back({sharing, owner, {}}), ++parts_.count;
    list->back().elements += Elements(until - at);
    at = until;
  }
}

/// Returns the most elements that are flattened at once: parts up to the one that exceeds the bucket's size.
/// A part that is sent alone is a view.
Elements SlicedRun::largest_flattened() const {
  Elements most{};
  if (keeps_flat_fp32()) {
    for (const Parts& list : parts().by_sharing) {
      Elements together{};
      for (const Part& part : list) together += part.elements;
      most = std::max(most, std::min(together, Elements(500'000'000)));
    }
    return most;
  }
  for (const Parts& list : parts().by_sharing) {
    Elements together{};
    int count = 0;
    for (const Part& part : list) {
      together += part.elements;
      if (++count > 1) most = std::max(most, together);
      if (together > bucket_size()) together = {}, count = 0;
    }
  }
  return most;
}

Elements SlicedRun::largest_sent() const {
  const ZeroOptions& zero = in().strategy.zero;
  if (!zero.reduce_scatter) return open_;
  Elements most{};
  for (const Parts& list : parts().by_sharing) {
    Elements together{};
    for (const Part& part : list) {
      together += part.elements;
      most = std::max(most, together);
      if (!zero.multi_rank_bucket_allreduce || together > bucket_size()) together = {};
    }
  }
  return most;
}

/// fp32 where stage 1 adds gradients up in fp32. Source: DeepSpeed 0.19.8 stage_1_and_2.py
/// _gradient_reduction_buffer_dtype.
Bytes SlicedRun::bucket_element() const {
  return accumulates_whole_fp32(in().training, in().strategy) ? Bytes(4) : weight();
}

bool SlicedRun::casts_to_send() const {
  const Precision held = bucket_element() == Bytes(4) ? Precision::fp32 : in().training.precision;
  return sent_gradient_type(in().training, in().strategy) != held;
}

/// The bucket as it is sent: parts are flattened, and what travels in another type is cast behind that.
/// Source: DeepSpeed 0.19.8 stage_1_and_2.py allreduce_bucket, gradient_reduction_w_predivide.
Device::Block SlicedRun::flattened() {
  Device::Block flat = sends_parts()
                           ? device_.allocate(Term::bucket_copy, largest_flattened() * bucket_element())
                           : Device::kNone;
  if (!casts_to_send()) return flat;
  const Device::Block sent = device_.allocate(Term::bucket_copy, largest_sent() * sent_gradient(in()));
  device_.release(flat);
  return sent;
}

/// The bucket as its owners' parts, in order. Source: DeepSpeed 0.19.8 runtime/zero/stage_1_and_2.py
/// average_tensor, allreduce_and_scatter, allreduce_no_retain.
void SlicedRun::send() {
  const ZeroOptions& zero = in().strategy.zero;
  if (in().strategy.layout.gradient_ranks() == 1 || !state_.notes_calls()) return;
  if (!zero.reduce_scatter) return send(Operation::all_reduce, open_, Sharing::dense);
  for (const Parts& list : parts().by_sharing) {
    if (!zero.multi_rank_bucket_allreduce) {
      send_to_owners(list);
      continue;
    }
    const Sharing sharing = list.front().sharing;
    Elements together{};
    for (const Part& part : list) {
      together += part.elements;
      if (together > bucket_size()) send(Operation::all_reduce, std::exchange(together, Elements{}), sharing);
    }
    if (together.value > 0) send(Operation::all_reduce, together, sharing);
  }
}

void SlicedRun::send(Operation operation, Elements elements, Sharing sharing) {
  reduced_ = state_.issue(state_.clock().computed(), operation, elements, sent_gradient(in()), "gradients",
                          {zplan::group_of(sharing), ranks_of(sharing)});
  if (!in().strategy.overlaps_communication()) state_.wait(reduced_);
}

void SlicedRun::send_to_owners(const Parts& parts) {
  Parts by_owner;  // in the order in which they come
  std::unordered_map<std::int64_t, std::size_t> places;
  for (const Part& part : parts) {
    const auto [place, is_new] = places.try_emplace(part.owner, by_owner.size());
    if (is_new)
      by_owner.push_back(part);
    else
      by_owner[place->second].elements += part.elements;
  }
  for (const Part& part : by_owner) send(Operation::reduce, part.elements, part.sharing);
}

/// BF16_Optimizer's gradients, as the engine reduces them.
void SlicedRun::send_whole() {
  for (const EngineBucket& bucket : engine_buckets(in()))
    state_.communicate(Operation::all_reduce, bucket.elements, sent_gradient(in()), "gradients", bucket.over);
}

/// Sends the gradients of several groups: their flat fp32 gradients are joined until they exceed 5e8 elements
/// (one alone is a view), and cast to the type that is sent.
void SlicedRun::send_groups() {
  constexpr Elements kBucket{500'000'000};
  const bool casts = sent_gradient_type(in().training, in().strategy) != Precision::fp32;
  for (std::size_t group = 0; group < groups_.size();) {
    const Sharing sharing = groups_[group].sharing;
    Elements together{};
    int count = 0;
    for (; group < groups_.size() && groups_[group].sharing == sharing && together <= kBucket;
         ++group, ++count)
      together += flat_size(group);
    Device::Block flat = count > 1 ? device_.allocate(Term::bucket_copy, together * Bytes(4)) : Device::kNone;
    if (casts) device_.spike(Term::bucket_copy, together * sent_gradient(in()));
    device_.release(flat);
    state_.communicate(Operation::all_reduce, together, sent_gradient(in()), "gradients",
                       {zplan::group_of(sharing), ranks_of(sharing)});
  }
}

/// Around the update: whether a gradient overflowed, the norm of each group, that of experts averaged over
/// the ranks that share them, and one gather of each flat group. BF16_Optimizer does not ask for an overflow.
void SlicedRun::agree_and_gather() {
  const auto agree = [this](Bytes element, std::string_view purpose) {
    for (const Group group : {Group::data, Group::tensor}) state_.agree(group, element, purpose);
  };
  if (uses_bf16_optimizer(in().training, in().strategy)) {
    agree_on_expert_norms();
  } else {
    if (in().training.precision != Precision::fp32) agree(Bytes(1), "overflow flag");
    for (std::size_t group = 0; group < groups_.size(); ++group) agree(Bytes(4), "gradient norm");
    for (const OptimizerGroup& group : groups_)
      if (group.sharing == Sharing::experts) state_.agree(Group::expert_data, Bytes(4), "gradient norm");
  }
  for (std::size_t group = 0; group < groups_.size(); ++group)
    state_.communicate(Operation::all_gather, flat_size(group), weight(), "updated weights",
                       {zplan::group_of(groups_[group].sharing), ranks_of(groups_[group].sharing)});
}

/// Source: DeepSpeed 0.19.8 runtime/utils.py get_norm_with_moe_layers.
void SlicedRun::agree_on_expert_norms() {
  if (in().strategy.experts.enabled) state_.agree(Group::expert, Bytes(4), "gradient norm");
}

void SlicedRun::flush() {
  if (pending_.empty()) return;
  send();
  if (keeps_flat_fp32() && !offloaded())
    for (const Pending& each : pending_)
      if (piece_of(each).value > 0) make_partition(each.tensor);
  Device::Block sent = flattened();
  // Only what is added to the fp32 slice is still read.
  if (!keeps_flat_fp32()) device_.release(sent);
  for (const Pending& each : pending_) {
    keep(each);
    // A gradient too large for the bucket is let go once its piece is kept; stage 1 keeps those of other
    // ranks.
    if (is_second_stage() || piece_of(each).value > 0) state_.release_gradient(each.tensor);
  }
  device_.release(sent);
  pending_.clear();
  parts_ = {};
  open_ = {};
}

void SlicedRun::end_backward(const Slot& slot) {
  if (is_second_stage()) {
    flush();
    state_.wait(reduced_);
    if (slot.last) make_missing_gradients();
    release_buckets();
    if (in().strategy.gradient_accumulation_steps > 1 && !accumulates_fp32() && !offloaded()) {
      // Sums of earlier micro-steps are added up into them and replaced.
      device_.release(earlier_partition_);
      std::swap(earlier_partition_, partition_);
    }
    return;
  }
  if (!slot.last) return;
  if (!averages_in_hooks())
    for (std::size_t i = 0; i < state_.tensors().size(); ++i) average_replicated(state_, i);
  if (uses_bf16_optimizer(in().training, in().strategy)) {
    if (groups_.size() > 1) {
      send_groups();
    } else {
      // Its fp32 gradients are cast to what travels.
      if (sent_gradient_type(in().training, in().strategy) != Precision::fp32)
        device_.spike(Term::bucket_copy, in().rank.trainable * sent_gradient(in()));
      send_whole();
    }
    state_.release_gradients();
    return;
  }
  if (!reduces_in_hooks())
    for (const OptimizerGroup& group : groups_)
      for (const std::size_t i : group.tensors)
        if (!state_.tensors()[i].idle) put_in_bucket(i);
  flush();
  state_.wait(reduced_);
  make_missing_gradients();
  // fp32 sums of other ranks' parameters stay until the step, as views of the bucket.
  if (!keeps_flat_fp32() || in().strategy.layout.gradient_ranks() == 1) release_buckets();
  state_.release_gradients();
}

void SlicedRun::step(bool first) {
  agree_and_gather();
  if (offloaded()) {
    state_.release_gradients();
    device_.release(accumulators_);
    accumulators_.assign(state_.tensors().size(), Device::kNone);
    return;
  }
  step_on_device(first);
}

/// The kept gradients of a group in one piece, in the master weights' type.
Device::Block SlicedRun::copied_gradients(const GroupSlice& slice) {
  const bool casts = weight() == Bytes(2) && !drops_master(in().training, in().strategy);
  const bool one_piece = slice.largest == slice.size;
  Device::Block flat =
      one_piece ? Device::kNone : device_.allocate(Term::gradient_copy, slice.size * weight());
  if (!casts) return flat;
  const Device::Block wide = device_.allocate(Term::gradient_copy, slice.size * Bytes(4));
  device_.release(flat);
  return wide;
}

/// Group by group: what this rank kept of all of them lies in one buffer, which goes with the last.
void SlicedRun::step_on_device(bool first) {
  for (const GroupSlice& slice : in().slice.groups)
    device_.spike(Term::norm_in_fp64, slice.largest * Bytes(8));
  release_buckets();
  for (std::size_t group = 0; group < groups_.size(); ++group) update(group, first);
  device_.release(accumulators_);
  accumulators_.assign(state_.tensors().size(), Device::kNone);
}

void SlicedRun::update(std::size_t group, bool first) {
  const GroupSlice& slice = in().slice.groups[group];
  const Training& training = in().training;
  Device::Block copy = Device::kNone;
  // BF16_Optimizer's master weights take views of the fp32 gradients; what is fp32 already is not copied
  // again.
  if (!uses_bf16_optimizer(training, in().strategy)) {
    if (!keeps_flat_fp32()) copy = copied_gradients(slice);
    if (group + 1 == groups_.size()) {
      if (!keeps_flat_fp32()) device_.release(partition_);
      device_.release(earlier_partition_), device_.release(missing_);
      missing_.clear();
      state_.release_gradients();
    }
  }
  const bool drops = drops_master(training, in().strategy);
  const Bytes element = in().shard.master_weights.value > 0 ? Bytes(drops ? 2 : 4) : weight();
  if (first)
    for (const Bytes state : optimizer_state_blocks(training, slice.size, element))
      device_.allocate(Term::optimizer_moments, state);
  state_.optimizer_temporaries({slice.size}, element);
  device_.release(copy);
  device_.release(flat_partitions_[group]);
}

}  // namespace zplan
