#include "planner/plan/step_trace.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <span>
#include <utility>

#include "hardware_profiles/cluster.h"
#include "planner/cost/offload_time.h"
#include "planner/cost/queues.h"
#include "planner/cost/rollout_time.h"
#include "planner/plan/rank_run.h"

namespace zplan {

namespace {

using Kind = ClockEvent::Kind;

/// Holds the phase and the layer in which a load of a tape runs.
struct LoadPlace {
  std::int32_t load{};
  Phase phase{Phase::forward};
  int layer{-1};
};

/// Lists the loads of one pass in the order in which a run plays them.
class LoadList {
 public:
  /// `first_layer`: number among the rank's layers of the recording's first; absent: layers are not known.
  LoadList(std::optional<int> first_layer, Phase phase) : phase_(phase), first_layer_(first_layer) {}
  [[nodiscard]] std::vector<LoadPlace> take() { return std::move(places_); }

  void section(int layer, bool /*unused*/) {
    layer_ = layer < 0 || !first_layer_ ? -1 : layer + *first_layer_;
  }
  void phase(Phase phase) { phase_ = phase, layer_ = -1; }
  void compute(std::int32_t load) { places_.push_back({load, phase_, layer_}); }
  void delta(const MemoryDelta& /*unused*/, std::int32_t /*unused*/) {}
  void gradient(int /*unused*/, std::int32_t /*unused*/, Bytes /*unused*/, Term /*unused*/) {}
  void part_of_gradient(int /*unused*/, std::int32_t /*unused*/, Bytes /*unused*/, Term /*unused*/) {}
  void module(const Event& /*unused*/, int /*unused*/) {}
  void workspace(std::int32_t /*unused*/) {}

 private:
  std::vector<LoadPlace> places_;
  Phase phase_;
  int layer_{-1};
  std::optional<int> first_layer_;
};

/// A forward pass, a backward pass, or the part of a backward that makes gradients of weights, of one chunk
/// of layers.
struct Pass {
  std::vector<LoadPlace> loads;
  std::size_t kind{};  ///< number of the chunk and kind: its n-th pass is the n-th micro-step's
};

/// Lists the passes of a rank. Chunks that share a recording are not told apart: their layers and micro-steps
/// are not known.
class PassList {
 public:
  explicit PassList(const Recording& recording) {
    add(recording, recording.order);
    if (!recording.splits.empty()) add(recording, recording.splits);
    kinds_ = recording.chunks() * kKinds;
  }

  /// Returns the longest pass with whose loads the list `next` begins; nullptr: there is none.
  [[nodiscard]] const Pass* that_begins(std::span<const std::int32_t> next) const {
    const Pass* found = nullptr;
    for (const Pass& each : passes_) {
      if (each.loads.empty() || each.loads.size() > next.size()) continue;
      if (found != nullptr && each.loads.size() <= found->loads.size()) continue;
      if (std::ranges::equal(each.loads, next.first(each.loads.size()), {}, &LoadPlace::load)) found = &each;
    }
    return found;
  }
  /// Returns how many kinds of passes are counted by themselves.
  [[nodiscard]] std::size_t kinds() const { return kinds_; }
  /// True if some chunks have one recording: a pass does not tell of which chunk and micro-step it is.
  [[nodiscard]] bool shares_recordings() const { return shares_; }

 private:
  static constexpr std::size_t kKinds = 3;

  void add(const Recording& recording, const std::vector<std::size_t>& order) {
    int first_layer = 0;
    for (std::size_t i = 0; i < order.size(); ++i) {
      const bool shared = std::ranges::count(order, order[i]) > 1;
      shares_ = shares_ || shared;
      const Recording& chunk = &order == &recording.order ? recording.chunk(i) : recording.split_chunk(i);
      const std::optional<int> first = shared ? std::nullopt : std::optional(first_layer);
      const auto keep = [&](std::size_t kind, const auto& play) {
        LoadList loads(first, kind == 0 ? Phase::forward : Phase::backward);
        play(loads);
        passes_.push_back({loads.take(), i * kKinds + kind});
      };
      keep(0, [&](LoadList& loads) { play_forward(chunk.condensed, loads); });
      keep(1, [&](LoadList& loads) { play_backward(chunk.condensed, loads); });
      if (chunk.tape.is_split) keep(2, [&](LoadList& loads) { play_weights(chunk.condensed, loads); });
      first_layer += static_cast<int>(chunk.condensed.layers.size());
    }
  }

