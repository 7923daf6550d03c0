#include "planner/search/layout_bounds.h"

#include <algorithm>
#include <functional>
#include <utility>

#include "planner/sharding/model_part.h"
#include "planner/simulation/memory.h"
#include "planner/step/step_schedule.h"

namespace zplan {

namespace {

/// Computes time and memory of sections of a condensed tape, each as if all queues were free when it begins.
class SectionSums {
 public:
  SectionSums(const RankRun& run, const Cluster& cluster) : run_(run), cost_(run.cost_model(cluster)) {
    const StepProgram program = run.live().program;
    for (const ClockEvent& each : program.events) {
      const bool runs_ahead = each.kind == ClockEvent::Kind::issue;
      if (!runs_ahead && each.kind != ClockEvent::Kind::exchange) continue;
      const TimedCall& call = program.calls[static_cast<std::size_t>(each.index)];
      if (call.exchange >= 0) exchanges_[call.exchange] = {cost_.call(call.call), runs_ahead};
    }
  }

  /// Returns when the compute stream is through with the section: its own work, exchanges that it waits for,
  /// and those that run beside it until it waits.
  [[nodiscard]] Seconds seconds(const CondensedSection& section) const {
    Seconds computed{}, sent{};
    std::map<std::int32_t, Seconds> under_way;
    for (const CondensedEvent& each : section) {
      if (each.kind == CondensedEvent::Kind::compute)
        computed += cost_.loads()[static_cast<std::size_t>(each.event.index)].device();
      if (each.kind == CondensedEvent::Kind::await)
        computed = std::max(computed, under_way[each.event.index]);
      if (each.kind != CondensedEvent::Kind::communicate) continue;
      const auto exchange = exchanges_.find(each.event.block);
      if (exchange == exchanges_.end()) continue;
      if (exchange->second.runs_ahead)
        under_way[each.event.index] = sent = std::max(sent, computed) + exchange->second.time;
      else
        computed += exchange->second.time;
    }
    return computed;
  }
  /// Returns what the host takes to issue the kernels of both sections.
  [[nodiscard]] Seconds issuing(const CondensedSection& one, const CondensedSection& other) const {
    Seconds sum{};
    for (const CondensedSection* each : {&one, &other})
      for (const CondensedEvent& event : *each)
        if (event.kind == CondensedEvent::Kind::compute)
          sum += cost_.loads()[static_cast<std::size_t>(event.event.index)].host;
    return sum;
  }
  [[nodiscard]] Bytes left(const CondensedSection& section) const {
    Bytes sum{};
    for (const CondensedEvent& each : section)
      if (each.kind == CondensedEvent::Kind::delta)
        sum += run_.recording().condensed.deltas[static_cast<std::size_t>(each.delta)].net_total;
    return sum;
  }

