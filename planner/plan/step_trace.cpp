#include "planner/plan/step_trace.h"

#include <fmt/format.h>

#include <algorithm>
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

/// Lists the loads of a micro-step in the order in which a run plays them.
class LoadList {
 public:
  explicit LoadList(const Recording& recording) {
    const auto layers = [&](std::size_t i) {
      return static_cast<int>(recording.chunk(i).condensed.layers.size());
    };
    for (std::size_t i = 0; i < recording.chunks(); first_ += layers(i++))
      play_forward(recording.chunk(i).condensed, *this);
    for (std::size_t i = recording.chunks(); i-- > 0;) {
      first_ -= layers(i);
      play_backward(recording.chunk(i).condensed, *this);
    }
  }
  [[nodiscard]] std::vector<LoadPlace> take() { return std::move(places_); }

  void section(int layer, bool /*unused*/) { layer_ = layer < 0 ? layer : layer + first_; }
  void phase(Phase phase) { phase_ = phase, layer_ = -1; }
  void compute(std::int32_t load) { places_.push_back({load, phase_, layer_}); }
  void delta(const MemoryDelta& /*unused*/, std::int32_t /*unused*/) {}
  void gradient(int /*unused*/, std::int32_t /*unused*/, Bytes /*unused*/, Term /*unused*/) {}
  void part_of_gradient(int /*unused*/, std::int32_t /*unused*/, Bytes /*unused*/, Term /*unused*/) {}
  void module(const Event& /*unused*/, int /*unused*/) {}
  void workspace(std::int32_t /*unused*/) {}

 private:
  std::vector<LoadPlace> places_;
  Phase phase_{Phase::forward};
  int layer_{-1};
  int first_{};  ///< layer of the chunk that is played
};

/// Holds the phase, layer and micro-step of an event of a program.
struct EventPlace {
  Phase phase{Phase::step};
  int layer{-1};
  std::int64_t micro_step{};
};

/// Follows the loads through the program. Where their order is another than that of whole micro-steps, as in
/// a pipeline, layers stay unknown.
std::vector<EventPlace> places_of(const StepProgram& program, const std::vector<LoadPlace>& loads) {
  std::vector<EventPlace> places(program.events.size());
  std::size_t next = 0;
  std::int64_t micro_step = 1;
  EventPlace now{.phase = Phase::forward, .micro_step = 1};
  for (std::size_t i = 0; i < program.events.size(); ++i) {
    const ClockEvent& event = program.events[i];
    if (event.kind == Kind::end_repeated) micro_step += static_cast<std::int64_t>(event.amount) - 1;
    if (event.kind == Kind::end_micro_steps) now = {};
    if (event.kind == Kind::compute && next < loads.size()) {
      now = loads[next].load == event.index ? EventPlace{loads[next].phase, loads[next].layer, micro_step}
                                            : EventPlace{Phase::forward, -1, micro_step};
      if (++next == loads.size()) next = 0, ++micro_step;
    }
    places[i] = now;
  }
  return places;
}

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
        places_(places_of(program, LoadList(run.recording()).take())) {
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
    if (span.micro_step > 0) span.micro_step += from.repetition;
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