  std::vector<Pass> passes_;
  std::size_t kinds_{};
  bool shares_{};
};

/// Holds the phase, layer and micro-step of an event of a program.
struct EventPlace {
  Phase phase{Phase::step};
  int layer{-1};
  std::int64_t micro_step{};            ///< from 1; 0: not known
  std::int64_t micro_steps_of_round{};  ///< by which each repetition of the event is a later one
};

/// Follows the passes through a program, in whatever order a schedule plays them.
class PassFollower {
 public:
  PassFollower(const StepProgram& program, const PassList& passes)
      : program_(program), passes_(passes), counts_(passes.kinds()), before_(counts_) {
    for (const ClockEvent& each : program.events)
      if (each.kind == Kind::compute) loads_.push_back(each.index);
  }

  [[nodiscard]] std::vector<EventPlace> places() {
    for (const ClockEvent& event : program_.events) {
      if (event.kind == Kind::begin_repeated) round_ = places_.size(), before_ = counts_;
      if (event.kind == Kind::end_repeated) end_round(static_cast<std::int64_t>(event.amount));
      if (event.kind == Kind::end_micro_steps) now_ = {};
      if (event.kind == Kind::compute) compute();
      places_.push_back(now_);
      kinds_.push_back(kind_);
    }
    return std::move(places_);
  }

 private:
  void compute() {
    if (pass_ == nullptr) begin_pass();
    ++reached_;
    now_.layer = -1;
    if (pass_ == nullptr) return;
    now_.phase = pass_->loads[in_pass_].phase, now_.layer = pass_->loads[in_pass_].layer;
    if (++in_pass_ == pass_->loads.size()) pass_ = nullptr;
  }
  void begin_pass() {
    pass_ = passes_.that_begins(std::span(loads_).subspan(reached_)), in_pass_ = 0;
    now_.micro_step = 0;
    if (pass_ == nullptr) return;
    kind_ = pass_->kind;
    const std::int64_t number = ++counts_[kind_];
    if (!passes_.shares_recordings()) now_.micro_step = number;
  }
  /// The passes since the round began come `times` times in all.
  void end_round(std::int64_t times) {
    for (; round_ < places_.size(); ++round_)
      places_[round_].micro_steps_of_round = counts_[kinds_[round_]] - before_[kinds_[round_]];
    for (std::size_t i = 0; i < counts_.size(); ++i) counts_[i] += (counts_[i] - before_[i]) * (times - 1);
  }

  const StepProgram& program_;
  const PassList& passes_;
  std::vector<std::int32_t> loads_;  ///< of the program's events that compute
  std::vector<EventPlace> places_;
  std::vector<std::size_t> kinds_;             ///< of the pass that each event is of
  std::vector<std::int64_t> counts_, before_;  ///< of passes so far, and before the round
  std::size_t reached_{}, in_pass_{}, round_{}, kind_{};
  const Pass* pass_{};
  EventPlace now_{.phase = Phase::forward, .micro_step = 1};
};

std::string_view kernels_of(Phase phase) {
  switch (phase) {
    case Phase::forward: return "forward";
    case Phase::loss: return "head and loss";
    case Phase::loss_backward: return "loss backward";
    case Phase::backward: return "backward";
    default: return "optimizer step";
  }
}

double flops_of(const Load& load) {
  double sum = load.attention_forward.value + load.attention_backward.value;
  sum += load.attention_tiled.counted.value;
  for (const Product& each : load.products) sum += each.flops().value;
  return sum;
}

class Tracer {
 public:
  Tracer(const RankRun& run, const StepProgram& program, const Plan& plan)
      : tape_(run.recording().tape),
        program_(program),
        places_(PassFollower(program, PassList(run.recording())).places()) {
    trace_.step = plan.time.step;
    trace_.rank_stage = run.place().stage, trace_.world = plan.strategy.layout.world();
    for (const TimedCall& each : program.calls) trace_.calls.push_back(each.call);
    host_ = add_lane(TraceLane::Kind::host, "host");
    compute_ = add_lane(TraceLane::Kind::compute, "compute stream");
  }

