#include "planner/frameworks/fsdp/fsdp_run.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "planner/model_trace/reference.h"
#include "planner/step/host_time.h"

namespace zplan {

FsdpRun::FsdpRun(RankState& state)
    : state_(state),
      device_(state.device()),
      groups_(state.in().model.inventory.layers.size() + (wraps_embedding() ? 2 : 1)),
      optimized_(optimizer_tensors(state.in().rank, state.in().training, state.in().strategy)) {
  for (std::size_t i = 0; i < state.tensors().size(); ++i)
    add_to(groups_, state.tensors()[i], i, wraps_embedding());
  if (doubles_embedding()) double_embedding();
  if (misses_norm()) leave_norm();
  if (!has_reference()) return;
  const std::vector<RankTensor>& compared = state.in().rank.compared;
  const bool embeds = wraps_ends() && !reference_shape().tied_embeddings;
  reference_groups_.resize(reference_layers() + (embeds ? 2 : 1));
  for (std::size_t i = 0; i < compared.size(); ++i) add_to(reference_groups_, compared[i], i, embeds);
}

/// MixedPrecisionPolicy(param_dtype=torch.bfloat16) over fp32 shards; without one, what is stored is
/// gathered.
void FsdpRun::add_to(std::vector<ParameterGroup>& groups, const RankTensor& tensor, std::size_t index,
                     bool embeds) const {
  const bool casts = in().training.master_weights && in().training.precision != Precision::fp32;
  const Bytes stored(tensor.stored.value / tensor.elements.value);
  const bool is_embedding =
      tensor.role == TensorRole::token_embedding || tensor.role == TensorRole::position_embedding;
  ParameterGroup& group = tensor.layer >= 0        ? groups[static_cast<std::size_t>(tensor.layer)]
                          : embeds && is_embedding ? groups[groups.size() - 2]
                                                   : groups.back();
  if (tensor.packed)  // the numbers that hold its values are divided, and are not cast
    return group.parameters.push_back({.tensor = index,
                                       .shard = share(numbers_of(tensor), ranks()),
                                       .stored = tensor.number,
                                       .computed = tensor.number,
                                       .gathered = tensor.number});
  const Bytes computed = casts ? Bytes(2) : stored;
  group.parameters.push_back({.tensor = index,
                              .shard = fsdp_shard(tensor, ranks()),
                              .stored = stored,
                              .computed = computed,
                              .gathered = gathers_in_8_bits(tensor) ? Bytes(1) : computed});
}

/// Weights of the layers' linear modules (torchao's enable_fsdp_float8_all_gather).
bool FsdpRun::gathers_in_8_bits(const RankTensor& tensor) const {
  const bool is_weight = tensor.layer >= 0 && tensor.columns > 0;
  return in().training.float8 == Float8::tensorwise_gather && is_weight;
}

/// The head is in transformers' plan, and is tied to the embedding behind fully_shard: both units hold the
/// one shard, gather it and reduce a gradient of their own. Source: transformers 5.23 distributed/fsdp.py
/// _resolve_tied_embed_lm_head_plan; whole steps traced (tests/reference/fsdp_tp).
void FsdpRun::double_embedding() {
  for (Parameter& each : root().parameters) {
    if (!state_.tensors()[each.tensor].tied) continue;
    tied_head_.parameters.push_back(each);
    each.looks_up = true;
  }
}

void FsdpRun::leave_norm() {
  std::vector<Parameter>& all = root().parameters;
  const auto is_norm = [&](const Parameter& each) {
    return state_.tensors()[each.tensor].role == TensorRole::norm;
  };
  std::copy_if(all.begin(), all.end(), std::back_inserter(left_.parameters), is_norm);
  std::erase_if(all, is_norm);
}

/// transformers reduces in fp32 under fsdp_mixed_precision. Source: transformers 5.23 distributed/fsdp.py
/// _get_fsdp_policy_kwargs.
Bytes FsdpRun::reduced_size(const Parameter& parameter) const {
  const bool widens = (in().training.fsdp_reduces_fp32 || by_plan()) && parameter.stored > parameter.computed;
  return widens ? Bytes(4) : parameter.computed;
}

bool FsdpRun::has_unsummed_gradient(const Parameter& parameter) const {
  return parameter.looks_up ? parameter.gradient != Device::kNone : state_.has_gradient(parameter.tensor);
}

bool FsdpRun::has_gradient(const Parameter& parameter) const {
  return parameter.summed != Device::kNone || has_unsummed_gradient(parameter);
}

void FsdpRun::release_gradient(Parameter& parameter) {
  if (parameter.looks_up) return device_.release(parameter.gradient);
  state_.release_gradient(parameter.tensor);
}

/// Takes a tensor's gradient. The head's gradient of a tied embedding comes first in each micro-step.
void FsdpRun::gradient(std::size_t tensor, Device::Block block) {
  const auto embedding = std::ranges::find_if(
      root().parameters, [&](const Parameter& each) { return each.looks_up && each.tensor == tensor; });
  const bool is_tied = embedding != root().parameters.end();
  if (!is_tied || !std::exchange(head_arrived_, true)) return state_.take_gradient(tensor, block);
  if (embedding->gradient != Device::kNone) return device_.release(block);  // added in place
  device_.rename(block, Term::gradients);
  embedding->gradient = block;
}

// ---- parameters -------------------------------------------------------------------------------------------

void FsdpRun::initialise() {
  if (!in().training.fsdp_makes_shards)
    state_.make_parameters();
  else
    state_.make_quant_states();
  for (ParameterGroup& group : groups_) shard(group);
  shard(left_);
  if (has_reference())
    shard_reference();
  else
    state_.make_reference();  // whole on each rank, where there is one
}

void FsdpRun::shard_reference() {
  for (const ParameterGroup& group : reference_groups_)
    for (const Parameter& each : group.parameters) {
      Device::Block block = device_.allocate(Term::frozen_parameters, each.shard * each.stored);
      if (offloads()) device_.release(block);
    }
}

/// All shards of a group are made before its whole parameters are let go; offloaded ones pass through the
/// device.
void FsdpRun::shard(ParameterGroup& group) {
  for (const Parameter& each : group.parameters) {
    Device::Block block = device_.allocate(Term::trained_parameters, each.shard * each.stored);
    if (offloads()) device_.release(block);
  }
  for (const Parameter& each : group.parameters) state_.release_parameter(each.tensor);
}

/// Allocates the inputs of an all-gather where it cannot read the shards themselves: a flat copy in the type
/// that computes, or a copy per offloaded parameter, which is cast on the device.
std::vector<Device::Block> FsdpRun::gather_inputs(const ParameterGroup& group) {
  std::vector<Device::Block> inputs;
  Bytes flat{};
  for (const Parameter& each : group.parameters) {
    const bool casts = each.stored != each.gathered;
    if (offloads()) {
      Device::Block fetched = device_.allocate(Term::gathered_parameters, each.shard * each.stored, kGather);
      if (casts)
        inputs.push_back(device_.allocate(Term::gathered_parameters, each.shard * each.gathered, kGather));
      if (casts) device_.release(fetched);
      if (!casts) inputs.push_back(fetched);
    } else if (casts) {
      flat += each.shard * each.gathered;
    }
  }
  if (flat.value > 0) inputs.push_back(device_.allocate(Term::gathered_parameters, flat, kGather));
  return inputs;
}

/// Parameters of several types travel as bytes. Source: torch 2.11
/// distributed/fsdp/_fully_shard/_fsdp_collectives.py _get_param_all_gather_inputs.
Bytes FsdpRun::sent_as(const ParameterGroup& group) const {
  const Bytes first = group.parameters.front().gathered;
  const bool alike = std::all_of(group.parameters.begin(), group.parameters.end(),
                                 [&](const Parameter& each) { return each.gathered == first; });
  return alike ? first : Bytes(1);
}

void FsdpRun::gather(ParameterGroup& group) {
  if (group.is_gathered || group.is_whole || group.parameters.empty()) return;
  group.is_gathered = true;
  if (ranks() == 1) return;
  std::vector<Device::Block> inputs = gather_inputs(group);
  Bytes output{};
  for (const Parameter& each : group.parameters) output += each.shard * each.gathered * ranks();
  group.gathered = device_.allocate(Term::gathered_parameters, output, kGather);
  while (!inputs.empty()) device_.release(inputs.back()), inputs.pop_back();
  const Bytes computed = sent_as(group);
  group.arrives = state_.issue(copied_out_, Operation::all_gather, Elements(output.value / computed.value),
                               computed, "layer weights", ranks());
}

/// In the forward an all-gather's output lives until the next group has copied out, so that the next
/// all-gather can run meanwhile; in the backward it goes at once.
void FsdpRun::copy_out(ParameterGroup& group, bool in_forward) {
  if (!group.is_gathered) return;
  group.is_gathered = false, group.is_whole = true;
  if (ranks() == 1) return copy_out_alone(group);
  state_.wait(group.arrives);
  Bytes copied{};
  for (Parameter& each : group.parameters) {
    const Bytes whole = each.shard * each.gathered * ranks();
    each.whole = device_.allocate(Term::gathered_parameters, whole);
    copied += whole;
  }
  state_.clock().move(copied * 2);
  copied_out_ = state_.clock().computed();
  if (!in_forward) return device_.release(group.gathered);
  device_.release(last_gathered_);
  last_gathered_ = std::exchange(group.gathered, Device::kNone);
}

/// One rank gathers nothing: each parameter is copied by way of its cast, or of its fetched shard.
void FsdpRun::copy_out_alone(ParameterGroup& group) {
  Device::Block earlier = Device::kNone;
  for (Parameter& each : group.parameters) {
    const Bytes size = each.shard * each.gathered;
    Device::Block fetched =
        offloads() ? device_.allocate(Term::gathered_parameters, each.shard * each.stored) : Device::kNone;
    Device::Block input = fetched;
    if (each.stored != each.gathered) {
      input = device_.allocate(Term::gathered_parameters, size);
      device_.release(fetched);
    }
    device_.release(earlier);
    earlier = input;
    each.whole = device_.allocate(Term::gathered_parameters, size);
  }
  device_.release(earlier);
}

void FsdpRun::reshard(ParameterGroup& group) {
  if (!group.is_whole) return;
  for (Parameter& each : group.parameters) device_.release(each.whole);
  group.is_whole = false;
}

// ---- a micro-step -----------------------------------------------------------------------------------------

void FsdpRun::begin_forward(const Slot& slot) {
  in_backward_ = false;
  if (slot.first() && counts_trainer()) state_.count_tokens();
  ParameterGroup& first = wraps_embedding() ? embedding() : root();
  for (ParameterGroup* each : {&left_, &tied_head_, &first}) {
    gather(*each);
    copy_out(*each, true);
  }
}

void FsdpRun::section(int layer, bool backward) {
  leave_group();
  const bool is_behind_layers = open_ >= 0 && layer < 0;
  open_ = layer, in_backward_ = backward;
  if (wraps_embedding()) pass_ends(layer, backward, is_behind_layers);
  if (layer < 0) return;
  if (ranks() > 1) state_.clock().host(backward ? host_time::kGroupBackward : host_time::kGroupForward);
  if (backward) return before_backward(static_cast<std::size_t>(layer));
  ParameterGroup& group = groups_[static_cast<std::size_t>(layer)];
  gather(group);
  copy_out(group, true);
}

/// Runs the units before and behind the layers.
void FsdpRun::pass_ends(int layer, bool backward, bool is_behind_layers) {
  if (is_behind_layers) {
    ParameterGroup& next = backward ? embedding() : root();
    gather(next);
    copy_out(next, !backward);
  }
  if (!backward && layer == 0 && reshards_after_forward()) reshard(embedding());
  if (backward && layer + 1 == static_cast<int>(layers())) after_backward(root());
}

void FsdpRun::leave_group() {
  if (open_ < 0) return;
  ParameterGroup& group = groups_[static_cast<std::size_t>(open_)];
  if (in_backward_)
    after_backward(group);
  else if (reshards_after_forward())
    reshard(group);
}

/// A loss that is computed behind the model's forward finds the root resharded, and the last all-gather's
/// output freed. Source: torch 2.11 distributed/fsdp/_fully_shard/_fsdp_state.py _post_forward.
void FsdpRun::leave_forward() {
  if (reshards_after_forward() && !wraps_ends()) reshard(root());
  device_.release(last_gathered_);
}

/// The forward of the copy's groups, or once more of the policy's where its adapters are switched off.
void FsdpRun::reference(std::int32_t index) {
  if (index == kScoringBegins) scores_ = true;
  const bool own = has_reference() && !scores_;
  if (index == kReferenceEnds) scores_ = false;
  std::vector<ParameterGroup>& groups = own ? reference_groups_ : groups_;
  const auto run = [&](ParameterGroup& group) { gather(group), copy_out(group, true); };
  if (index == kReferenceBegins && distils(in().training)) leave_forward();
  const bool apart = !own && !in().rank.compared.empty() && !scores_;  // a teacher that is not sharded
  if (apart) return;
  const std::size_t ends = own ? reference_layers() : layers();
  if (index == kReferenceBegins || index == kScoringBegins)
    for (std::size_t i = ends; i < groups.size(); ++i) run(groups[i]);
  if (reference_layer_ >= 0 && (own || reshards_after_forward()))
    reshard(groups[static_cast<std::size_t>(reference_layer_)]);
  reference_layer_ = index;
  if (index >= 0) return run(groups[static_cast<std::size_t>(index)]);
  if (index != kReferenceEnds || !own) return;
  for (std::size_t i = ends; i < groups.size(); ++i) reshard(groups[i]);
  if (distils(in().training)) device_.release(last_gathered_);
}

/// The root's forward ends with the loss; its backward begins with the loss's.
void FsdpRun::phase(Phase phase) {
  if (phase != Phase::loss_backward) return;
  if (in().training.zeroes_behind_forward && is_first_backward_) zero_gradients();
  is_first_backward_ = false;
  if (reshards_after_forward() && !wraps_ends()) reshard(root());
  device_.release(last_gathered_);
  if (!wraps_ends()) before_backward(groups_.size() - 1);
}

/// The root's hook is on the loss, the head's unit's on the logits.
void FsdpRun::module(const Event& event, int layer) {
  if (layer < 0 && event.kind == Event::Kind::enter_backward && event.index == kHeadUnit)
    before_backward(groups_.size() - 1);
}

/// The group that ran before this one in the forward is gathered ahead.
void FsdpRun::before_backward(std::size_t group) {
  gather(groups_[group]);
  copy_out(groups_[group], false);
  if (group >= layers())
    gather(groups_[layers() - 1]);
  else if (group > 0)
    gather(groups_[group - 1]);
  else if (wraps_embedding())
    gather(embedding());
}

/// DTensor makes the gradient of a lookup's whole table on every tensor-parallel rank.
bool FsdpRun::has_whole_gradient(const Parameter& parameter) const {
  if (!by_plan() || &parameter == tied_head_.parameters.data()) return false;
  return state_.tensors()[parameter.tensor].role == TensorRole::token_embedding;
}

/// Keeps the rank's rows of such a gradient. Source: torch 2.11 distributed/fsdp/_fully_shard/_fsdp_param.py
/// _get_grad_inner_tensor.
void FsdpRun::divide_whole_gradients(ParameterGroup& group) {
  for (Parameter& each : group.parameters) {
    if (!has_whole_gradient(each) || !has_gradient(each)) continue;
    const bool is_summed = each.summed != Device::kNone;
    const Bytes element = is_summed ? reduced_size(each) : each.computed;
    const Device::Block own =
        device_.allocate(Term::gradients, state_.tensors()[each.tensor].elements * element);
    if (is_summed) {
      device_.release(each.summed);
      each.summed = own;
      continue;
    }
    release_gradient(each);
    if (each.looks_up)
      each.gradient = own;
    else
      state_.take_gradient(each.tensor, own);
  }
}

void FsdpRun::after_backward(ParameterGroup& group) {
  for (Parameter& each : group.parameters)
    if (each.summed != Device::kNone) release_gradient(each);  // added to the sum
  if (reduces()) divide_whole_gradients(group);
  reshard(group);
  if (reduces())
    reduce(group);
  else
    keep_sums(group);
}

/// Without reduction a gradient stays whole, in the type that it would be reduced in.
void FsdpRun::keep_sums(ParameterGroup& group) {
  for (Parameter& each : group.parameters) {
    if (!has_unsummed_gradient(each) || reduced_size(each) == each.computed) continue;
    const std::int64_t copies = has_whole_gradient(each) ? in().strategy.layout.tensor : 1;
    const Elements whole = state_.tensors()[each.tensor].elements * copies;
    each.summed = device_.allocate(Term::fp32_gradients, whole * reduced_size(each));
    release_gradient(each);
  }
}

void FsdpRun::reduce(ParameterGroup& group) {
  constexpr std::int64_t kIndexed = 2048;  // bytes that one entry of _chunk_cat's table stands for
  std::vector<std::size_t> with_gradient;
  Elements shards{};
  Bytes element{}, stored{};
  std::int64_t entries = 2;
  for (std::size_t i = 0; i < group.parameters.size(); ++i) {
    const Parameter& each = group.parameters[i];
    if (!has_gradient(each)) continue;
    with_gradient.push_back(i);
    element = reduced_size(each), stored = each.stored;
    shards += each.shard;
    entries += share(each.shard * element, kIndexed).value + 6;
  }
  if (with_gradient.empty()) return;
  device_.release(last_reduced_);
  Device::Block input = device_.allocate(Term::gradient_bucket, shards * element * ranks());
  device_.spike(Term::bucket_copy, Bytes(8) * entries);
  state_.wait(reduced_);
  state_.clock().move(shards * (element + weight()) * ranks());
  reduced_ = state_.issue(state_.clock().computed(), Operation::reduce_scatter, shards * ranks(), element,
                          "gradients", ranks());
  // Python's loop variable holds the last gradient until the end.
  const std::size_t held = with_gradient.back();
  if (ranks() > 1) with_gradient.pop_back();
  release_gradients(group, std::move(with_gradient));
  Device::Block reduced = device_.allocate(Term::gradient_partition, shards * element, kReduce);
  if (defers_replicas() && keeps_partial(group, reduced)) {
    release_gradients(group, {held});
    last_reduced_ = input;
    return;
  }
  if (replicates())
    reduced_ = state_.issue(reduced_, Operation::all_reduce, shards, element, "gradients",
                            in().strategy.layout.replicate, {}, ranks());
  if (element != stored) {
    const Device::Block cast =
        device_.allocate(Term::gradient_partition, shards * stored, replicates() ? kReplicate : kReduce);
    drop_reduced(reduced, replicates());
    reduced = cast;
  }
  take_reduced(group, reduced, replicates() && element == stored);
  release_gradients(group, {held});
  last_reduced_ = input;
}

/// Keeps what a micro-step before the last reduced within a replica; adds it to the last one's. Source: torch
/// 2.11 distributed/fsdp/_fully_shard/_fsdp_collectives.py foreach_reduce.
bool FsdpRun::keeps_partial(ParameterGroup& group, Device::Block reduced) {
  const bool is_first = group.partial == Device::kNone;
  if (!last_micro_step_ && is_first) group.partial = reduced;
  if (!last_micro_step_ && !is_first) device_.release(reduced);
  if (last_micro_step_) device_.release(group.partial);
  return !last_micro_step_;
}

void FsdpRun::release_gradients(ParameterGroup& group, std::vector<std::size_t> parameters) {
  for (; !parameters.empty(); parameters.pop_back()) {
    Parameter& each = group.parameters[parameters.back()];
    device_.release(each.summed);
    release_gradient(each);
  }
}

/// Kept, added to what earlier micro-steps left, or copied to the host.
void FsdpRun::take_reduced(ParameterGroup& group, Device::Block reduced, bool all_reduced) {
  if (in().training.steps_in_backward && !offloads()) {
    step_group(group);
    return drop_reduced(reduced, all_reduced);
  }
  if (offloads() || group.gradients != Device::kNone) return drop_reduced(reduced, all_reduced);
  group.gradients = reduced;
}

/// Runs the hooks behind the group's gradients, each an optimizer of its own. Source: torch 2.11
/// distributed/fsdp/_fully_shard/_fsdp_collectives.py foreach_reduce (_post_accumulate_grad_hooks); torchtune
/// 0.7 training/memory.py register_optim_in_bwd_hooks.
void FsdpRun::step_group(const ParameterGroup& group) {
  const auto& tensors = state_.tensors();
  if (stepped_.empty()) stepped_.resize(tensors.size());
  for (const Parameter& each : group.parameters) {
    if (!has_gradient(each)) continue;
    const auto place =
        std::count_if(tensors.begin(), tensors.begin() + static_cast<std::ptrdiff_t>(each.tensor),
                      [](const RankTensor& before) { return before.trainable; });
    optimizer_step(device_, in().training, {optimized_[static_cast<std::size_t>(place)]},
                   !stepped_[each.tensor]);
    stepped_[each.tensor] = true;
  }
}

/// Releases a reduced gradient; after an all-reduce it stays until the backward is over.
void FsdpRun::drop_reduced(Device::Block reduced, bool all_reduced) {
  if (!all_reduced) return device_.release(reduced);
  all_reduced_.push_back(reduced);
}

void FsdpRun::end_backward(const Slot& /*unused*/) {
  if (doubles_embedding()) after_backward(tied_head_);
  after_backward(wraps_embedding() ? embedding() : root());
  after_backward(left_);
  state_.wait(reduced_);
  device_.release(last_reduced_);
  device_.release(all_reduced_);
}

void FsdpRun::step(bool first) {
  is_first_backward_ = true;
  if (counts_trainer()) sum_norms();
  if (offloads() || in().training.steps_in_backward) return;
  clip_gradient_norm(device_, optimized_);
  optimizer_step(device_, in().training, optimized_, first);
  if (!in().training.zeroes_behind_forward) zero_gradients();
}

/// DTensor's norm of all parameters' norms; where some are divided by tensor-parallel ranks and some not, one
/// for each mesh, a call for each of its dimensions. Source: transformers 5.23 trainer.py
/// _mixed_mesh_grad_norm.
void FsdpRun::sum_norms() {
  const auto& tensors = state_.tensors();
  const auto trained = std::ranges::count_if(tensors, [](const RankTensor& each) { return each.trainable; });
  const auto divided =
      std::ranges::count_if(tensors, [](const RankTensor& each) { return each.trainable && each.divided; });
  const Bytes element = optimized_.front().element;
  const auto sum = [&](std::int64_t norms, Over over) {
    if (norms > 0 && over.ranks > 1)
      state_.wait(state_.issue(state_.clock().computed(), Operation::all_reduce, Elements(norms), element,
                               "gradient norm", over));
  };
  if (!by_plan()) return sum(static_cast<std::int64_t>(optimized_.size()), ranks());
  sum(divided, ranks());
  sum(divided, {Group::tensor, in().strategy.layout.tensor});
  sum(trained - divided, ranks());
}

void FsdpRun::zero_gradients() {
  device_.release(tied_head_.gradients);
  device_.release(left_.gradients);
  for (ParameterGroup& group : groups_) device_.release(group.gradients);
}

}  // namespace zplan
