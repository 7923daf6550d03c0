#include "planner/frameworks/deepspeed/zero/coordinator.h"

#include <list>
#include <memory>
#include <mutex>
#include <utility>

namespace zplan {

namespace {

constexpr std::int32_t kNone = TracedUse::kNone;

bool contains(std::span<const std::int32_t> list, std::int32_t value) {
  return std::find(list.begin(), list.end(), value) != list.end();
}

bool is_forward(const ModuleEvent& event) {
  return event.kind == ModuleEvent::Kind::enter_forward || event.kind == ModuleEvent::Kind::leave_forward;
}

enum class Status : std::uint8_t { sharded, in_flight, whole };

/// A parameter as the coordinator sees it.
struct State {
  Status status{Status::sharded};
  bool secondary{};                 ///< a second shard lies within secondary_partition ranks
  std::int32_t active{};            ///< modules that need it now
  std::int32_t group{kNone};        ///< that brings it, until the first module that needs it has waited
  std::int32_t fetched_for{kNone};  ///< latest step that the queue has given it out for
  std::int32_t next_use{kNone};     ///< at this step or later
};

struct GatherCall {
  Placement placement{};
  std::int32_t ranks{};
  std::int32_t first{}, count{};  ///< of Coordinator::gathered_
  bool quantized{};
};

/// Parameters that were asked for together; one call, or several.
struct CallGroup {
  std::int32_t first_call{}, calls{};
  std::int32_t first{}, count{};  ///< of Coordinator::gathered_
  std::int32_t unclaimed{};       ///< parameters that no module has waited for
  bool waited{};
};

/// DeepSpeed's PartitionedParameterCoordinator over one optimizer step after another.
class Coordinator {
 public:
  Coordinator(const ModuleTape& tape, const GatherOptions& options);

  [[nodiscard]] GatherPlan micro_step();
  [[nodiscard]] GatherPlan optimizer_step();
  /// True if the next micro-step equals the last one, because it starts from the same state.
  [[nodiscard]] bool repeats() const { return repeats_; }

 private:
  using Kind = GatherAction::Kind;

  [[nodiscard]] const ShardedParameter& parameter(std::int32_t p) const { return at(tape_.parameters, p); }
  [[nodiscard]] std::int32_t ranks_of(std::int32_t p) const {
    const std::int32_t own = parameter(p).ranks;
    return own > 0 ? own : static_cast<std::int32_t>(options_.data_parallel);
  }
  [[nodiscard]] std::span<const std::int32_t> hooked(std::int32_t module) const { return hooked_.of(module); }
  [[nodiscard]] std::span<const std::int32_t> gathered(std::int32_t first, std::int32_t count) const {
    return std::span(gathered_).subspan(static_cast<std::size_t>(first), static_cast<std::size_t>(count));
  }

  GatherAction& act(Kind kind, std::span<const std::int32_t> parameters);
  void act_on_call(Kind kind, std::int32_t call);
  void act_on_released();

  // A micro-step.
  void reset();
  void follow_forward();
  void lose_trace();
  [[nodiscard]] bool starts_as_before() const;
  void play(const ModuleEvent& event);
  void read(const ModuleEvent& event);
  void enter(const ModuleEvent& event);
  void leave(const ModuleEvent& event);
  void leave_backward(std::int32_t module);
  void release_leftovers();

  // Gathering.
  void gather(std::vector<std::int32_t>& wanted);
  void gather_group(std::span<const std::int32_t> wanted, bool secondary);
  void issue_by_group(const CallGroup& group, bool secondary);
  void issue(const CallGroup& group, std::int32_t ranks, bool secondary);
  void issue_by_type(const CallGroup& group, std::int32_t ranks);
  void add_call(Placement placement, std::int32_t ranks, std::int32_t first, std::int32_t count,
                bool quantized = false);
  void await(std::int32_t p);
  void activate(std::int32_t module, bool recomputing);
  void note_recomputed(std::int32_t owner, std::int32_t p);
  void take_from_queue(std::int32_t module);
  void prefetch();

