#include "planner/frameworks/deepspeed/zero/partitioned_run.h"

#include <algorithm>
#include <cstdint>
#include <functional>
#include <utility>

#include "planner/frameworks/deepspeed/zero/engine_gradients.h"
#include "planner/frameworks/deepspeed/zero/rules.h"
#include "planner/frameworks/deepspeed/zero/sharding.h"
#include "planner/model_trace/reference.h"
#include "planner/sharding/optimizer_state.h"
#include "planner/step/host_time.h"

namespace zplan {

namespace {

using Kind = ModuleEvent::Kind;

Kind kind_of(Event::Kind kind) {
  switch (kind) {
    case Event::Kind::enter_module: return Kind::enter_forward;
    case Event::Kind::leave_module: return Kind::leave_forward;
    case Event::Kind::enter_backward: return Kind::enter_backward;
    case Event::Kind::leave_backward: return Kind::leave_backward;
    case Event::Kind::read_parameter: return Kind::read;
    case Event::Kind::keep_parameter: return Kind::keep;
    default: return Kind::let_go;
  }
}

/// Notes the hooks of a whole micro-step; those of a reference with an engine of its own apart.
struct HookList {
  std::vector<ModuleEvent>& events;
  const std::vector<std::int32_t>& first_module;
  std::function<std::int32_t(int layer, std::int32_t index)> number;
  HookList* reference_hooks{};
  bool in_reference{};
  std::vector<std::size_t> turns{};  ///< events before a reference's forward, and up to its end
  void reference(std::int32_t index) {
    if (index >= 0) return;
    turns.push_back(events.size());
    in_reference = index == kReferenceBegins;
  }
  /// Returns how many events the first of exactly two forwards has; 0: there are others.
  [[nodiscard]] std::int32_t first_of_two() const {
    std::vector<std::size_t> forwards;
    for (const std::size_t each : turns) {
      const auto next =
          std::find_if(events.begin() + static_cast<std::ptrdiff_t>(each), events.end(), enters);
      const bool is_forward = next != events.end() && next->kind == Kind::enter_forward;
      if (each > 0 && is_forward && (forwards.empty() || forwards.back() != each)) forwards.push_back(each);
    }
    return forwards.size() == 1 ? static_cast<std::int32_t>(forwards.front()) : 0;
  }
  void section(int, bool) {}
  void allocate(std::int32_t, Term, Bytes) {}
  void release(std::int32_t) {}
  void gradient(int, std::int32_t, std::int32_t) {}
  void part_of_gradient(int, std::int32_t, std::int32_t) {}
  void workspace(std::int32_t) {}
  void phase(Phase) {}
  void module(const Event& event, int layer) {
    if (in_reference && reference_hooks != nullptr) return reference_hooks->module(event, layer);
    const Kind kind = kind_of(event.kind);
    const bool names_module = kind <= Kind::read, names_parameter = kind >= Kind::read;
    const std::size_t part = layer < 0 ? first_module.size() - 1 : static_cast<std::size_t>(layer);
    ModuleEvent made{kind, -1, -1};
    if (names_module) made.module = first_module[part] + (names_parameter ? event.block : event.index);
    if (names_parameter) made.parameter = number(layer, event.index);
    events.push_back(made);
  }
};

/// Finds the parameters below each module, which are those that are entered while it runs. Only leaves need
/// them.
void find_subtrees(ModuleTape& tape) {
  if (std::none_of(tape.modules.begin(), tape.modules.end(), [](const auto& each) { return each.leaf; }))
    return;
  std::vector<std::int32_t> open;
  for (const ModuleEvent& event : tape.events) {
    if (event.kind == Kind::enter_backward) return;
    if (event.kind == Kind::leave_forward) open.pop_back();
    if (event.kind != Kind::enter_forward) continue;
    ShardedModule& entered = tape.modules[static_cast<std::size_t>(event.module)];
    if (open.empty() && !entered.subtree.empty()) return;  // a second forward of the same modules
    open.push_back(event.module);
    if (entered.leaf) entered.subtree = std::exchange(entered.own, {});
    const std::vector<std::int32_t> below = entered.leaf ? entered.subtree : entered.own;
    if (entered.leaf) open.pop_back();
    for (const std::int32_t each : open) {
      std::vector<std::int32_t>& subtree = tape.modules[static_cast<std::size_t>(each)].subtree;
      subtree.insert(subtree.end(), below.begin(), below.end());
    }
    if (entered.leaf) open.push_back(event.module);
  }
}

}  // namespace

namespace {

/// True if a forward without adapters, or through others, starts a new trace. The forward behind it follows
/// that trace as long as both enter the same modules.
bool begins_anew(const StepInputs& in) {
  const std::optional<ReferenceModel> kind = reference_of(in.training);
  return kind == ReferenceModel::adapters_off || kind == ReferenceModel::adapter;
}

/// True if the trace holds only the scoring forward: it is scored before the only micro-step, whose backward
/// runs past the trace's end. With more micro-steps, later ones have a whole trace that begins with the
/// scoring.
bool scores_each(const StepInputs& in) {
  return scores_policy(in.training) && in.strategy.gradient_accumulation_steps == 1 && !begins_anew(in);
}

}  // namespace

PartitionedRun::PartitionedRun(RankState& state) : state_(state), device_(state.device()) {
  number_parameters();
  policy_.options = gather_options(in().strategy);
  policy_.options.fp16 = in().training.precision == Precision::fp16;
  policy_.options.micro_steps = distinct_micro_batches(in().strategy.gradient_accumulation_steps);
  policy_.options.traces = !begins_anew(in()) && !scores_each(in());
  list_modules();
  policy_.prepare();
  if (has_reference()) reference_.prepare();
}

void PartitionedRun::Engine::prepare() {
  memory.emplace(modules, options, StepKind::first);
  of_run = gathers_of_run(modules, options);
  whole.resize(modules.parameters.size());
}

/// In the order in which they are sharded: adapters behind the whole model, which zero.Init makes, then what
/// AutoEP makes in the place of experts, then what the engine partitions of what was made anew; a model that
/// is there whole as it is named.
void PartitionedRun::number_parameters() {
  const auto made = [this](std::size_t i) {
    if (is_made_whole()) return 0;
    if (is_adapter(i)) return 1;
    if (in().training.partitions_made_models) return 0;
    const Sharing sharing = sharing_of(state_.tensors()[i], in().training, in().strategy);
    return sharing == Sharing::experts ? 2 : sharing == Sharing::remade ? 3 : 0;
  };
  numbers_.resize(state_.tensors().size());
  std::int32_t next = 0;
  for (const int when : {0, 1, 2, 3})
    for (std::size_t i = 0; i < numbers_.size(); ++i)
      if (made(i) == when) numbers_[i] = next++;
  tensors_.resize(numbers_.size());
  for (std::size_t i = 0; i < numbers_.size(); ++i) tensors_[static_cast<std::size_t>(numbers_[i])] = i;
}

bool PartitionedRun::is_adapter(std::size_t tensor) const { return state_.tensors()[tensor].added; }

bool PartitionedRun::is_made_whole() const { return in().training.method == Method::qlora; }

Elements PartitionedRun::elements(std::size_t tensor) const { return numbers_of(state_.tensors()[tensor]); }

Bytes PartitionedRun::element_size(std::size_t tensor) const {
  if (state_.tensors()[tensor].packed) return state_.tensors()[tensor].number;
  const RankTensor& of = state_.tensors()[tensor];
  return of.added && !is_made_whole() ? Bytes(of.stored.value / of.elements.value) : weight();
}

void PartitionedRun::list_modules() {
  const Tape& tape = state_.tape();
  const auto add = [&](const TapePart& part, int layer) {
    policy_.first_module.push_back(static_cast<std::int32_t>(policy_.modules.modules.size()));
    for (const TapeModule& each : part.modules) {
      ShardedModule module{.own = {}, .leaf = each.leaf};
      for (const std::int32_t index : each.own)
        module.own.push_back(numbers_[state_.tensor_of(layer, index)]);
      policy_.modules.modules.push_back(std::move(module));
    }
  };
  for (std::size_t i = 0; i < tape.layers.size(); ++i) add(tape.classes[tape.layers[i]], static_cast<int>(i));
  add(tape.model, -1);
  policy_.modules.parameters.resize(state_.tensors().size());
  for (std::size_t i = 0; i < numbers_.size(); ++i) {
    const RankTensor& tensor = state_.tensors()[i];
    const Sharing sharing = sharing_of(tensor, in().training, in().strategy);
    policy_.modules.parameters[static_cast<std::size_t>(numbers_[i])] = {
        .elements = elements(i),
        .element_size = element_size(i),
        .trainable = tensor.trainable,
        .group = static_cast<std::int32_t>(sharing),
        .ranks = static_cast<std::int32_t>(ranks_of(sharing, in().training, in().strategy))};
  }
  const bool made_apart = in().training.method != Method::full && !is_made_whole();
  if (made_apart || in().strategy.experts.enabled) policy_.modules.named = numbers_;
  mark_persistent(policy_.modules, in().strategy.zero.persistence_threshold);
  if (has_reference()) list_reference_modules();
  HookList hooks{policy_.modules.events, policy_.first_module,
                 [this](int layer, std::int32_t index) { return numbers_[state_.tensor_of(layer, index)]; }};
  HookList of_reference{reference_.modules.events, reference_.first_module,
                        [this](int layer, std::int32_t index) { return reference_tensor(layer, index); }};
  if (has_reference()) hooks.reference_hooks = &of_reference;
  const TapeLayout layout(tape);
  play(tape, layout, hooks);
  if (begins_anew(in()) || scores_each(in())) policy_.options.first_forward = hooks.first_of_two();
  find_subtrees(policy_.modules);
  if (has_reference()) find_subtrees(reference_.modules);
  waits_for_leaf_.resize(numbers_.size());
  for (const ShardedModule& each : policy_.modules.modules)
    if (each.leaf)
      for (const std::int32_t p : each.subtree)
        waits_for_leaf_[tensors_[static_cast<std::size_t>(p)]] =
            state_.tensors()[tensors_[static_cast<std::size_t>(p)]].trainable;
}

void PartitionedRun::list_reference_modules() {
  Strategy own = in().strategy;
  own.zero = own.reference_zero.value_or(own.zero);
  const ReferenceModules& modules = *state_.tape().reference;
  const auto add = [&](const std::vector<TapeModule>& part, int layer) {
    reference_.first_module.push_back(static_cast<std::int32_t>(reference_.modules.modules.size()));
    for (const TapeModule& each : part) {
      ShardedModule module{.own = {}, .leaf = each.leaf};
      for (const std::int32_t index : each.own) module.own.push_back(reference_tensor(layer, index));
      reference_.modules.modules.push_back(std::move(module));
    }
  };
  for (std::size_t i = 0; i < modules.layers.size(); ++i)
    add(modules.classes[modules.layers[i]], static_cast<int>(i));
  add(modules.model, -1);
  for (const RankTensor& each : in().rank.compared) {
    const Sharing sharing = sharing_of(each, in().training, in().strategy);
    reference_.modules.parameters.push_back(
        {.elements = each.elements,
         .element_size = weight(),
         .trainable = false,
         .group = static_cast<std::int32_t>(sharing),
         .ranks = static_cast<std::int32_t>(ranks_of(sharing, in().training, in().strategy))});
  }
  mark_persistent(reference_.modules, own.zero.persistence_threshold);
  reference_.options = gather_options(own);
  reference_.stream = kReferenceGather;
  reference_.options.fp16 = policy_.options.fp16;
  reference_.options.micro_steps = 1;
}

std::int32_t PartitionedRun::reference_tensor(int layer, std::int32_t index) const {
  const std::vector<RankTensor>& all = in().rank.compared;
  std::int32_t seen = 0;
  for (std::size_t i = 0; i < all.size(); ++i)
    if (std::max(all[i].layer, -1) == std::max(layer, -1) && seen++ == index)
      return static_cast<std::int32_t>(i);
  return 0;
}

Elements PartitionedRun::shard_of(std::size_t tensor) const { return share(elements(tensor), ranks(tensor)); }

std::int64_t PartitionedRun::ranks(std::size_t tensor) const {
  return ranks_of(state_.tensors()[tensor], in().training, in().strategy);
}

Over PartitionedRun::over(std::size_t tensor) const {
  return {group_of(sharing_of(state_.tensors()[tensor], in().training, in().strategy)), ranks(tensor)};
}

Over PartitionedRun::of_call(std::int32_t parameter, std::int64_t ranks) const {
  const auto number = static_cast<std::size_t>(parameter);
  const RankTensor& tensor =
      engine_ == &reference_ ? in().rank.compared[number] : state_.tensors()[tensors_[number]];
  return {group_of(sharing_of(tensor, in().training, in().strategy)), ranks};
}

void PartitionedRun::initialise() {
  partition_parameters();
  allocate_states();
  gather_each();
}

/// zero.Init: a parameter is made whole, sharded and let go, then the next; stacks of experts, which one
/// module holds, are all made before. Adapters come later and are sharded when the engine is made.
void PartitionedRun::partition_parameters() {
  std::vector<Device::Block> frozen, trained;
  if (is_made_whole()) {
    partition_whole_model(trained);
    return flatten_trained(trained);
  }
  const std::size_t count = state_.tensors().size();
  const auto of_one_module = [](const RankTensor& a, const RankTensor& b) {
    return a.role == TensorRole::expert && b.role == TensorRole::expert && a.layer == b.layer;
  };
  for (std::size_t first = 0, end = 0; first < count; first = end) {
    for (end = first + 1; end < count; ++end)
      if (!of_one_module(state_.tensors()[first], state_.tensors()[end])) break;
    if (!is_adapter(first)) partition(first, end, state_.tensors()[first].trainable ? trained : frozen);
  }
  if (in().model.shape.tied_embeddings) {
    std::vector<Device::Block> head;
    partition(state_.token_embedding(), state_.token_embedding() + 1, head);
    device_.release(head);
  }
  if (has_reference()) partition_reference();
  partition_adapters(trained, frozen);
  flatten_trained(trained);
}

/// zero.Init once more, of the frozen model.
void PartitionedRun::partition_reference() {
  for (const RankTensor& each : in().rank.compared) {
    Device::Block whole = device_.allocate(Term::frozen_parameters, each.elements * weight());
    if (!on_host(in().strategy.offload_parameters))
      device_.allocate(Term::frozen_parameters,
                       share(each.elements, ranks_of(each, in().training, in().strategy)) * weight());
    device_.release(whole);
  }
  if (compared_model(in().model).shape.tied_embeddings)
    device_.spike(Term::frozen_parameters, compared_embedding(in().rank).elements * weight());
}

/// Partitions a model that was made whole: transformers makes a quantised model without zero.Init, and the
/// optimizer shards it parameter by parameter. Scales of packed values are no parameters and stay whole.
/// Source: transformers 5.23 modeling_utils.py get_init_context; DeepSpeed 0.19.8 stage3.py (Init(module=…)).
void PartitionedRun::partition_whole_model(std::vector<Device::Block>& trained) {
  state_.make_parameters();
  std::vector<Device::Block> frozen;
  for (std::size_t i = 0; i < state_.tensors().size(); ++i) {
    const bool trains = state_.tensors()[i].trainable;
    make_second_shard(i, trains ? trained : frozen);
    if (!on_host(in().strategy.offload_parameters))
      (trains ? trained : frozen)
          .push_back(device_.allocate(trains ? Term::trained_parameters : Term::frozen_parameters,
                                      shard_of(i) * element_size(i)));
    state_.release_parameter(i);
  }
}

/// Trained shards pass the host on their way into one flat buffer.
void PartitionedRun::flatten_trained(std::vector<Device::Block>& trained) {
  if (on_host(in().strategy.offload_parameters)) return;
  Bytes flat{};
  for (std::size_t i = 0; i < state_.tensors().size(); ++i)
    if (state_.tensors()[i].trainable) flat += shard_of(i) * element_size(i);
  device_.release(trained);
  device_.empty_cache();
  device_.allocate(Term::trained_parameters, flat);
}

void PartitionedRun::partition(std::size_t first, std::size_t end, std::vector<Device::Block>& shards) {
  const auto term = [this](std::size_t i) {
    return state_.tensors()[i].trainable ? Term::trained_parameters : Term::frozen_parameters;
  };
  std::vector<Device::Block> whole;
  for (std::size_t i = first; i < end; ++i)
    whole.push_back(device_.allocate(term(i), state_.tensors()[i].elements * element_size(i)));
  for (std::size_t i = first; i < end; ++i) {
    make_second_shard(i, shards);
    if (!on_host(in().strategy.offload_parameters))
      shards.push_back(device_.allocate(term(i), shard_of(i) * element_size(i)));
    device_.release(whole[i - first]);
  }
}

/// Makes the shard of a parameter within secondary_partition ranks, which the first optimizer step frees. A
/// tied head's, which is made after the embedding's, is freed with the head.
void PartitionedRun::make_second_shard(std::size_t tensor, std::vector<Device::Block>& shards) {
  const std::vector<GatherBlock>& second = engine_->memory->held_before();
  if (second.empty()) return;
  const GatherBlock& asked = second[static_cast<std::size_t>(numbers_[tensor])];
  engine_->gathered.resize(second.size(), Device::kNone);
  Device::Block& held = engine_->gathered[static_cast<std::size_t>(asked.block)];
  const Device::Block made = device_.allocate(Term::gathered_parameters, asked.size);
  if (held == Device::kNone)
    held = made;
  else
    shards.push_back(made);
}

void PartitionedRun::partition_adapters(std::vector<Device::Block>& trained,
                                        std::vector<Device::Block>& frozen) {
  std::vector<std::pair<std::size_t, Device::Block>> adapters;
  for (std::size_t i = 0; i < state_.tensors().size(); ++i)
    if (is_adapter(i))
      adapters.emplace_back(
          i, device_.allocate(state_.term_of(i), state_.tensors()[i].elements * element_size(i)));
  for (auto& [tensor, whole] : adapters) {
    std::vector<Device::Block>& shards = state_.tensors()[tensor].trainable ? trained : frozen;
    make_second_shard(tensor, shards);
    if (!on_host(in().strategy.offload_parameters))
      shards.push_back(device_.allocate(state_.term_of(tensor), shard_of(tensor) * element_size(tensor)));
    device_.release(whole);
  }
}

void PartitionedRun::allocate_states() {
  const Shard& shard = in().shard;
  const bool on_device = !on_host(in().strategy.offload_optimizer);
  if (on_device) make_masters();
  device_.allocate(Term::gradient_bucket, shard.bucket);
  if (on_device) device_.allocate(Term::gradient_partition, shard.gradients);
}

/// Each sub-group is cast and then cloned; Python's variable holds a cast until the next one is there. Then
/// an optimizer step without gradients is taken with a buffer for the largest.
void PartitionedRun::make_masters() {
  const Bytes element(in().shard.master_weights.value /
                      std::max<std::int64_t>(1, in().shard.optimizer_elements.value));
  Device::Block cast = Device::kNone;
  Elements largest{};
  for (const auto& [group, sharing] : sub_groups(in().rank, in().training, in().strategy)) {
    largest = std::max(largest, group);
    // Weights of the masters' type are only cloned.
    const Device::Block next =
        element == weight() ? Device::kNone : device_.allocate(Term::master_weights, group * element);
    device_.release(cast);
    cast = next;
    device_.allocate(Term::master_weights, group * element);
  }
  device_.release(cast);
  device_.spike(Term::gradient_copy, largest * element);
}

/// Each trained parameter is gathered once, alone.
void PartitionedRun::gather_each() {
  for (std::size_t i = 0; i < state_.tensors().size(); ++i) {
    if (!state_.tensors()[i].trainable) continue;
    const Bytes shard = shard_of(i) * element_size(i);
    Device::Block whole = device_.allocate(Term::gathered_parameters, Bytes(shard.value * ranks(i)));
    if (on_host(in().strategy.offload_parameters)) device_.spike(Term::gathered_parameters, shard);
    device_.release(whole);
  }
}

void PartitionedRun::begin_forward(const Slot& slot) {
  if (slot.first()) engine_->gathers = first_step_ ? &engine_->of_run->first : &engine_->of_run->steady;
  engine_->event = 0;
  begin(engine_->gathers->micro_step(static_cast<std::size_t>(slot.micro_batch)));
}

/// The reference's engine gathers what its forward needs; what it keeps whole, it keeps from its first one
/// on.
void PartitionedRun::reference(std::int32_t index) {
  if (index == kScoringBegins) scores_ = true;
  if (!has_reference() || (scores_ && std::exchange(scores_, index != kReferenceEnds))) return;
  if (index == kReferenceBegins) {
    engine_ = &reference_;
    const RunGathers& run = *reference_.of_run;
    reference_.gathers = std::exchange(first_reference_, false) ? &run.first : &run.steady;
    reference_.event = 0;
    begin(reference_.gathers->micro_step(0));
  } else if (index == kReferenceEnds) {
    gather(INT32_MAX);
    engine_ = &policy_;
  }
}

void PartitionedRun::module(const Event& event, int layer) {
  (void)event, (void)layer;
  const ModuleEvent& hook = engine_->modules.events[static_cast<std::size_t>(engine_->event)];
  if (hook.kind < Kind::read) state_.clock().host(host_time::kModuleHook);
  if (hook.kind == Kind::leave_backward) {
    const ShardedModule& left = engine_->modules.modules[static_cast<std::size_t>(hook.module)];
    if (left.leaf)
      for (const std::int32_t each : left.subtree)
        if (const std::size_t tensor = tensors_[static_cast<std::size_t>(each)]; waits_for_leaf_[tensor])
          reduce(tensor);
  }
  gather(engine_->event++);
}

/// Starts to follow a plan's requests to the allocator.
void PartitionedRun::begin(const GatherPlan& plan) {
  engine_->asked.clear();
  engine_->next = 0;
  engine_->plan = &plan;
  engine_->next_action = 0;
  engine_->memory->play(plan, engine_->asked);
}

/// Issues the calls up to this event, and waits for those that are needed now.
void PartitionedRun::communicate(std::int32_t event) {
  using Action = GatherAction::Kind;
  if (!state_.notes_calls()) return;
  for (; engine_->next_action < engine_->plan->actions.size() &&
         engine_->plan->actions[engine_->next_action].event <= event;
       ++engine_->next_action) {
    const GatherAction& action = engine_->plan->actions[engine_->next_action];
    if (is_collective(action)) issue(action);
    if (action.kind == Action::wait || action.kind == Action::gather_now) wait(action);
  }
}

/// On a stream of their own calls wait for nothing that is computed. Quantised: values, then the scales of
/// each rank's.
void PartitionedRun::issue(const GatherAction& action) {
  const auto parameters = engine_->plan->parameters_of(action);
  const Elements whole = call_elements(parameters, engine_->modules.parameters, action.ranks);
  const Over sharers = of_call(parameters.front(), action.ranks);
  const bool queues = action.on_compute_stream || !in().strategy.overlaps_communication();
  const Instant earliest = queues ? state_.clock().computed() : Instant{};
  Instant until;
  if (action.quantized) {
    state_.issue(earliest, Operation::all_gather, whole, Bytes(1), "layer weights", sharers, "int8");
    until = state_.issue(earliest, Operation::all_gather,
                         Elements(quantized_groups(share(whole, action.ranks)) * action.ranks), Bytes(4),
                         "scales of weights", sharers);
  } else {
    until = state_.issue(
        earliest, in().strategy.zero.gather_by_all_reduce ? Operation::all_reduce : Operation::all_gather,
        whole, engine_->modules.parameters[static_cast<std::size_t>(parameters.front())].element_size,
        device_.phase() == Phase::step ? "small weights" : "layer weights", sharers);
  }
  for (const std::int32_t each : parameters) engine_->whole[static_cast<std::size_t>(each)] = until;
  if (device_.phase() == Phase::step) state_.wait(until);
}

/// Copies parameters out of a shared buffer, and widens quantised ones.
void PartitionedRun::wait(const GatherAction& action) {
  Bytes copied{};
  for (const std::int32_t each : engine_->plan->parameters_of(action)) {
    const auto parameter = static_cast<std::size_t>(each);
    state_.wait(engine_->whole[parameter]);
    if (action.placement == Placement::shared_buffer || action.quantized)
      copied += engine_->modules.parameters[parameter].elements *
                engine_->modules.parameters[parameter].element_size;
  }
  state_.clock().move(copied * 2);
}

/// Takes and gives back what is gathered and released up to this event.
void PartitionedRun::gather(std::int32_t event, Term term) {
  communicate(event);
  for (; engine_->next < engine_->asked.size() && engine_->asked[engine_->next].event <= event;
       ++engine_->next) {
    const GatherBlock& asked = engine_->asked[engine_->next];
    const auto name = static_cast<std::size_t>(asked.block);
    if (name >= engine_->gathered.size()) engine_->gathered.resize(name + 1, Device::kNone);
    if (asked.taken)
      engine_->gathered[name] =
          device_.allocate(term, asked.size, asked.on_compute_stream ? kCompute : engine_->stream);
    else
      device_.release(engine_->gathered[name]);
  }
}

void PartitionedRun::gradient(std::size_t tensor, Device::Block block) {
  state_.take_gradient(tensor, block);
  // Those of a leaf wait until its backward is through.
  if (!waits_for_leaf_[tensor]) reduce(tensor);
}

void PartitionedRun::reduce(std::size_t tensor) {
  const Elements n = state_.tensors()[tensor].elements;
  if (!pending_.empty() && !shared_alike(pending_.front(), tensor)) flush();
  if (!pending_.empty() && open_ + n > in().strategy.zero.reduce_bucket_size) flush();
  average_replicated(state_, tensor);
  pending_.push_back(tensor);
  open_ += n;
  // A gradient that fits is copied into the bucket, and becomes a view of it.
  if (open_ <= in().strategy.zero.reduce_bucket_size) state_.release_gradient(tensor);
}

/// The bucket's gradients are put one behind the other, rank by rank, and reduce-scattered; a single one that
/// divides evenly is sent as it is. Then the rank's parts are cast, where they are accumulated in fp32, and
/// brought to where they are kept.
void PartitionedRun::flush() {
  if (pending_.empty()) return;
  const Over sharers = over(pending_.front());
  const int stream = reduce_stream();
  const auto number = [this](std::size_t tensor) { return numbers_[tensor]; };
  std::sort(pending_.begin(), pending_.end(),
            [&](std::size_t a, std::size_t b) { return number(a) < number(b); });
  const bool quantizes = quantizes_gradients();
  const Bytes element = sent_gradient(in());
  Bytes padded{};
  for (const std::size_t each : pending_) padded += shard_of(each) * sharers.ranks * element;
  std::vector<Device::Block> sent = cast_to_send(), reduced, casts;
  if (quantizes) reduced = reduce_each_quantized();
  Device::Block flat = quantizes ? Device::kNone : put_in_order(padded);
  const bool as_it_is = flat == Device::kNone;
  // Experts' are averaged over all data-parallel ranks, in new memory.
  const bool rescales =
      sharers.ranks != in().strategy.layout.gradient_ranks() && sharers.group != Group::data;
  if (rescales)
    for (const std::size_t each : pending_)
      casts.push_back(device_.allocate(Term::gradient_copy, shard_of(each) * element, stream));
  if (rescales) device_.release(flat), device_.release(sent);
  if (casts_reduced()) {
    for (const std::size_t each : pending_)
      casts.push_back(device_.allocate(Term::gradient_copy, shard_of(each) * accumulated_size(), stream));
    device_.release(flat);
    device_.release(reduced);
    device_.release(sent);
  }
  for (const std::size_t each : pending_) {
    if (on_host(in().strategy.offload_optimizer)) offload(each);
    state_.release_gradient(each);
  }
  device_.release(flat);
  device_.release(reduced);
  device_.release(sent);
  device_.release(casts);
  if (!quantizes) {
    if (!as_it_is) state_.clock().move(padded * 2);
    reduced_ =
        state_.issue(state_.clock().computed(),
                     in().strategy.zero.reduce_scatter ? Operation::reduce_scatter : Operation::all_reduce,
                     Elements(padded.value / element.value), element, "gradients", sharers);
  }
  if (stream == kCompute) state_.wait(reduced_);
  pending_.clear();
  open_ = {};
}

/// Those in the bucket, which is of that type, were cast as they were copied into it.
std::vector<Device::Block> PartitionedRun::cast_to_send() {
  const bool same = sent_gradient_type(in().training, in().strategy) == in().training.precision;
  if (same || open_ <= in().strategy.zero.reduce_bucket_size) return {};
  std::vector<Device::Block> casts;
  for (const std::size_t each : pending_)
    if (state_.has_gradient(each))
      casts.push_back(device_.allocate(
          Term::bucket_copy, state_.tensors()[each].elements * sent_gradient(in()), reduce_stream()));
  return casts;
}

Device::Block PartitionedRun::put_in_order(Bytes padded) {
  const bool alone = pending_.size() == 1;
  const std::int64_t ranks = this->ranks(pending_.front());
  if (alone && state_.tensors()[pending_.front()].elements.value % ranks == 0) return Device::kNone;
  return device_.allocate(Term::bucket_copy, padded, reduce_stream());
}

bool PartitionedRun::casts_reduced() const {
  const Training& training = in().training;
  const bool wide = in().strategy.zero.fp32_gradient_accumulation;
  return sent_gradient_type(training, in().strategy) != (wide ? Precision::fp32 : training.precision);
}

bool PartitionedRun::quantizes_gradients() const {
  return zplan::quantizes_gradients(in().strategy, state_.gpus_per_node());
}

/// One by one; what one needed is replaced by what the next one needs.
/// Source: DeepSpeed 0.19.8 runtime/comm/coalesced_collectives.py all_to_all_quant_reduce.
std::vector<Device::Block> PartitionedRun::reduce_each_quantized() {
  std::vector<Device::Block> reduced, temporaries(9, Device::kNone);
  for (const std::size_t each : pending_) {
    const RankTensor& tensor = state_.tensors()[each];
    const bool divides = tensor.columns > 0 && tensor.elements.value % (2 * world()) == 0;
    divides ? reduce_quantized(tensor, temporaries, reduced) : reduce_alone(tensor, reduced);
  }
  device_.release(temporaries);
  return reduced;
}

/// Vectors, and what two times the ranks do not divide.
void PartitionedRun::reduce_alone(const RankTensor& tensor, std::vector<Device::Block>& reduced) {
  const std::int64_t ranks = in().strategy.layout.gradient_ranks();
  const Elements padded = round_up(tensor.elements, ranks);
  if (padded != tensor.elements)
    reduced.push_back(device_.allocate(Term::bucket_copy, padded * sent_gradient(in()), reduce_stream()));
  reduced_ = state_.issue(state_.clock().computed(), Operation::reduce_scatter, padded, sent_gradient(in()),
                          "gradients", ranks);
}

/// 4-bit values and their scales go around the node, are added up there, and go on between the nodes; what
/// comes of it is in fp16, whatever the training's type. Values and scales come from kernels in pairs.
void PartitionedRun::reduce_quantized(const RankTensor& tensor, std::vector<Device::Block>& temporaries,
                                      std::vector<Device::Block>& reduced) {
  const std::int64_t local = state_.gpus_per_node(), nodes = world() / local;
  const std::int64_t matrices = tensor.elements.value / (tensor.rows * tensor.columns);
  const Elements groups(std::max({tensor.rows, matrices > 1 ? matrices : tensor.columns, world()}));
  const Elements groups_of_node(groups.value / local);
  const Bytes values(tensor.elements.value / 2), values_of_node(values.value / local);
  const auto take = [&](Bytes size) { return device_.allocate(Term::bucket_copy, size, reduce_stream()); };
  const auto replace = [&](std::size_t slot, std::vector<Bytes> sizes) {
    std::vector<Device::Block> made;
    for (const Bytes size : sizes) made.push_back(take(size));
    for (const Device::Block block : made) device_.release(temporaries[slot]), temporaries[slot++] = block;
  };
  const auto exchange = [&](std::int64_t ranks, Bytes sent, Elements scales, std::int64_t stride) {
    const Instant earliest = state_.clock().computed();
    state_.issue(earliest, Operation::all_to_all, Elements(sent.value), Bytes(1), "gradients", ranks, "int8",
                 stride);
    reduced_ = state_.issue(earliest, Operation::all_to_all, scales, Bytes(4), "scales of gradients", ranks,
                            {}, stride);
  };
  replace(0, {groups * Bytes(4), values});
  replace(2, {values}), replace(3, {groups * Bytes(4)});
  exchange(local, values, groups, 1);
  replace(4, {groups_of_node * Bytes(4), values_of_node});
  replace(6, {values_of_node}), replace(7, {groups_of_node * Bytes(4)});
  exchange(nodes, values_of_node, groups_of_node, local);
  replace(8, {values_of_node * 4});
  // The nodes' parts are added up one by one, and divided.
  Device::Block sum = Device::kNone;
  for (std::int64_t i = 0; i <= nodes; ++i) {
    const Device::Block next = take(share(tensor.elements, world()) * Bytes(2));
    device_.release(sum);
    sum = next;
  }
  reduced.push_back(sum);
}

/// A gradient whose states are on the host comes back to the device, for its norm and for its copy in fp32.
void PartitionedRun::offload(std::size_t tensor) {
  constexpr Elements kNormPart{250'000'000};
  const int stream = reduce_stream();
  const Elements n = shard_of(tensor);
  Device::Block brought = device_.allocate(Term::offload_staging, n * accumulated_size(), stream);
  if (last_micro_step_) {
    for (Elements done{}; done < n; done += kNormPart)
      device_.spike(Term::norm_in_fp64, std::min(kNormPart, n - done) * Bytes(8), stream);
    if (accumulated_size() < Bytes(4)) device_.spike(Term::gradient_copy, n * Bytes(4), stream);
  }
  device_.release(brought);
}

int PartitionedRun::reduce_stream() const {
  return in().strategy.overlaps_communication() ? kReduce : kCompute;
}

Bytes PartitionedRun::accumulated_size() const {
  return in().strategy.zero.fp32_gradient_accumulation ? Bytes(4) : weight();
}

void PartitionedRun::end_backward(const Slot& /*unused*/) {
  flush();
  gather(INT32_MAX);
  state_.wait(reduced_);
}

/// torch.isinf takes the gradients' magnitudes and compares them, torch.isnan only compares.
void PartitionedRun::look_for_overflow() {
  Elements n{};
  for (const SubGroup& group : sub_groups(in().rank, in().training, in().strategy)) n += group.elements;
  const int stream = reduce_stream();
  Device::Block magnitudes = device_.allocate(Term::gradient_copy, n * accumulated_size(), stream);
  device_.spike(Term::gradient_copy, n * Bytes(1), stream);
  device_.release(magnitudes);
  device_.spike(Term::gradient_copy, n * Bytes(1), stream);
}

void PartitionedRun::norm() {
  for (std::size_t i = 0; i < state_.tensors().size(); ++i)
    if (state_.tensors()[i].trainable) device_.spike(Term::norm_in_fp64, shard_of(i) * Bytes(8));
}

/// In fp16 whether a gradient overflowed; then the norm of each sub-group by itself.
void PartitionedRun::agree() {
  if (in().training.precision == Precision::fp16)
    for (const Group group : {Group::data, Group::tensor}) state_.agree(group, Bytes(1), "overflow flag");
  const Bytes element(on_host(in().strategy.offload_optimizer) ? 4 : 8);
  for (const SubGroup& each : sub_groups(in().rank, in().training, in().strategy)) {
    const std::int64_t ranks = ranks_of(each.sharing, in().training, in().strategy);
    state_.communicate(Operation::all_reduce, Elements(1), element, "gradient norm",
                       {group_of(each.sharing), ranks});
    if (each.sharing == Sharing::experts)
      state_.agree(Group::expert, element, "gradient norm");
    else if (ranks == in().strategy.layout.gradient_ranks())  // else tensor-parallel ranks are among them
      state_.agree(Group::tensor, element, "gradient norm");
  }
}

void PartitionedRun::step(bool first) {
  const bool on_device = !on_host(in().strategy.offload_optimizer);
  if (in().training.precision == Precision::fp16 && on_device) look_for_overflow();
  // Everything is let go of at once; what is persistent is gathered when the weights are updated.
  begin(engine_->gathers->optimizer_step);
  const auto persistent =
      std::find_if(engine_->asked.begin(), engine_->asked.end(), [](const auto& each) { return each.taken; });
  std::vector<GatherBlock> behind(persistent, engine_->asked.end());
  engine_->asked.erase(persistent, engine_->asked.end());
  engine_->next_action = engine_->plan->actions.size();  // its calls come behind the update
  gather(INT32_MAX);
  agree();
  if (on_device) {
    norm();
    for (const SubGroup& group : sub_groups(in().rank, in().training, in().strategy))
      update(group.elements, first);
  }
  engine_->asked = std::move(behind);
  engine_->next = 0, engine_->next_action = 0;
  gather(INT32_MAX, Term::persistent_parameters);
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
