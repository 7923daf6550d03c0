#include "planner/frameworks/deepspeed/zero/replicated_run.h"

#include <algorithm>

#include "planner/frameworks/deepspeed/zero/engine_gradients.h"
#include "planner/frameworks/deepspeed/zero/rules.h"
#include "planner/frameworks/deepspeed/zero/sharding.h"
#include "planner/simulation/optimizer_step.h"

namespace zplan {

ReplicatedRun::ReplicatedRun(RankState& state)
    : state_(state),
      device_(state.device()),
      optimized_(optimizer_tensors(state.in().rank, state.in().training, state.in().strategy)) {}

bool ReplicatedRun::has_master() const { return in().training.precision != Precision::fp32; }

bool ReplicatedRun::flattens() const { return flattens_replicated(in().training); }

void ReplicatedRun::initialise() {
  state_.make_parameters();
  if (!has_master()) return;
  make_masters();
  make_states();
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

/// DeepSpeed's gradients are flattened, reduced and copied back, by one rank too. Source: DeepSpeed 0.19.8
/// runtime/engine.py allreduce_bucket, which asks for no group size.
void ReplicatedRun::end_backward(const Slot& slot) {
  if (!slot.last) return;
  for (std::size_t i = 0; i < state_.tensors().size(); ++i) average_replicated(state_, i);
  for (const EngineBucket& bucket : engine_buckets(in())) {
    // One tensor alone is a view.
    Device::Block flat =
        bucket.tensors > 1 ? device_.allocate(Term::bucket_copy, bucket.elements * weight()) : Device::kNone;
    if (sent_gradient_type(in().training, in().strategy) != in().training.precision)
      device_.spike(Term::bucket_copy, bucket.elements * sent_gradient(in()));
    device_.release(flat);
    state_.communicate(Operation::all_reduce, bucket.elements, sent_gradient(in()), "gradients", bucket.over);
  }
}

void ReplicatedRun::step(bool first) {
  agree();
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

/// Makes an fp32 list and a flat fp32 copy of each group's gradients. The flat copies stay.
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