  // Letting go.
  void decide(std::int32_t module);
  [[nodiscard]] bool goes(std::int32_t module, std::int32_t p) const;
  [[nodiscard]] bool used_soon(std::int32_t p) const;
  [[nodiscard]] bool used_soon_below(std::int32_t p) const;
  void deactivate(std::int32_t module);
  void release_recomputed(std::int32_t module);
  void release(std::int32_t p);
  void gather_persistent();
  void drop_secondaries();

  const ModuleTape& tape_;
  GatherOptions options_;
  HookedParameters hooked_;
  Trace trace_;
  std::vector<std::int32_t> followed_;  ///< modules that the first forward entered, where a second follows it
  GatherPlan plan_;

  // State of the whole run.
  bool recorded_{};  ///< the trace is complete from the second micro-step on
  bool decided_{};   ///< DeepSpeed caches what is released when, from the first micro-step with a trace
  std::vector<State> states_;
  std::vector<std::uint8_t> active_slots_;             ///< whether a module needs its parameter, by its list
  std::vector<std::vector<std::int32_t>> recomputed_;  ///< by module whose backward recomputes frozen ones
  std::vector<std::int32_t> backward_;                 ///< modules in their backward
  std::vector<std::uint8_t> in_backward_;              ///< by module: the same
  std::vector<std::uint8_t> decisions_;                ///< to release or keep, in order of the tape

  // State of a step.
  std::vector<GatherCall> calls_;
  std::vector<CallGroup> groups_;
  std::vector<std::int32_t> gathered_;  ///< parameters of calls and groups

