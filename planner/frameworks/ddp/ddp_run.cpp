#include "planner/frameworks/ddp/ddp_run.h"

#include <algorithm>
#include <utility>

#include "planner/simulation/optimizer_step.h"

namespace zplan {

DdpRun::DdpRun(RankState& state)
    : state_(state),
      device_(state.device()),
      optimized_(optimizer_tensors(state.in().rank, state.in().training, state.in().strategy)) {}

void DdpRun::initialise() {
  state_.make_parameters();
  if (!is_distributed()) return;
  broadcast_parameters();
  // Until the first backward has shown the order of gradients there is one bucket for all.
  Bytes all{};
  for (const OptimizerTensor& tensor : optimized_) all += tensor.elements * tensor.element;
  buckets_.push_back(device_.allocate(Term::gradient_bucket, all));
}

/// Rank 0's parameters go to all in buckets of at least 250 MiB, two of them under way; a tensor alone in its
/// bucket is sent as it lies. Source: torch 2.11 torch/csrc/distributed/c10d/comm.cpp broadcast_coalesced.
void DdpRun::broadcast_parameters() {
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

bool DdpRun::reduces(const Slot& slot) const {
  return is_distributed() && (slot.last || in().training.syncs_each_micro_step);
}

void DdpRun::begin_forward(const Slot& slot) {
  const bool seen = !optimized_.empty() && ready_order_.size() == optimized_.size();
  if (reduces(slot) && seen && !rebuilt_) rebuild_buckets();
}

void DdpRun::begin_backward(const Slot& slot) { reduces_ = reduces(slot), first_bucket_ = true; }

/// In the order in which gradients came, a first bucket of 1 MiB and further ones of 25 MiB; the one that
/// fills a bucket belongs to it.
std::vector<Bytes> DdpRun::bucket_sizes() const {
  std::vector<Bytes> sizes;
  Bytes open{};
  for (const std::size_t each : ready_order_) {
    open += state_.tensors()[each].stored;
    if (open >= bucket_limit(sizes.empty())) sizes.push_back(std::exchange(open, Bytes{}));
  }
  if (open.value > 0) sizes.push_back(open);
  return sizes;
}

Bytes DdpRun::bucket_limit(bool first) {
  constexpr Bytes kFirst = kMiB;
  constexpr Bytes kFurther{std::int64_t{25} << 20};
  return first ? kFirst : kFurther;
}

void DdpRun::send() {
  const Bytes element = gradient_element();
  state_.clock().move(open_ * 2);
  reduced_ =
      state_.issue(state_.clock().computed(), Operation::all_reduce, Elements(open_.value / element.value),
                   element, "gradients", in().strategy.layout.gradient_ranks());
  open_ = {}, first_bucket_ = false;
}

Bytes DdpRun::gradient_element() const { return optimized_.empty() ? state_.weight() : optimized_.front().element; }

void DdpRun::rebuild_buckets() {
  device_.release(buckets_);
  for (const Bytes each : bucket_sizes()) buckets_.push_back(device_.allocate(Term::gradient_bucket, each));
  rebuilt_ = true;
}

void DdpRun::gradient(std::size_t tensor, Device::Block block) {
  if (is_distributed() && ready_order_.size() < optimized_.size()) ready_order_.push_back(tensor);
  state_.take_gradient(tensor, block);
  if (in().training.steps_in_backward) return step_one(tensor);
  if (!reduces_) return;
  open_ += state_.tensors()[tensor].stored;
  if (open_ >= bucket_limit(first_bucket_)) send();
}

void DdpRun::end_backward() {
  if (!reduces_) return;
  if (open_.value > 0) send();
  state_.wait(reduced_);
}

/// An optimizer of its own for each parameter, in a hook behind its gradient. Source: torchtune 0.6
/// training/memory.py register_optim_in_bwd_hooks.
void DdpRun::step_one(std::size_t tensor) {
  if (stepped_.empty()) stepped_.resize(state_.tensors().size());
  const auto place =
      std::count_if(state_.tensors().begin(), state_.tensors().begin() + static_cast<std::ptrdiff_t>(tensor),
                    [](const RankTensor& each) { return each.trainable; });
  const bool first = !stepped_[tensor];
  stepped_[tensor] = true;
  optimizer_step(device_, in().training, {optimized_[static_cast<std::size_t>(place)]}, first);
  state_.release_gradient(tensor);
}

void DdpRun::step(bool first) {
  if (in().training.steps_in_backward) return;
  if (in().strategy.zero.gradient_clipping > 0) clip_gradient_norm(device_, optimized_);
  optimizer_step(device_, in().training, optimized_, first);
  state_.release_gradients();
}

}  // namespace zplan
