#include "planner/frameworks/ddp/replicated_run.h"

#include <algorithm>
#include <utility>

#include "planner/frameworks/deepspeed/zero/rules.h"
#include "planner/frameworks/deepspeed/zero/sharding.h"
#include "planner/simulation/optimizer_step.h"

namespace zplan {

ReplicatedRun::ReplicatedRun(RankState& state)
    : state_(state),
      device_(state.device()),
      optimized_(optimizer_tensors(state.in().rank, state.in().training, state.in().strategy)) {}

bool ReplicatedRun::has_master() const {
  return is_deepspeed() && in().training.precision != Precision::fp32;
}

bool ReplicatedRun::flattens() const { return flattens_replicated(in().training); }

void ReplicatedRun::initialise() {
  state_.make_parameters();
  if (has_master()) {
    make_masters();
    make_states();
  }
  if (!is_distributed()) return;
  broadcast_parameters();
  // Until the first backward has shown the order of gradients there is one bucket for all.
  Bytes all{};
  for (const OptimizerTensor& tensor : optimized_) all += tensor.elements * tensor.element;
  buckets_.push_back(device_.allocate(Term::gradient_bucket, all));
}

/// FP16_UnfusedOptimizer: an fp32 copy per parameter, by way of a clone; FP16_Optimizer: a flat one, the
/// 16-bit parameters become views of a flat buffer.
void ReplicatedRun::make_masters() {
  if (flattens()) flatten_parameters();
  for (const OptimizerTensor& tensor : optimized_) {
    Device::Block clone = device_.allocate(Term::trained_parameters, tensor.elements * weight());
    device_.allocate(Term::master_weights, tensor.elements * Bytes(4));
    device_.release(clone);
  }
}

/// Group by group, by way of a clone of each parameter.
void ReplicatedRun::flatten_parameters() {
  for (const OptimizerGroup& group : optimizer_groups(in().rank, in().training, in().strategy)) {
    std::vector<Device::Block> clones;
    for (const std::size_t i : group.tensors)
      clones.push_back(device_.allocate(Term::trained_parameters, state_.tensors()[i].elements * weight()));
    device_.allocate(Term::trained_parameters, group.elements * weight());
    device_.release(clones);
    for (const std::size_t i : group.tensors) state_.release_parameter(i);
  }
}

/// DeepSpeed takes a step with zero gradients when it starts, so that its states exist; FP16_UnfusedOptimizer
/// gives the 16-bit parameters some too.
void ReplicatedRun::make_states() {
  std::vector<Device::Block> zeros;
  const auto make_zeros = [&](Bytes element) {
    for (const OptimizerTensor& tensor : optimized_)
      zeros.push_back(device_.allocate(Term::gradient_copy, tensor.elements * element));
  };
  if (!flattens()) make_zeros(weight());
  make_zeros(Bytes(4));
  optimizer_step(device_, in().training, optimized_, true);
  device_.release(zeros);
}

/// Rank 0's parameters go to all in buckets of at least 250 MiB, two of them under way; a tensor alone in its
/// bucket is sent as it lies. Source: torch 2.11 torch/csrc/distributed/c10d/comm.cpp broadcast_coalesced.
void ReplicatedRun::broadcast_parameters() {
  constexpr Bytes kBucket{std::int64_t{250} << 20};
  std::vector<Device::Block> under_way;
  Bytes open{};
  int tensors = 0;
  const auto send = [&] {
    if (under_way.size() == 2) device_.release(under_way.front()), under_way.erase(under_way.begin());
    under_way.push_back(tensors > 1 ? device_.allocate(Term::bucket_copy, open) : Device::kNone);
    open = {}, tensors = 0;
  };
  for (const RankTensor& tensor : state_.tensors()) {
    open += tensor.stored, ++tensors;
    if (open >= kBucket) send();
  }
  if (tensors > 0) send();
  device_.release(under_way);
}

bool ReplicatedRun::reduces(const Slot& slot) const {
  return is_distributed() && (slot.last || in().training.syncs_each_micro_step);
}

void ReplicatedRun::begin_forward(const Slot& slot) {
  const bool seen = !optimized_.empty() && ready_order_.size() == optimized_.size();
  if (reduces(slot) && seen && !rebuilt_) rebuild_buckets();
}

void ReplicatedRun::begin_backward(const Slot& slot) { reduces_ = reduces(slot), first_bucket_ = true; }

/// In the order in which gradients came, a first bucket of 1 MiB and further ones of 25 MiB; the one that
/// fills a bucket belongs to it.
std::vector<Bytes> ReplicatedRun::bucket_sizes() const {
  std::vector<Bytes> sizes;
  Bytes open{};
  for (const std::size_t each : ready_order_) {
    open += state_.tensors()[each].stored;
    if (open >= bucket_limit(sizes.empty())) sizes.push_back(std::exchange(open, Bytes{}));
  }
  if (open.value > 0) sizes.push_back(open);
  return sizes;
}

Bytes ReplicatedRun::bucket_limit(bool first) {
  constexpr Bytes kFirst = kMiB;
  constexpr Bytes kFurther{std::int64_t{25} << 20};
  return first ? kFirst : kFurther;
}

void ReplicatedRun::send() {
  const Bytes element = gradient_element();
  state_.clock().move(open_ * 2);
  reduced_ =
      state_.issue(state_.clock().computed(), Operation::all_reduce, Elements(open_.value / element.value),
                   element, "gradients", in().strategy.layout.gradient_ranks());
  open_ = {}, first_bucket_ = false;
}

Bytes ReplicatedRun::gradient_element() const {
  return optimized_.empty() ? weight() : optimized_.front().element;
}

void ReplicatedRun::rebuild_buckets() {
  device_.release(buckets_);
  for (const Bytes each : bucket_sizes()) buckets_.push_back(device_.allocate(Term::gradient_bucket, each));
  rebuilt_ = true;
}

void ReplicatedRun::gradient(std::size_t tensor, Device::Block block) {
  if (is_distributed() && ready_order_.size() < optimized_.size()) ready_order_.push_back(tensor);
  state_.take_gradient(tensor, block);
  if (in().training.steps_in_backward) return step_one(tensor);
  if (!reduces_) return;
  open_ += state_.tensors()[tensor].stored;
  if (open_ >= bucket_limit(first_bucket_)) send();
}

/// DeepSpeed's gradients are flattened, reduced and copied back, by one rank too. Source: DeepSpeed 0.19.8
/// runtime/engine.py allreduce_bucket, which asks for no group size.
void ReplicatedRun::end_backward(const Slot& slot) {
  if (reduces_) {
    if (open_.value > 0) send();
    state_.wait(reduced_);
  }
  if (!slot.last || !is_deepspeed()) return;
  for (std::size_t i = 0; i < state_.tensors().size(); ++i) state_.average_replicated(i);
  for (const RankState::EngineBucket& bucket : state_.engine_buckets()) {
    // One tensor alone is a view.
    Device::Block flat =
        bucket.tensors > 1 ? device_.allocate(Term::bucket_copy, bucket.elements * weight()) : Device::kNone;
    if (sent_gradient_type(in().training, in().strategy) != in().training.precision)
      device_.spike(Term::bucket_copy, bucket.elements * state_.sent_gradient());
    device_.release(flat);
    state_.communicate(Operation::all_reduce, bucket.elements, state_.sent_gradient(), "gradients",
                       bucket.over);
  }
}

/// An optimizer of its own for each parameter, in a hook behind its gradient. Source: torchtune 0.6
/// training/memory.py register_optim_in_bwd_hooks.
void ReplicatedRun::step_one(std::size_t tensor) {
  if (stepped_.empty()) stepped_.resize(state_.tensors().size());
  const auto place =
      std::count_if(state_.tensors().begin(), state_.tensors().begin() + static_cast<std::ptrdiff_t>(tensor),
                    [](const RankTensor& each) { return each.trainable; });
  const bool first = !stepped_[tensor];
  stepped_[tensor] = true;
  optimizer_step(device_, in().training, {optimized_[static_cast<std::size_t>(place)]}, first);
  state_.release_gradient(tensor);
}

void ReplicatedRun::step(bool first) {
  if (in().training.steps_in_backward) return;
  if (is_deepspeed()) agree();
  if (flattens()) return step_flat();
  step_each(first);
}

/// fp32 has no 16-bit optimizer around it: the engine takes the norm itself, over the data-parallel group,
/// and only where it clips. With experts that ranks divide FP16_Optimizer's norm of those is a sum over them,
/// FP16_UnfusedOptimizer takes none.
void ReplicatedRun::agree() {
  const bool wide = in().training.precision == Precision::fp32;
  if (wide && !clips()) return;
  if (wide) state_.communicate(Operation::all_reduce, Elements(1), Bytes(4), "gradient norm");
  const auto is_expert = [this](const RankTensor& tensor) {
    return tensor.trainable && sharing_of(tensor, in().training, in().strategy) == Sharing::experts;
  };
  const bool divides_experts = std::any_of(state_.tensors().begin(), state_.tensors().end(), is_expert);
  if (divides_experts && !wide) {
    state_.agree(Group::expert, Bytes(1), "overflow flag");
    if (flattens()) state_.agree(Group::expert, Bytes(4), "gradient norm");
  }
  // Ulysses' process groups call the sequence-parallel one model-parallel.
  const Group model = in().strategy.layout.sequence > 1 ? Group::sequence : Group::tensor;
  if (!wide) state_.agree(model, Bytes(1), "overflow flag");
  state_.agree(model, Bytes(4), "gradient norm");
}

/// Of each group an fp32 list and a flat fp32 copy of its gradients; the flat copies stay.
void ReplicatedRun::step_flat() {
  std::vector<Device::Block> flat;
  for (const OptimizerGroup& group : optimizer_groups(in().rank, in().training, in().strategy)) {
    std::vector<Device::Block> list;
    // One alone is flat as it is.
    for (const std::size_t i : group.tensors)
      if (group.tensors.size() > 1)
        list.push_back(device_.allocate(Term::gradient_copy, state_.tensors()[i].elements * Bytes(4)));
    flat.push_back(device_.allocate(Term::gradient_copy, group.elements * Bytes(4)));
    device_.release(list);
    for (const std::size_t i : group.tensors) state_.release_gradient(i);
  }
  device_.release(flat);
}

void ReplicatedRun::step_each(bool first) {
  std::vector<Device::Block> copies;
  if (has_master()) {
    // The norm of each gradient is taken in fp32.
    for (const OptimizerTensor& tensor : optimized_)
      device_.spike(Term::gradient_copy, tensor.elements * Bytes(4));
    for (const OptimizerTensor& tensor : optimized_)
      copies.push_back(device_.allocate(Term::gradient_copy, tensor.elements * Bytes(4)));
  } else if (clips()) {
    clip_gradient_norm(device_, optimized_);
  }
  optimizer_step(device_, in().training, optimized_, first && !has_master());
  device_.release(copies);
  state_.release_gradients();
}

}  // namespace zplan