  // State of a micro-step.
  std::int32_t event_{};
  std::int32_t step_{};  ///< modules entered so far
  std::size_t queue_{};  ///< next of Trace::uses to fetch
  std::size_t decision_{};
  /// By module: the step at which it was last left, and where its decisions are.
  std::vector<std::pair<std::int32_t, std::size_t>> decided_at_;
  std::int64_t available_{};
  std::vector<State> start_;
  std::vector<std::uint8_t> start_active_;
  bool repeats_{};
  std::vector<std::int32_t> wanted_, released_, scratch_;
};

Coordinator::Coordinator(const ModuleTape& tape, const GatherOptions& options)
    : tape_(tape), options_(options), hooked_(tape) {
  // DeepSpeed 0.19.8 runtime/engine.py _configure_zero_optimizer.
  if (options_.one_by_one) options_.prefetch_bucket_size = Elements(1);
  // The shards within a node are there from initialisation on.
  states_.assign(tape.parameters.size(), State{.secondary = options.secondary_partition > 1});
  active_slots_.resize(hooked_.slots());
  recomputed_.resize(tape.modules.size());
  in_backward_.resize(tape.modules.size());
}

// ---- actions

GatherAction& Coordinator::act(Kind kind, std::span<const std::int32_t> parameters) {
  GatherAction& action = plan_.actions.emplace_back();
  action.kind = kind;
  action.event = event_;
  action.first = size_of(plan_.parameters);
  action.count = size_of(parameters);
  plan_.parameters.insert(plan_.parameters.end(), parameters.begin(), parameters.end());
  return action;
}

void Coordinator::act_on_call(Kind kind, std::int32_t number) {
  const GatherCall& call = at(calls_, number);
  GatherAction& action = act(kind, gathered(call.first, call.count));
  action.placement = call.placement;
  action.call = number;
  action.ranks = call.ranks;
  action.quantized = call.quantized;
}

void Coordinator::act_on_released() {
  if (released_.empty()) return;
  std::sort(released_.begin(), released_.end());
  act(Kind::release, released_);
  if (options_.secondary_partition > 1) {
    std::erase_if(released_, [&](std::int32_t p) { return std::exchange(at(states_, p).secondary, true); });
    if (!released_.empty()) act(Kind::keep_secondary, released_);
  }
  released_.clear();
}

// ---- a micro-step

/// reset_step, at the start of the model's forward.
void Coordinator::reset() {
  for (std::int32_t p = 0; p < size_of(states_); ++p) {
    if (at(states_, p).group == kNone) continue;
    await(p);
    release(p);
  }
  act_on_released();
  for (std::int32_t p = 0; p < size_of(states_); ++p) {
    at(states_, p).fetched_for = kNone;
    if (recorded_) at(states_, p).next_use = at(trace_.first_use, p);
  }
  step_ = 0, queue_ = 0, decision_ = 0, available_ = 0;
  decided_at_.assign(tape_.modules.size(), {kNone, 0});
}

/// Two micro-steps that start alike, with decisions already made, are alike.
bool Coordinator::starts_as_before() const {
  const auto alike = [](const State& a, const State& b) {
    return a.status == b.status && a.secondary == b.secondary && a.active == b.active && a.group == kNone &&
           b.group == kNone;
  };
  return decided_ && active_slots_ == start_active_ &&
         std::equal(states_.begin(), states_.end(), start_.begin(), alike);
}

GatherPlan Coordinator::micro_step() {
  plan_ = {};
  plan_.actions.reserve(tape_.events.size());
  plan_.parameters.reserve(tape_.events.size());
  event_ = 0;
  start_ = states_;
  start_active_ = active_slots_;
  if (recorded_ && !decided_) trace_ = trace_of(tape_, hooked_);
  reset();
  for (; event_ < size_of(tape_.events); ++event_) {
    if (event_ == options_.first_forward && event_ > 0) follow_forward();
    play(at(tape_.events, event_));
  }
  release_leftovers();
  decided_ = recorded_;
  recorded_ = options_.traces;
  repeats_ = starts_as_before();
  return std::move(plan_);
}

/// The second forward begins with a trace of the first.
void Coordinator::follow_forward() {
  ModuleTape first = tape_;
  first.events.resize(static_cast<std::size_t>(options_.first_forward));
  followed_.clear();
  for (const ModuleEvent& event : first.events)
    if (enters(event)) followed_.push_back(event.module);
  trace_ = trace_of(first, hooked_);
  recorded_ = true;
  reset();
}

/// _invalidate_trace: what is in flight is waited for and released, one call after the other; the buffers go
/// together at the end.
void Coordinator::lose_trace() {
  recorded_ = false;
  std::vector<std::int32_t> buffers;
  for (std::int32_t i = 0; i < size_of(groups_); ++i) {
    CallGroup& group = at(groups_, i);
    if (std::exchange(group.unclaimed, 0) == 0) continue;
    const bool waited = std::exchange(group.waited, true);
    for (std::int32_t call = group.first_call; call < group.first_call + group.calls; ++call) {
      if (!waited) act_on_call(Kind::wait, call);
      if (at(calls_, call).placement == Placement::shared_buffer) buffers.push_back(call);
    }
    for (const std::int32_t p : gathered(group.first, group.count)) {
      if (!waited) at(states_, p).status = Status::whole;
      if (std::exchange(at(states_, p).group, kNone) != kNone) release(p);
    }
    act_on_released();
  }
  for (const std::int32_t call : buffers) act_on_call(Kind::drop_buffer, call);
}

void Coordinator::play(const ModuleEvent& event) {
  switch (event.kind) {
    case ModuleEvent::Kind::enter_forward:
    case ModuleEvent::Kind::enter_backward: enter(event); break;
    case ModuleEvent::Kind::leave_forward:
    case ModuleEvent::Kind::leave_backward: leave(event); break;
    case ModuleEvent::Kind::read: read(event); break;
    case ModuleEvent::Kind::keep: act(Kind::keep, {&event.parameter, 1}); break;
    case ModuleEvent::Kind::let_go: act(Kind::let_go, {&event.parameter, 1}); break;
  }
}

/// ZeROOrderedDict.__getitem__. Once the trace is complete DeepSpeed stops with a tracing error where that
/// makes a module's parameters others than the trace's; here the trace stays.
void Coordinator::read(const ModuleEvent& event) {
  State& state = at(states_, event.parameter);
  if (state.status != Status::sharded) return;
  if (!recorded_) hooked_.add(event.module, event.parameter);
  gathered_.push_back(event.parameter);
  add_call(Placement::own_buffer, ranks_of(event.parameter), size_of(gathered_) - 1, 1);
  plan_.actions.back().kind = Kind::gather_now;
  plan_.actions.back().on_compute_stream = true;
  state.status = Status::whole;
}

/// fetch_sub_module.
void Coordinator::enter(const ModuleEvent& event) {
  const bool forward = is_forward(event);
  const bool follows = recorded_ && options_.first_forward > 0;
  if (follows && (step_ >= size_of(followed_) || at(followed_, step_) != event.module)) lose_trace();
  if (!forward && !std::exchange(at(in_backward_, event.module), true)) backward_.push_back(event.module);
  wanted_.clear();
  for (const std::int32_t p : hooked(event.module))
    if (at(states_, p).status == Status::sharded) wanted_.push_back(p);
  gather(wanted_);
  activate(event.module, forward && !backward_.empty());
  if (recorded_) {
    take_from_queue(event.module);
    prefetch();
  }
  ++step_;
}

/// Marks what the module needs and waits for it. Frozen parameters of a recomputation are charged to the
/// module whose backward asked for it: no backward of their own may come.
void Coordinator::activate(std::int32_t module, bool recomputing) {
  std::int32_t slot = hooked_.slot(module);
  for (const std::int32_t p : hooked(module)) {
    if (!std::exchange(at(active_slots_, slot++), true)) ++at(states_, p).active;
    if (recomputing && !parameter(p).trainable) note_recomputed(backward_.back(), p);
    if (at(states_, p).group != kNone) await(p);
  }
}

void Coordinator::note_recomputed(std::int32_t owner, std::int32_t p) {
  const auto own = hooked(owner);
  const auto place = std::find(own.begin(), own.end(), p);
  const bool known = contains(at(recomputed_, owner), p);
  if (!known) at(recomputed_, owner).push_back(p);
  if (place != own.end()) {
    const auto slot = hooked_.slot(owner) + static_cast<std::int32_t>(place - own.begin());
    if (!std::exchange(at(active_slots_, slot), true)) ++at(states_, p).active;
  } else if (!known) {
    ++at(states_, p).active;
  }
}

/// release_sub_module.
void Coordinator::leave(const ModuleEvent& event) {
  decide(event.module);
  deactivate(event.module);
  if (event.kind == ModuleEvent::Kind::leave_backward) {
    release_recomputed(event.module);
    leave_backward(event.module);
  }
  act_on_released();
}

void Coordinator::leave_backward(std::int32_t module) {
  if (!std::exchange(at(in_backward_, module), false)) return;
  const auto latest = std::find(backward_.rbegin(), backward_.rend(), module);
  backward_.erase(std::next(latest).base());
}

/// release_backward_leftovers: modules that are never left, since their input needs no gradient.
void Coordinator::release_leftovers() {
  for (; !backward_.empty(); backward_.pop_back()) {
    const std::int32_t module = backward_.back();
    at(in_backward_, module) = false;
    std::int32_t slot = hooked_.slot(module);
    for (const std::int32_t p : hooked(module)) {
      if (std::exchange(at(active_slots_, slot++), false)) --at(states_, p).active;
      if (!parameter(p).persistent) release(p);
    }
    release_recomputed(module);
  }
  act_on_released();
}

// ---- gathering

/// __all_gather_params_: those with a second shard apart from those without. `wanted` is sorted here.
void Coordinator::gather(std::vector<std::int32_t>& wanted) {
  if (wanted.empty()) return;
  std::sort(wanted.begin(), wanted.end());
  for (const std::int32_t p : wanted) available_ += parameter(p).elements.value;
  if (options_.secondary_partition == 1) return gather_group(wanted, false);
  const auto with = std::stable_partition(wanted.begin(), wanted.end(),
                                          [&](std::int32_t p) { return at(states_, p).secondary; });
  const std::span<const std::int32_t> all(wanted);
  const auto held = static_cast<std::size_t>(with - wanted.begin());
  gather_group(all.first(held), true);
  gather_group(all.subspan(held), false);
}

void Coordinator::gather_group(std::span<const std::int32_t> wanted, bool secondary) {
  if (wanted.empty()) return;
  CallGroup group;
  group.first_call = size_of(calls_);
  group.first = size_of(gathered_);
  group.count = group.unclaimed = size_of(wanted);
  for (const std::int32_t p : wanted) {
    at(states_, p).status = Status::in_flight;
    at(states_, p).group = size_of(groups_);
    gathered_.push_back(p);
  }
  issue_by_group(group, secondary);
  group.calls = size_of(calls_) - group.first_call;
  groups_.push_back(group);
}

/// all_gather_coalesced: process groups by themselves, in the order in which they come.
void Coordinator::issue_by_group(const CallGroup& group, bool secondary) {
  const auto begin = gathered_.begin() + group.first, end = begin + group.count;
  const auto of = [&](std::int32_t p) { return parameter(p).group; };
  std::vector<std::int32_t> kinds;
  for (auto each = begin; each != end; ++each)
    if (!contains(kinds, of(*each))) kinds.push_back(of(*each));
  if (kinds.size() > 1)
    std::stable_sort(begin, end, [&](std::int32_t a, std::int32_t b) {
      return std::find(kinds.begin(), kinds.end(), of(a)) < std::find(kinds.begin(), kinds.end(), of(b));
    });
  std::int32_t first = group.first;
  for (const std::int32_t kind : kinds) {
    CallGroup part{.first = first};
    while (part.first + part.count < group.first + group.count &&
           of(at(gathered_, part.first + part.count)) == kind)
      ++part.count;
    first += part.count;
    issue(part,
          secondary ? static_cast<std::int32_t>(options_.secondary_partition)
                    : ranks_of(at(gathered_, part.first)),
          secondary);
  }
}

/// Those of one process group.
void Coordinator::issue(const CallGroup& group, std::int32_t ranks, bool secondary) {
  if (ranks_of(at(gathered_, group.first)) == 1)
    return add_call(options_.offloaded ? Placement::copied_shard : Placement::shard, ranks, group.first,
                    group.count);
  if (options_.one_by_one || group.count == 1) {
    // A quantised parameter has a buffer of its own until it is a parameter again.
    const Placement placement = options_.quantized ? Placement::shared_buffer : Placement::own_buffer;
    for (std::int32_t i = 0; i < group.count; ++i)
      add_call(placement, ranks, group.first + i, 1, options_.quantized);
    return;
  }
  // Whatever their types, in one call.
  if (options_.quantized) return add_call(Placement::shared_buffer, ranks, group.first, group.count, true);
  if (options_.by_all_reduce && !secondary)
    return add_call(Placement::views, ranks, group.first, group.count);
  issue_by_type(group, ranks);
}

/// One call for each data type, in the order of their names: 16, 32, 64 bits, then bytes.
void Coordinator::issue_by_type(const CallGroup& group, std::int32_t ranks) {
  const auto order = [&](std::int32_t p) {
    const std::int64_t size = parameter(p).element_size.value;
    return size == 1 ? std::int64_t{16} : size;
  };
  const auto begin = gathered_.begin() + group.first, end = begin + group.count;
  const auto before = [&](std::int32_t a, std::int32_t b) { return order(a) < order(b); };
  if (!std::is_sorted(begin, end, before)) std::stable_sort(begin, end, before);
  for (auto from = begin; from != end;) {
    const auto to = std::find_if(from, end, [&](std::int32_t p) { return order(p) != order(*from); });
    add_call(Placement::shared_buffer, ranks, static_cast<std::int32_t>(from - gathered_.begin()),
             static_cast<std::int32_t>(to - from));
    from = to;
  }
}

void Coordinator::add_call(Placement placement, std::int32_t ranks, std::int32_t first, std::int32_t count,
                           bool quantized) {
  calls_.push_back({placement, ranks, first, count, quantized});
  act_on_call(Kind::gather, size_of(calls_) - 1);
}

/// A module takes `p` from its group, which the first one waits for and the last one lets go.
void Coordinator::await(std::int32_t p) {
  CallGroup& group = at(groups_, std::exchange(at(states_, p).group, kNone));
  if (!std::exchange(group.waited, true)) {
    for (std::int32_t i = 0; i < group.calls; ++i) act_on_call(Kind::wait, group.first_call + i);
    for (const std::int32_t each : gathered(group.first, group.count))
      at(states_, each).status = Status::whole;
  }
  if (--group.unclaimed > 0) return;
  for (std::int32_t i = 0; i < group.calls; ++i)
    if (at(calls_, group.first_call + i).placement == Placement::shared_buffer)
      act_on_call(Kind::drop_buffer, group.first_call + i);
}

/// Takes the module's parameters off the fetch queue, where prefetching has not done so.
void Coordinator::take_from_queue(std::int32_t module) {
  std::size_t missing = 0;
  for (const std::int32_t p : hooked(module)) {
    State& state = at(states_, p);
    if (state.fetched_for < step_) ++missing;
    state.next_use = at(trace_.uses, state.next_use).next;
  }
  for (; missing > 0 && queue_ < trace_.uses.size(); --missing, ++queue_)
    at(states_, trace_.uses[queue_].parameter).fetched_for = trace_.uses[queue_].step;
}

/// Gathers the next parameters of the trace until the bucket is reached: the last one may overfill it.
void Coordinator::prefetch() {
  const std::int64_t limit =
      std::min(options_.max_live_parameters.value - available_, options_.prefetch_bucket_size.value);
  wanted_.clear();
  for (std::int64_t elements = 0; elements < limit && queue_ < trace_.uses.size(); ++queue_) {
    const TracedUse& use = trace_.uses[queue_];
    State& state = at(states_, use.parameter);
    state.fetched_for = std::max(state.fetched_for, use.step);
    if (state.status != Status::sharded || contains(wanted_, use.parameter)) continue;
    wanted_.push_back(use.parameter);
    elements += parameter(use.parameter).elements.value;
  }
  gather(wanted_);
}

// ---- letting go

/// Decides which of the module's parameters may go, into decisions_ from decided_at_ on. DeepSpeed caches the
/// answer by module and step for the whole run (functools.lru_cache): later micro-steps do as the first one
/// did.
void Coordinator::decide(std::int32_t module) {
  auto& [step, place] = at(decided_at_, module);
  if (step == step_) return;
  step = step_;
  place = decision_;
  decision_ += hooked(module).size();
  if (decided_) return;
  decisions_.resize(std::max(decisions_.size(), decision_));
  std::size_t slot = place;
  for (const std::int32_t p : hooked(module)) decisions_[slot++] = !recorded_ || goes(module, p);
}

/// __params_to_release: not what is persistent, not what prefetching has passed over because it was whole,
/// and not what comes again soon.
bool Coordinator::goes(std::int32_t module, std::int32_t p) const {
  if (parameter(p).persistent || at(states_, p).fetched_for > step_) return false;
  return at(tape_.modules, module).leaf ? !used_soon_below(p) : !used_soon(p);
}

bool Coordinator::used_soon(std::int32_t p) const {
  const std::int32_t use = at(states_, p).next_use;
  if (use == kNone) return false;
  return at(trace_.traversed, at(trace_.uses, use).step) - at(trace_.traversed, step_) <
         options_.max_reuse_distance.value;
}

bool Coordinator::used_soon_below(std::int32_t p) const {
  const std::vector<std::int32_t>& steps = at(trace_.deep_steps, p);
  const auto next = std::lower_bound(steps.begin(), steps.end(), step_);
  if (next == steps.end()) return false;
  return at(trace_.traversed_deep, *next) - at(trace_.traversed_deep, step_) <
         options_.max_reuse_distance.value;
}

void Coordinator::deactivate(std::int32_t module) {
  std::int32_t slot = hooked_.slot(module);
  std::size_t decision = at(decided_at_, module).second;
  for (const std::int32_t p : hooked(module)) {
    if (std::exchange(at(active_slots_, slot++), false)) --at(states_, p).active;
    if (decisions_[decision++]) release(p);
  }
}

void Coordinator::release_recomputed(std::int32_t module) {
  for (const std::int32_t p : at(recomputed_, module)) {
    if (!contains(hooked(module), p)) --at(states_, p).active;
    if (!parameter(p).persistent) release(p);
  }
  at(recomputed_, module).clear();
}

void Coordinator::release(std::int32_t p) {
  State& state = at(states_, p);
  if (state.status != Status::whole || state.active > 0) return;
  state.status = Status::sharded;
  available_ -= parameter(p).elements.value;
  released_.push_back(p);
}

/// stage3.py step: everything becomes shards, weights are updated, what is persistent is gathered again.
GatherPlan Coordinator::optimizer_step() {
  plan_ = {};
  event_ = 0;
  std::fill(active_slots_.begin(), active_slots_.end(), std::uint8_t{});
  for (std::int32_t p = 0; p < size_of(states_); ++p) {
    if (at(states_, p).group != kNone) await(p);
    at(states_, p).active = 0;
    release(p);
  }
  act_on_released();
  gather_persistent();
  if (options_.secondary_partition > 1) drop_secondaries();
  calls_.clear(), groups_.clear(), gathered_.clear();
  return std::move(plan_);
}

/// _post_step: a call each, on the compute stream.
void Coordinator::gather_persistent() {
  const Placement placement = persistent_placement(tape_, options_);
  for (std::size_t i = 0; i < states_.size(); ++i) {
    const auto p = static_cast<std::int32_t>(named(tape_, i));
    if (!parameter(p).persistent) continue;
    at(states_, p).status = Status::whole;
    gathered_.push_back(p);
    add_call(placement, ranks_of(p), size_of(gathered_) - 1, 1);
    plan_.actions.back().on_compute_stream = true;
  }
}

/// invalidate_secondary_tensor: shards of updated weights are stale, those of frozen ones stay.
void Coordinator::drop_secondaries() {
  scratch_.clear();
  for (std::int32_t p = 0; p < size_of(states_); ++p)
    if (parameter(p).trainable && std::exchange(at(states_, p).secondary, false)) scratch_.push_back(p);
  if (!scratch_.empty()) act(Kind::drop_secondary, scratch_);
}

// ---- steps

StepGathers step_of(Coordinator& coordinator, std::int64_t micro_steps) {
  StepGathers step;
  for (std::int64_t i = 0; i < micro_steps; ++i) {
    step.micro_steps.push_back(coordinator.micro_step());
    if (coordinator.repeats()) break;
  }
  step.optimizer_step = coordinator.optimizer_step();
  return step;
}

}  // namespace

GatherOptions gather_options(const Strategy& strategy) {
  GatherOptions options;
  options.data_parallel = strategy.layout.gradient_ranks();
  options.micro_steps = strategy.gradient_accumulation_steps;
  options.prefetch_bucket_size = strategy.zero.prefetch_bucket_size;
  options.max_live_parameters = strategy.zero.max_live_parameters;
  options.max_reuse_distance = strategy.zero.max_reuse_distance;
  options.overlap_comm = strategy.overlaps_communication();
  options.one_by_one = strategy.zero.gather_one_by_one;
  options.by_all_reduce = strategy.zero.gather_by_all_reduce;
  options.secondary_partition = strategy.zero.secondary_partition;
  options.quantized = strategy.zero.quantized_weights;
  options.offloaded = strategy.offload_parameters != OffloadDevice::none;
  return options;
}

Placement persistent_placement(const ModuleTape& tape, const GatherOptions& options) {
  const auto persistent = std::count_if(tape.parameters.begin(), tape.parameters.end(),
                                        [](const ShardedParameter& each) { return each.persistent; });
  if (options.data_parallel > 1 || options.one_by_one || persistent == 1) return Placement::own_buffer;
  return options.offloaded ? Placement::copied_shard : Placement::shard;
}

namespace {

void check(const ModuleTape& tape, const GatherOptions& options) {
  check_tape(tape);
  if (options.micro_steps < 1)
    throw InputError("micro-steps", std::to_string(options.micro_steps), "1 or more");
  if (options.data_parallel < 1)
    throw InputError("data parallel ranks", std::to_string(options.data_parallel), "1 or more");
}

}  // namespace

StepGathers gather_actions(const ModuleTape& tape, const GatherOptions& options, StepKind step) {
  check(tape, options);
  Coordinator coordinator(tape, options);
  if (step == StepKind::first) return step_of(coordinator, options.micro_steps);
  // The second micro-step fixes decisions for good, so the steady state follows from two at most.
  (void)step_of(coordinator, std::min(options.micro_steps, std::int64_t{2}));
  return step_of(coordinator, options.micro_steps);
}

namespace {

/// A cache of the latest gathers. A plan simulates its run by live memory and then with the allocator, and a
/// search simulates runs that differ in micro-batch, recomputation or other offload: all gather alike.
class LateGathers {
 public:
  std::shared_ptr<const RunGathers> of(const ModuleTape& tape, const GatherOptions& options) {
    const std::shared_ptr<Entry> entry = find_or_add(tape, options);
    std::call_once(entry->once, [&] {
      check(tape, options);
      Coordinator coordinator(tape, options);
      entry->gathers.first = step_of(coordinator, options.micro_steps);
      entry->gathers.steady = step_of(coordinator, options.micro_steps);
    });
    return {entry, &entry->gathers};
  }

