// Saved tensors that wait in pinned host memory (SavedHooks).

#include <algorithm>
#include <utility>

#include "planner/model_trace/autograd.h"

namespace zplan::symbolic {

namespace {

constexpr Bytes kLeastMoved{1024};       ///< min_offload_size
constexpr std::int64_t kMostStashed{5};  ///< max_fwd_stash_size

}  // namespace

SavedHooks::Known* SavedHooks::known(const Tensor& tensor) {
  const auto found = std::find_if(known_.begin(), known_.end(), [&](const Known& each) {
    return each.storage.lock() == tensor.storage && each.elements == tensor.elements() &&
           each.type == tensor.type;
  });
  return found == known_.end() ? nullptr : &*found;
}

void SavedHooks::forget(std::int64_t number) {
  std::erase_if(known_, [&](const Known& each) { return each.number == number; });
}

/// Memory that is saved twice while it is stashed stays on the device until the backward has used it. TRL
/// switches its hooks off while the output head runs (get_act_offloading_ctx_manager).
Saved SavedHooks::pack(Autograd& torch, const Tensor& tensor) {
  if (!copies_each && torch.recorder().term() == Term::logits) return {tensor, torch};
  const std::int64_t number = ++count_;
  const bool is_weight = tensor.storage == nullptr;
  if (Known* before = is_weight || copies_each ? nullptr : known(tensor)) {
    before->number = number;
    return {tensor, torch};
  }
  const bool is_gathered = copies_weights && torch.recorder().current() != Recorder::kModel;
  const bool is_parameter = is_weight && !is_gathered && !(copies_each && tensor.view);
  if (tensor.bytes() < kLeastMoved || is_parameter || (is_weight && !is_floating(tensor.type)))
    return {tensor, torch};
  const bool is_copied = !copies_each && !tensor.layout.is_contiguous();
  auto copy = std::make_shared<HostCopy>(HostCopy{number, tensor, tensor.layout, tensor.type});
  if (is_copied)
    copy->stashed = torch.operate({&tensor}, Layout::contiguous(tensor.layout.sizes), tensor.type);
  while (!stash_.empty() && stash_.front()->number <= number - kMostStashed) {
    stash_.front()->stashed.reset();
    forget(stash_.front()->number);
    stash_.erase(stash_.begin());
  }
  stash_.push_back(copy);
  if (!is_weight) known_.push_back({tensor.storage, tensor.elements(), number, tensor.type});
  torch.recorder().pin(tensor.bytes());
  return {std::move(copy), torch};
}

Tensor SavedHooks::unpack(Autograd& torch, HostCopy& copy) {
  forget(copy.number);
  if (copy.stashed.defined()) {
    fetched_now_.emplace_back();  // nothing to keep, but the node fetches
    return copy.stashed;
  }
  Tensor fetched = torch.make(copy.layout, copy.type);
  torch.drop_kernel();
  fetched_now_.push_back(fetched);
  return fetched;
}

/// What earlier nodes fetched goes behind the next node that fetches; so does what the forward left stashed.
void SavedHooks::leave_node() {
  if (fetched_now_.empty()) return;
  for (const std::shared_ptr<HostCopy>& each : stash_) each->stashed.reset(), forget(each->number);
  stash_.clear();
  fetched_ = std::move(fetched_now_);
  fetched_now_.clear();
}

void SavedHooks::leave_part() {
  for (const std::shared_ptr<HostCopy>& each : stash_) each->stashed.reset(), forget(each->number);
  stash_.clear();
  fetched_.clear();
}

}  // namespace zplan::symbolic