 private:
  const RankRun& run_;
  CostModel cost_;
  struct Exchange {
    Seconds time;
    bool runs_ahead{};
  };
  std::map<std::int32_t, Exchange> exchanges_;
};

/// Returns the size of the hidden states that a part of the tape returns.
Bytes output_of(const TapePart& part) {
  for (const Event& each : part.forward)
    if (each.kind == Event::Kind::allocate && each.owner == Owner::here && each.block == part.output)
      return each.size;
  return {};
}

}  // namespace

/// Records the whole model on one stage, whose layers are those of any stage.
LayoutBounds::Pieces LayoutBounds::pieces(Strategy strategy) {
  strategy.gradient_accumulation_steps = 1;
  const RankRun run = context_.run(strategy);
  const Recording& recording = run.recording();
  const CondensedTape& tape = recording.condensed;
  const SectionSums sums(run, context_.cluster());
  std::vector<Piece> classes;
  for (std::size_t i = 0; i < tape.classes.size(); ++i)
    classes.push_back({.forward = sums.seconds(tape.classes[i].forward),
                       .backward = sums.seconds(tape.classes[i].backward),
                       .issuing = sums.issuing(tape.classes[i].forward, tape.classes[i].backward),
                       .saved = sums.left(tape.classes[i].forward),
                       .output = output_of(recording.tape.classes[i])});
  // Which of a stage's layers are recomputed depends on their place in the stage: each counts as the
  // lightest.
  if (strategy.megatron && block_layers(*strategy.megatron))
    for (Piece& each : classes)
      for (const Piece& other : classes) {
        each.backward = std::min(each.backward, other.backward);
        each.issuing = std::min(each.issuing, other.issuing);
        each.saved = std::min(each.saved, other.saved);
      }
  Pieces whole;
  for (const std::size_t each : tape.layers) whole.layers.push_back(classes[each]);
  whole.start = {.forward = sums.seconds(tape.start),
                 .backward = sums.seconds(tape.end),
                 .issuing = sums.issuing(tape.start, tape.end),
                 .saved = sums.left(tape.start),
                 .output = output_of(recording.tape.model)};
  whole.end.forward = sums.seconds(tape.head), whole.end.backward = sums.seconds(tape.head_backward);
  whole.end.issuing = sums.issuing(tape.head, tape.head_backward);
  return whole;
}

LayoutBounds::Stages LayoutBounds::stages(const Pieces& whole, const Strategy& strategy) const {
  const std::int64_t count = strategy.layout.pipeline;
  Stages made;
  for (std::int64_t stage = 0; stage < count; ++stage) {
    StageSums sums;
    bool first = true;
    const std::vector<LayerRange> chunks = chunk_layers(context_.model().shape.layers, strategy, stage);
    for (const LayerRange& chunk : chunks) {
      Piece sum = first && stage == 0 ? whole.start : Piece{};
      for (std::int64_t i = chunk.first; i < chunk.end; ++i) {
        const Piece& layer = whole.layers[static_cast<std::size_t>(i)];
        sum.forward += layer.forward, sum.backward += layer.backward, sum.saved += layer.saved;
        sum.issuing += layer.issuing;
        sum.output = layer.output;
      }
      sums.all += sum.forward + sum.backward, sums.issuing += sum.issuing;
      if (std::exchange(first, false)) sums.first_forward = sum.forward, sums.first_backward = sum.backward;
      // What a chunk returns is freed once it is sent.
      if (stage == 0) made.saved.push_back(std::max(Bytes{}, count > 1 ? sum.saved - sum.output : sum.saved));
    }
    if (stage == stage_of_end(strategy))
      sums.all += whole.end.forward + whole.end.backward, sums.issuing += whole.end.issuing;
    made.sums.push_back(sums);
  }
  return made;
}

/// Adds a moment, unless one of those before has as much of each; those that have no more than it go.
void LayoutBounds::add_moment(std::vector<InStep>& all, const InStep& now) {
  const auto covers = [](const InStep& a, const InStep& b) {
    const auto has_as_much = [](const auto& one, const auto& other) {
      return std::ranges::equal(one, other, std::greater_equal{});
    };
    return has_as_much(a.in_flight, b.in_flight) && has_as_much(a.sums, b.sums) &&
           has_as_much(a.gathered, b.gathered);
  };
  if (std::ranges::any_of(all, [&](const InStep& each) { return covers(each, now); })) return;
  std::erase_if(all, [&](const InStep& each) { return covers(now, each); });
  all.push_back(now);
}

/// Returns what a schedule of many micro-batches has in flight by shorter ones, where those agree.
LayoutBounds::Order LayoutBounds::order(const Strategy& strategy) {
  const std::int64_t stages = strategy.layout.pipeline, micro_batches = strategy.gradient_accumulation_steps;
  if (stages == 1) return {.fullest = {{.in_flight = {1}, .sums = {0}, .gathered = {0}}}};
  const std::int64_t some = 4 * stages, more = 2 * some;
  if (micro_batches > more && micro_batches % stages == 0) {
    Strategy shorter = strategy;
    shorter.gradient_accumulation_steps = some;
    const Order& first = order_of(shorter);
    shorter.gradient_accumulation_steps = more;
    const Order& second = order_of(shorter);
    if (first.fullest == second.fullest) return second;
  }
  const StepSchedule made = schedule_of_stage(context_.training(), strategy, 0);
  Order order;
  const std::vector<std::int64_t> none(static_cast<std::size_t>(strategy.layout.virtual_stages));
  const bool keeps_parameters =
      strategy.torchtitan && none.size() == 1 && !reshards_layers(*strategy.torchtitan, true);
  InStep now{none, none, none};
  for (const Round& round : made.rounds)
    for (const Slot& slot : round.slots) {
      using Kind = Slot::Kind;
      const std::size_t chunk = slot.tape;
      const bool frees = slot.kind == Kind::backward || slot.kind == Kind::input_gradient ||
                         slot.kind == Kind::reshard || slot.kind == Kind::reduce;
      if (frees) add_moment(order.fullest, now);
      if (slot.kind == Kind::forward) ++now.in_flight[chunk];
      if (slot.kind == Kind::forward && keeps_parameters) now.gathered[chunk] = 1;
      if (slot.kind == Kind::backward || slot.kind == Kind::input_gradient) --now.in_flight[chunk];
      if (slot.kind == Kind::backward || slot.kind == Kind::weight_gradient) now.sums[chunk] = 1;
      if (slot.kind == Kind::unshard) now.gathered[chunk] = 1;
      if (slot.kind == Kind::reshard || slot.kind == Kind::reduce) now.gathered[chunk] = 0;
      if (slot.kind == Kind::reduce) now.sums[chunk] = 0;
      if (slot.kind == Kind::weight_gradient) order.splits_backward = true;
    }
  std::ranges::sort(order.fullest);
  return order;
}

const LayoutBounds::Order& LayoutBounds::order_of(const Strategy& strategy) {
  const ParallelLayout& layout = strategy.layout;
  const OrderKey key{.of_model = {.pipeline = layout.pipeline, .virtual_stages = layout.virtual_stages},
                     .micro_batches = strategy.gradient_accumulation_steps,
                     .torchtitan = strategy.torchtitan,
                     .group = strategy.megatron ? strategy.megatron->micro_batch_group(layout.pipeline) : 0};
  return known(orders_, key, [&] { return order(strategy); });
}

LayoutBounds::States LayoutBounds::states(const Strategy& strategy) {
  const RankModel& rank = context_.rank_of(strategy);
  const Shard shard = make_shard(rank, context_.training(), strategy);
  const std::vector<Elements> none(static_cast<std::size_t>(strategy.layout.virtual_stages));
  States states{.held = held_states(shard, strategy) + shard.gradients + shard.bucket,
                .trainable = none,
                .gatherable = none};
  for (const RankTensor& each : rank.tensors) {
    if (!each.trainable || each.idle) continue;
    states.trainable[each.chunk] += each.elements;
    if (each.role != TensorRole::expert) states.gatherable[each.chunk] += each.elements;
  }
  return states;
}

/// Returns what torchtitan's stages hold whole, not as shards: sums of gradients in fp32, or as they are
/// where backwards are in two parts, and parameters that are gathered. One rank gathers none.
Bytes LayoutBounds::kept_whole(const Strategy& strategy, const States& states, const Order& order,
                               const InStep& at) const {
  constexpr Bytes kSum{4};
  if (!strategy.torchtitan || strategy.layout.pipeline == 1) return {};
  const Bytes weight = weight_size(context_.training());
  const Bytes sum = order.splits_backward ? weight : kSum;
  const Bytes parameter = strategy.layout.shard_ranks() > 1 ? weight : Bytes{};
  Bytes whole{};
  for (std::size_t i = 0; i < states.trainable.size(); ++i)
    whole += states.trainable[i] * (sum * at.sums[i]) + states.gatherable[i] * (parameter * at.gathered[i]);
  return whole;
}

/// Returns what the first stage holds at its fullest moment.
Bytes LayoutBounds::most_held(const Strategy& strategy, const States& states, const Stages& stages,
                              const Order& order) const {
  Bytes most{};
  for (const InStep& each : order.fullest) {
    Bytes sum = kept_whole(strategy, states, order, each);
    for (std::size_t i = 0; i < each.in_flight.size(); ++i) sum += stages.saved[i] * each.in_flight[i];
    most = std::max(most, sum);
  }
  return states.held + most;
}

LayoutBound LayoutBounds::of(const Strategy& strategy) {
  const ParallelLayout& layout = strategy.layout;
  Strategy whole = strategy;
  whole.layout.pipeline = whole.layout.virtual_stages = 1;
  whole.layout = whole.layout.filling(layout.world());
  if (whole.megatron) whole.megatron->counts_embedding = whole.megatron->counts_loss = false;
  const RankClass first = rank_classes(layout).front();
  const TapeKey of_whole = TapeKey::of(context_.training(), whole, first),
                of_stages = TapeKey::of(context_.training(), strategy, first);
  const Pieces& pieces = known(pieces_, of_whole, [&] { return this->pieces(whole); });
  const Stages& stages = known(stages_, of_stages, [&] { return this->stages(pieces, strategy); });
  const Order& order = order_of(strategy);
  const StatesKey states_key{of_stages.of_any_size().of_part(), layout.shard, layout.replicate,
                             strategy.zero_stage};
  const States& states = known(states_, states_key, [&] { return this->states(strategy); });

  const Bytes outside = outside_allocator(strategy, context_.cluster().gpu.compute_capability,
                                          context_.cluster().gpus_per_node);
  LayoutBound bound{.required = outside + most_held(strategy, states, stages, order), .step = {}};
  const auto micro_batches = static_cast<double>(strategy.gradient_accumulation_steps);
  Seconds before{};
  for (const StageSums& each : stages.sums) {
    bound.step = std::max({bound.step, before + each.all * micro_batches, each.issuing * micro_batches});
    before += each.first_forward;
    if (!order.splits_backward) before += each.first_backward;
  }
  return bound;
}

}  // namespace zplan