  void add_rollout(const RolloutTime& time) {
    if (time.total() <= Seconds{}) return;
    const std::size_t engine = add_lane(TraceLane::Kind::engine, "generation");
    for (const auto& [name, takes] :
         {std::pair("prompts", time.prompts), {"completions", time.completions}, {"scoring", time.scoring}})
      add_behind(engine, name, takes, Phase::initialisation);
  }
  /// Adds the queues' spans; those from `split` on are shifted by what `offload` takes.
  void add_queues(const QueueHistory& history, const OffloadTime& offload, const Schedule& schedule) {
    const Seconds began = reached_;
    std::int32_t split = static_cast<std::int32_t>(program_.events.size());
    for (std::size_t i = 0; i < program_.events.size(); ++i)
      if (program_.events[i].kind == Kind::end_micro_steps) split = static_cast<std::int32_t>(i);
    for (const QueueSpan& each : history.spans)
      add(each, began + (each.event > split ? offload.total() : Seconds{}));
    if (offload.total() <= Seconds{}) return;
    reached_ = began + Seconds(history.micro_steps);
    const std::size_t copies = add_lane(TraceLane::Kind::copies, "copies");
    add_behind(copies, "gradients to the host", offload.gradients, Phase::step, schedule.device_to_host);
    add_behind(add_lane(TraceLane::Kind::optimizer, "host optimizer"), "optimizer on the host",
               offload.optimizer, Phase::step);
    add_behind(copies, "weights to the device", offload.weights, Phase::step, schedule.host_to_device);
  }
  void leave_out(std::int64_t micro_steps) { trace_.left_out = micro_steps; }
  [[nodiscard]] StepTrace take() { return std::move(trace_); }

 private:
  std::size_t add_lane(TraceLane::Kind kind, std::string name, const Call& call = {}) {
    trace_.lanes.push_back({kind, std::move(name), call});
    return trace_.lanes.size() - 1;
  }
  /// Adds a span that begins where the last of its kind ended.
  void add_behind(std::size_t lane, std::string name, Seconds takes, Phase phase, Bytes moved = {}) {
    if (takes <= Seconds{}) return;
    TraceSpan span{.lane = lane, .name = std::move(name), .phase = phase, .from = reached_};
    span.until = reached_ = reached_ + takes;
    span.moved = moved;
    trace_.spans.push_back(std::move(span));
  }

  /// A communicator has a lane of its own; what the compute stream waits for at once another one.
  std::size_t lane_of(const Call& call, bool waited_for) {
    for (std::size_t i = 0; i < trace_.lanes.size(); ++i) {
      const TraceLane& lane = trace_.lanes[i];
      if (lane.kind == TraceLane::Kind::communicator && lane.call.group == call.group &&
          lane.call.group_size == call.group_size && lane.call.stride == call.stride &&
          is_waited_for_[i] == waited_for)
        return i;
    }
    is_waited_for_.resize(trace_.lanes.size() + 1);
    is_waited_for_.back() = waited_for;
    return add_lane(TraceLane::Kind::communicator,
                    fmt::format("NCCL {} group of {}{}", to_name(call.group), call.group_size,
                                waited_for ? ", waited for" : ""),
                    call);
  }