 private:
  static constexpr std::size_t kMost = 32, kMostEvents = 1 << 19;
  struct Entry {
    Entry(const ModuleTape& t, const GatherOptions& o) : tape(t), options(o) {}
    ModuleTape tape;
    GatherOptions options;
    std::once_flag once;
    RunGathers gathers;
  };

  std::shared_ptr<Entry> find_or_add(const ModuleTape& tape, const GatherOptions& options) {
    const std::lock_guard lock(mutex_);
    const auto known = std::find_if(entries_.begin(), entries_.end(), [&](const auto& each) {
      return each->options == options && each->tape == tape;
    });
    if (known == entries_.end()) {
      if (entries_.size() == kMost) entries_.pop_back();
      entries_.emplace_front(std::make_shared<Entry>(tape, options));
      drop_long_tapes();
      return entries_.front();
    }
    entries_.splice(entries_.begin(), entries_, known);
    return entries_.front();
  }

  /// Keeps the latest, and those before it as far as their tapes are short together.
  void drop_long_tapes() {
    std::size_t events = 0;
    auto each = entries_.begin();
    do events += (*each)->tape.events.size();
    while (++each != entries_.end() && events <= kMostEvents);
    if (events > kMostEvents) entries_.erase(each, entries_.end());
  }

  std::mutex mutex_;
  std::list<std::shared_ptr<Entry>> entries_;  ///< the latest first
};

}  // namespace

std::shared_ptr<const RunGathers> gathers_of_run(const ModuleTape& tape, const GatherOptions& options) {
  static LateGathers late;
  return late.of(tape, options);
}

std::int64_t quantized_groups(Elements elements) {
  const std::int64_t eighths = share(elements, 8).value;
  std::int64_t size = std::min<std::int64_t>(1000, eighths);
  while (size > 1 && eighths % size != 0) --size;
  return eighths / std::max<std::int64_t>(size, 1);
}

Elements call_elements(std::span<const std::int32_t> parameters, const std::vector<ShardedParameter>& of,
                       std::int32_t ranks) {
  Elements sum{};
  for (const std::int32_t p : parameters) sum += round_up(at(of, p).elements, ranks);
  return sum;
}

}  // namespace zplan
