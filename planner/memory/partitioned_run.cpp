#include "planner/memory/partitioned_run.h"

#include <algorithm>

#include "planner/sharding/optimizer_state.h"

namespace zplan {

namespace {

ModuleEvent::Kind kind_of(Event::Kind kind) {
  switch (kind) {
    case Event::Kind::enter_module: return ModuleEvent::Kind::enter_forward;
    case Event::Kind::leave_module: return ModuleEvent::Kind::leave_forward;
    case Event::Kind::enter_backward: return ModuleEvent::Kind::enter_backward;
    default: return ModuleEvent::Kind::leave_backward;
  }
}

/// Notes the hooks of a whole micro-step.
struct HookList {
  std::vector<ModuleEvent>& events;
  const std::vector<std::int32_t>& first_module;
  void section(int, bool) {}
  void allocate(std::int32_t, Term, Bytes) {}
  void release(std::int32_t) {}
  void gradient(int, std::int32_t, std::int32_t) {}
  void workspace(std::int32_t) {}
  void phase(Phase) {}
  void module(const Event& event, int layer) {
    const std::size_t part = layer < 0 ? first_module.size() - 1 : static_cast<std::size_t>(layer);
    events.push_back({kind_of(event.kind), first_module[part] + event.index});
  }
};

}  // namespace

PartitionedRun::PartitionedRun(RankState& state)
    : state_(state), device_(state.device()), gathered_(state.tensors().size(), Device::kNone) {
  list_modules();
}

void PartitionedRun::list_modules() {
  const Tape& tape = state_.tape();
  const auto add = [&](const TapePart& part, int layer) {
    first_module_.push_back(static_cast<std::int32_t>(modules_.modules.size()));
    for (const std::vector<std::int32_t>& own : part.modules) {
      ShardedModule module;
      for (const std::int32_t index : own)
        module.own.push_back(static_cast<std::int32_t>(state_.tensor_of(layer, index)));
      modules_.modules.push_back(std::move(module));
    }
  };
  for (std::size_t i = 0; i < tape.layers.size(); ++i) add(tape.classes[tape.layers[i]], static_cast<int>(i));
  add(tape.model, -1);
  for (const RankTensor& tensor : state_.tensors())
    modules_.parameters.push_back(
        {.elements = tensor.elements, .element_size = weight(), .trainable = tensor.trainable});
  mark_persistent(modules_, in().strategy.zero.persistence_threshold);
  HookList hooks{modules_.events, first_module_};
  const TapeLayout layout(tape);
  play(tape, layout, hooks);
}

Elements PartitionedRun::shard_of(std::size_t tensor) const {
  return share(state_.tensors()[tensor].elements, in().strategy.data_parallel);
}

void PartitionedRun::initialise() {
  partition_parameters();
  allocate_states();
  if (in().strategy.data_parallel == 1) return;
  // Each parameter is gathered once, alone.
  for (std::size_t i = 0; i < state_.tensors().size(); ++i)
    device_.spike(Term::gathered_parameters, shard_of(i) * in().strategy.data_parallel * weight());
}

/// zero.Init: a parameter is made whole, sharded and let go, then the next.
void PartitionedRun::partition_parameters() {
  const bool tied = in().model.shape.tied_embeddings;
  std::vector<Device::Block> shards;
  const auto make = [&](std::size_t i) {
    Device::Block whole = device_.allocate(Term::trained_parameters, state_.tensors()[i].elements * weight());
    if (!on_host(in().strategy.offload_parameters))
      shards.push_back(device_.allocate(Term::trained_parameters, shard_of(i) * weight()));
    device_.release(whole);
  };
  for (std::size_t i = 0; i < state_.tensors().size(); ++i) make(i);
  if (tied) {
    make(0);
    if (!shards.empty()) device_.release(shards.back()), shards.pop_back();
  }
  // Shards pass the host on their way into one flat buffer.
  device_.release(shards);
  device_.empty_cache();
}

void PartitionedRun::allocate_states() {
  const Shard& shard = in().shard;
  if (!on_host(in().strategy.offload_parameters))
    device_.allocate(Term::trained_parameters, shard.parameters);
  const bool on_device = !on_host(in().strategy.offload_optimizer);
  if (on_device) {
    for (const Elements group : sub_groups(in().rank, in().strategy)) {
      Device::Block copy = device_.allocate(Term::master_weights, group * Bytes(4));
      device_.allocate(Term::master_weights,
                       group * Bytes(in().shard.master_weights.value /
                                     std::max<std::int64_t>(1, shard.optimizer_elements.value)));
      device_.release(copy);
    }
    for (const Elements group : sub_groups(in().rank, in().strategy))
      device_.spike(Term::gradient_copy, group * Bytes(4));
  }
  device_.allocate(Term::gradient_bucket, shard.bucket);
  if (on_device) device_.allocate(Term::gradient_partition, shard.gradients);
}

void PartitionedRun::begin_micro_step(bool last) {
  (void)last;
  if (micro_step_ == 0) {
    GatherOptions options = gather_options(in().strategy);
    options.micro_steps = std::min<std::int64_t>(in().strategy.gradient_accumulation_steps, 3);
    gathers_ = gather_actions(modules_, options, first_step_ ? StepKind::first : StepKind::steady);
  }
  event_ = 0, next_action_ = 0;
}

void PartitionedRun::module(const Event& event, int layer) {
  (void)event, (void)layer;
  do_actions(gathers_.micro_step(micro_step_), event_++);
}

void PartitionedRun::do_actions(const GatherPlan& plan, std::int32_t event) {
  for (; next_action_ < plan.actions.size() && plan.actions[next_action_].event <= event; ++next_action_)
    act(plan, plan.actions[next_action_]);
}

void PartitionedRun::act(const GatherPlan& plan, const GatherAction& action) {
  const auto parameters = plan.parameters_of(action);
  const int stream = action.on_compute_stream ? kCompute : kGather;
  if (action.call >= 0 && static_cast<std::size_t>(action.call) >= buffers_.size())
    buffers_.resize(static_cast<std::size_t>(action.call) + 1, Device::kNone);
  const auto elements_of = [&](std::int32_t i) {
    return modules_.parameters[static_cast<std::size_t>(i)].elements;
  };
  if (is_collective(action))
    state_.communicate(
        in().strategy.zero.gather_by_all_reduce ? Operation::all_reduce : Operation::all_gather,
        call_elements(parameters, modules_.parameters, action.ranks),
        modules_.parameters[static_cast<std::size_t>(parameters.front())].element_size,
        device_.phase() == Phase::step ? "small weights" : "layer weights", action.ranks);
  switch (action.kind) {
    case GatherAction::Kind::gather: {
      const Bytes size = call_elements(parameters, modules_.parameters, action.ranks) * weight();
      if (action.landing == Landing::own_buffer || action.landing == Landing::copied_shard)
        for (const std::int32_t i : parameters)
          gathered_[static_cast<std::size_t>(i)] = device_.allocate(
              Term::gathered_parameters,
              call_elements(std::span(&i, 1), modules_.parameters, action.ranks) * weight(), stream);
      else if (action.landing != Landing::shard)
        buffers_[static_cast<std::size_t>(action.call)] =
            device_.allocate(Term::gathered_parameters, size, stream);
      return;
    }
    case GatherAction::Kind::wait:
      if (action.landing == Landing::shared_buffer)
        for (const std::int32_t i : parameters)
          gathered_[static_cast<std::size_t>(i)] =
              device_.allocate(Term::gathered_parameters, elements_of(i) * weight(), stream);
      return;
    case GatherAction::Kind::drop_buffer:
      return device_.release(buffers_[static_cast<std::size_t>(action.call)]);
    case GatherAction::Kind::release:
      for (const std::int32_t i : parameters) device_.release(gathered_[static_cast<std::size_t>(i)]);
      return;
    default: return;
  }
}

void PartitionedRun::gradient(std::size_t tensor, Device::Block block) {
  const Elements n = state_.tensors()[tensor].elements;
  state_.take_gradient(tensor, block);
  if (!pending_.empty() && open_ + n > in().strategy.zero.reduce_bucket_size) flush();
  pending_.push_back(tensor);
  open_ += n;
  // What fits is copied into the bucket, and the gradient becomes a view of it.
  if (open_ <= in().strategy.zero.reduce_bucket_size) state_.release_gradient(tensor);
}

/// The bucket's gradients are put one behind the other, rank by rank, and reduce-scattered; a single one that
/// divides evenly is sent as it is.
void PartitionedRun::flush() {
  if (pending_.empty()) return;
  const std::int64_t ranks = in().strategy.data_parallel;
  const bool as_it_is =
      pending_.size() == 1 && state_.tensors()[pending_.front()].elements.value % ranks == 0;
  Elements padded{};
  for (const std::size_t each : pending_) padded += shard_of(each) * ranks;
  if (!as_it_is)
    device_.spike(Term::bucket_copy, padded * weight(),
                  in().strategy.overlaps_communication() ? kReduce : kCompute);
  state_.communicate(in().strategy.zero.reduce_scatter ? Operation::reduce_scatter : Operation::all_reduce,
                     padded, state_.sent_gradient(), "gradients");
  for (const std::size_t each : pending_) state_.release_gradient(each);
  pending_.clear();
  open_ = {};
}

void PartitionedRun::end_backward(bool last) {
  (void)last;
  flush();
  do_actions(gathers_.micro_step(micro_step_), INT32_MAX);
  ++micro_step_;
}

void PartitionedRun::norm() {
  const Bytes element(on_host(in().strategy.offload_optimizer) ? 4 : 8);
  for (const Group group : {Group::data, Group::tensor}) state_.agree(group, element, "gradient norm");
  for (std::size_t i = 0; i < state_.tensors().size(); ++i)
    if (state_.tensors()[i].trainable) device_.spike(Term::norm_in_fp64, shard_of(i) * Bytes(8));
}

void PartitionedRun::step(bool first) {
  const bool on_device = !on_host(in().strategy.offload_optimizer);
  next_action_ = 0;
  const GatherPlan& plan = gathers_.optimizer_step;
  for (; next_action_ < plan.actions.size() && plan.actions[next_action_].kind != GatherAction::Kind::gather;
       ++next_action_)
    act(plan, plan.actions[next_action_]);
  norm();
  if (on_device)
    for (const Elements group : sub_groups(in().rank, in().strategy)) update(group, first);
  for (; next_action_ < plan.actions.size(); ++next_action_) act(plan, plan.actions[next_action_]);
  micro_step_ = 0;
  first_step_ = false;
}

void PartitionedRun::update(Elements group, bool first) {
  const bool drops = drops_master(in().training, in().strategy);
  const bool fp32 = weight() == Bytes(4) || in().strategy.zero.fp32_gradient_accumulation;
  const Bytes element(drops ? 2 : 4);
  // A flat copy in the accumulation's precision, then in the optimizer's.
  Device::Block flat = device_.allocate(Term::gradient_copy, group * Bytes(fp32 ? 4 : 2));
  if (!fp32 && !drops) {
    Device::Block wide = device_.allocate(Term::gradient_copy, group * Bytes(4));
    device_.release(flat);
    flat = wide;
  }
  if (first)
    for (const Bytes state : optimizer_state_blocks(in().training, group, element))
      device_.allocate(Term::optimizer_moments, state);
  state_.optimizer_temporaries({group}, element);
  device_.release(flat);
}

}  // namespace zplan