  void add(const QueueSpan& from, Seconds shift) {
    const ClockEvent& event = program_.events[static_cast<std::size_t>(from.event)];
    const EventPlace& place = places_[static_cast<std::size_t>(from.event)];
    TraceSpan span{.phase = place.phase, .layer = place.layer, .micro_step = place.micro_step};
    if (span.micro_step > 0) span.micro_step += from.repetition * place.micro_steps_of_round;
    span.from = Seconds(from.from) + shift, span.until = Seconds(from.until) + shift;
    switch (from.lane) {
      case QueueSpan::Lane::host: fill_host(span, event); break;
      case QueueSpan::Lane::compute: fill_kernels(span, event); break;
      case QueueSpan::Lane::exchange:
      case QueueSpan::Lane::collectives:
      case QueueSpan::Lane::transfers: fill_call(span, event, from.lane); break;
    }
    trace_.spans.push_back(std::move(span));
  }
  void fill_host(TraceSpan& span, const ClockEvent& event) const {
    span.lane = host_;
    if (event.kind == Kind::read_back)
      span.name = "wait for the device";
    else if (event.kind == Kind::host)
      span.name = "framework";
    else
      span.name = fmt::format("issue {}", kernels_of(span.phase));
  }
  void fill_kernels(TraceSpan& span, const ClockEvent& event) const {
    span.lane = compute_;
    span.name = kernels_of(span.phase);
    if (event.kind == Kind::optimize) span.phase = Phase::step, span.name = "optimizer";
    if (event.kind != Kind::compute) {
      if (event.kind == Kind::move) span.name = fmt::format("copies of {}", span.name);
      span.moved = Bytes(static_cast<std::int64_t>(event.amount));
      return;
    }
    const Load& load = tape_.loads[static_cast<std::size_t>(event.index)];
    span.flops = flops_of(load), span.moved = load.moved, span.kernels = load.kernels;
    for (const Product& each : load.products) span.kernels += each.times;
  }
  void fill_call(TraceSpan& span, const ClockEvent& event, QueueSpan::Lane lane) {
    const auto index = static_cast<std::size_t>(event.index);
    const Call& call = trace_.calls[index];
    span.call = event.index;
    span.lane = lane_of(call, lane == QueueSpan::Lane::exchange);
    span.name = fmt::format("{} {}", to_name(call.operation), call.purpose);
    span.phase = call.phase;
  }

  const Tape& tape_;
  const StepProgram& program_;
  std::vector<EventPlace> places_;
  StepTrace trace_;
  std::size_t host_{}, compute_{};
  std::vector<bool> is_waited_for_;  ///< by lane
  Seconds reached_;
};

}  // namespace

StepTrace step_trace(const Model& model, const Cluster& cluster, const Training& training, const Plan& plan) {
  const Training own = plan.training.value_or(training);
  std::vector<RankRun> runs;
  for (const RankPlan& each : plan.ranks)
    runs.emplace_back(model, own, plan.strategy, RankRun::target_of(cluster), each.place);
  std::vector<RunResult> played;
  std::vector<Durations<double>> takes;
  for (const RankRun& each : runs) {
    played.push_back(each.live());
    CostModel cost_model = each.cost_model(cluster);
    takes.push_back(durations(played.back().program, cost_model));
  }
  const auto rank = static_cast<std::size_t>(&plan.slowest() - plan.ranks.data());
  const std::int64_t repeats = repeats_of(plan.strategy.gradient_accumulation_steps);
  QueueHistory history;
  if (runs.size() == 1) {
    history = queue_history(played[0].program, takes[0], repeats, kMostWrittenMicroSteps);
  } else {
    std::vector<RankProgram> programs;
    for (std::size_t i = 0; i < runs.size(); ++i) programs.push_back({&played[i].program, &takes[i]});
    history = queue_history(programs, rank);
  }
  Tracer tracer(runs[rank], played[rank].program, plan);
  tracer.add_rollout(rollout_time(model, own, plan.strategy, cluster));
  tracer.add_queues(history,
                    offload_time(own, plan.strategy, cluster, plan.ranks[rank].shard,
                                 plan.ranks[rank].communication, Seconds(history.micro_steps)),
                    plan.ranks[rank].communication);
  if (runs.size() == 1) tracer.leave_out(std::max<std::int64_t>(0, repeats - kMostWrittenMicroSteps));
  return tracer.take();
}

}  // namespace zplan
