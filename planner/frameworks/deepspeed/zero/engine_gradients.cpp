#include "planner/frameworks/deepspeed/zero/engine_gradients.h"

#include "planner/frameworks/deepspeed/zero/rules.h"
#include "planner/frameworks/deepspeed/zero/sharding.h"

namespace zplan {

std::vector<EngineBucket> engine_buckets(const StepInputs& in) {
  constexpr Elements kBucket{500'000'000};
  std::vector<EngineBucket> buckets;
  for (const Sharing sharing : {Sharing::dense, Sharing::experts}) {
    const Over over(group_of(sharing), ranks_of(sharing, in.training, in.strategy));
    bool open = false;
    for (const RankTensor& tensor : in.rank.tensors) {
      if (!tensor.trainable || sharing_of(tensor, in.training, in.strategy) != sharing) continue;
      if (!open || buckets.back().elements > kBucket) buckets.push_back({.elements = {}, .over = over});
      open = true;
      buckets.back().elements += tensor.elements, ++buckets.back().tensors;
    }
  }
  return buckets;
}

void average_replicated(RankState& state, std::size_t tensor) {
  const StepInputs& in = state.in();
  Device& device = state.device();
  const Bytes weight = state.weight();
  const RankTensor& of = state.tensors()[tensor];
  const bool folds = in.strategy.experts.enabled && in.strategy.layout.tensor > 1;
  if (!folds || of.divided || of.role == TensorRole::expert || !of.trainable) return;
  const bool widens = weight != Bytes(4);
  Device::Block wide = widens ? device.allocate(Term::gradient_copy, of.elements * Bytes(4)) : Device::kNone;
  state.all_reduce(Group::tensor, of.elements, Bytes(4), "replicated gradients");
  if (widens) device.spike(Term::gradient_copy, of.elements * weight);
  state.clock().move(of.elements * (weight + Bytes(4)) * 2);
  device.release(wide);
}

Bytes sent_gradient(const StepInputs& in) {
  return Bytes(sent_gradient_type(in.training, in.strategy) == Precision::fp32 ? 4 : 2);
}

}  // namespace zplan
