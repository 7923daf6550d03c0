#include "planner/search/family.h"

#include <algorithm>

#include "hardware_profiles/link_speed.h"
#include "planner/cost/offload_time.h"
#include "planner/cost/rollout_time.h"
#include "planner/model_trace/causal_lm.h"
#include "planner/moments/moments.h"
#include "planner/moments/ppo.h"
#include "planner/question/work.h"
#include "planner/simulation/memory.h"
#include "planner/step/step_schedule.h"

namespace zplan {

namespace {

/// Numbers of times that each call of a program is issued: in all, and in the repeated micro-step.
struct CallCounts {
  std::vector<std::int64_t> once, repeated;
};

CallCounts count_calls(const StepProgram& program) {
  CallCounts counts{std::vector<std::int64_t>(program.calls.size()),
                    std::vector<std::int64_t>(program.calls.size())};
  bool repeats = false;
  for (const ClockEvent& each : program.events) {
    if (each.kind == ClockEvent::Kind::begin_repeated) repeats = true;
    if (each.kind == ClockEvent::Kind::end_repeated) repeats = false;
    if (each.kind != ClockEvent::Kind::issue && each.kind != ClockEvent::Kind::exchange) continue;
    const auto call = static_cast<std::size_t>(each.index);
    ++counts.once[call], counts.repeated[call] += repeats ? 1 : 0;
  }
  return counts;
}

/// Returns the bytes held of a generation between steps.
Bytes generated(const Training& training, const Strategy& strategy, const Model& model) {
  return generation_scores(training, strategy, model.shape.vocabulary_size) +
         rollout_bytes(training, strategy);
}

Bytes ring(const Call& call, std::int64_t count) {
  return ring_wire_bytes(call.operation, call.elements * call.element * count, call.group_size);
}

}  // namespace

namespace {

std::optional<Estimate> simulated(PlanContext& context, const Strategy& strategy, Bytes most) {
  const std::optional<Plan> plan = context.sketch(strategy, most);
  if (!plan) return std::nullopt;
  Estimate result{.micro_batch_size = strategy.micro_batch_size,
                  .gradient_accumulation_steps = strategy.gradient_accumulation_steps,
                  .required_low = plan->memory().required_low,
                  .host = most_on_host(plan->moments),
                  .step = plan->time.step,
                  .tokens_per_second = plan->time.tokens_per_second,
                  .sent = {}};
  for (const Collective& each : plan->communication().collectives)
    result.sent += each.inside_bytes_per_gpu + each.outside_bytes_per_gpu;
  return result;
}

/// Returns true if the step has many rounds of micro-batches that are written out one by one.
bool is_long(const Training& training, const Strategy& strategy) {
  const std::int64_t stages = strategy.layout.pipeline;
  if (stages == 1 || strategy.gradient_accumulation_steps < 4 * stages ||
      strategy.gradient_accumulation_steps % stages != 0)
    return false;
  Strategy shorter = strategy;
  shorter.gradient_accumulation_steps = 4 * stages;
  return std::ranges::none_of(schedule_of_stage(training, shorter, 0).rounds, &Round::steady);
}

}  // namespace

/// Each round of as many micro-batches as stages adds as much to a long step as the second does to the first.
std::optional<Estimate> estimate_of(PlanContext& context, const Strategy& strategy, Bytes most) {
  if (!is_long(context.training(), strategy)) return simulated(context, strategy, most);
  Strategy shorter = strategy;
  shorter.gradient_accumulation_steps = strategy.layout.pipeline;
  const std::optional<Estimate> first = simulated(context, shorter, most);
  if (!first) return std::nullopt;
  shorter.gradient_accumulation_steps *= 2;
  std::optional<Estimate> result = simulated(context, shorter, most);
  if (!result) return std::nullopt;
  const std::int64_t rounds = strategy.gradient_accumulation_steps / strategy.layout.pipeline - 2;
  result->step += (result->step - first->step) * static_cast<double>(rounds);
  result->sent += (result->sent - first->sent) * rounds;
  result->gradient_accumulation_steps = strategy.gradient_accumulation_steps;
  const auto tokens = static_cast<double>(strategy.global_batch_size() * context.training().sequence_length);
  result->tokens_per_second = tokens / result->step.value;
  return result;
}

PlanFamily::Noted PlanFamily::note(std::int64_t micro_batch_size, std::int64_t micro_steps) {
  Strategy strategy = strategy_;
  strategy.micro_batch_size = micro_batch_size, strategy.gradient_accumulation_steps = micro_steps;
  const Training& training = context_.training();
  const Cluster& cluster = context_.cluster();
  const RankRun run = context_.run(strategy);
  Noted noted;
  noted.shard = run.shard();
  noted.outside = run.outside();
  noted.follows = follows_micro_step(training, strategy);
  noted.generated = generated(training, strategy, context_.model());
  // A run that logs what it asks for does not count what is left.
  if (trains_values(training)) noted.held = run.live().left.total() - noted.generated;
  Bytes neediest{};
  for (const RankRun& each : run.of_slices()) {
    RunInputs inputs = each.inputs();
    inputs.logs_memory = true;
    inputs.notes_calls = noted.live.empty();
    RunResult played = simulate_live(inputs);
    if (noted.live.empty()) noted.program = std::move(played.program);
    noted.live.push_back(std::move(played.live));
    noted.initialisation = std::max(noted.initialisation, played.initialisation.allocated);
    if (played.peak_allocated <= neediest) continue;
    neediest = played.peak_allocated;
    noted.host = most_on_host(host_moments(inputs.step, cluster.gpus_per_node,
                                           host_memory(inputs.step, cluster.gpus_per_node).total));
  }
  CostModel cost_model = run.cost_model(cluster);
  noted.memory_bytes_per_second = cost_model.memory().value;
  const CallCounts counts = count_calls(noted.program);
  for (std::size_t i = 0; i < noted.program.calls.size(); ++i) {
    const TimedCall& each = noted.program.calls[i];
    const bool sized = each.exchange >= 0;
    noted.calls.push_back(sized ? 0 : cost_model.call(each.call).value);
    if (sized) noted.exchanges.emplace(i, cost_model.pricer(each.call));
    noted.sent_once.push_back(sized ? Bytes(counts.once[i]) : ring(each.call, counts.once[i]));
    noted.sent_repeated.push_back(sized ? Bytes(counts.repeated[i]) : ring(each.call, counts.repeated[i]));
  }
  noted.offload = schedule({}, training, strategy, run.rank(), noted.shard);
  ++strategy.gradient_accumulation_steps;
  noted.offload_repeated = schedule({}, training, strategy, run.rank(), noted.shard);
  noted.offload_repeated.host_to_device -= noted.offload.host_to_device;
  noted.offload_repeated.device_to_host -= noted.offload.device_to_host;
  return noted;
}

Bytes PlanFamily::states() {
  return held_states(make_shard(context_.rank_of(strategy_), context_.training(), strategy_), strategy_);
}

TapeFigures& PlanFamily::tapes(std::int64_t micro_steps) const {
  Strategy strategy = strategy_;
  strategy.gradient_accumulation_steps = micro_steps;
  return follows_micro_step(context_.training(), strategy) ? following_ : tapes_;
}

const PlanFamily::RolloutFigures& PlanFamily::rollout_of(const Strategy& strategy) {
  const Training& training = context_.training();
  const Model& model = context_.model();
  const std::lock_guard lock(mutex_);
  RolloutFigures& figures =
      rollouts_[{samples_at_once(training, strategy), samples_generated(training, strategy)}];
  if (figures.is_known) return figures;
  const Tape prompt = record_prediction(model, training, strategy, prompt_tokens(training));
  const Tape token = record_prediction(model, training, strategy, 1);
  const ScoringTapes scoring = record_scoring(model, training, strategy);
  figures = {.is_known = true,
             .generation = std::max(on_device(worst_of_generation(model, training, strategy, prompt)),
                                    generation_pool(model, training, strategy, prompt).needed),
             .scoring = worst_of_scoring(model, training, scoring).device,
             .time = chunk_time(prompt, token, scoring, training, context_.cluster())};
  return figures;
}

const ChunkTime& PlanFamily::own_generation(const Strategy& strategy) {
  const std::int64_t samples = samples_at_once(context_.training(), strategy);
  const std::lock_guard lock(mutex_);
  const auto known = own_generations_.find(samples);
  if (known != own_generations_.end()) return known->second;
  return own_generations_
      .emplace(samples, chunk_time(context_.model(), context_.training(), strategy, context_.cluster()))
      .first->second;
}

Bytes PlanFamily::phases(const Noted& noted, const Strategy& strategy) {
  const RolloutFigures& figures = rollout_of(strategy);
  return noted.held + generated(context_.training(), strategy, context_.model()) +
         std::max(figures.generation, figures.scoring);
}

const PlanFamily::Noted& PlanFamily::noted(std::int64_t micro_batch_size, std::int64_t accumulation) {
  const std::int64_t micro_steps = distinct_micro_batches(accumulation);
  const Kind kind{tapes(micro_steps).at(micro_batch_size).order, micro_steps};
  const std::lock_guard lock(mutex_);
  const auto known = noted_.find(kind);
  if (known != noted_.end()) return known->second;
  return noted_.emplace(kind, note(micro_batch_size, kind.micro_steps)).first->second;
}

RolloutTime PlanFamily::rollout(const Strategy& strategy) {
  const Training& training = context_.training();
  const Model& model = context_.model();
  const Cluster& cluster = context_.cluster();
  if (trains_values(training))
    return rollout_time(model, training, strategy, cluster, rollout_of(strategy).time);
  if (!generates_itself(training)) return rollout_time(model, training, strategy, cluster);
  return rollout_time(model, training, strategy, cluster, own_generation(strategy));
}

PlanFamily::Played PlanFamily::play(const Noted& noted, const Sizes& sizes) {
  take_step();
  const MicroStepFigures<Lanes>& figures = (noted.follows ? following_ : tapes_).at(sizes);
  Played played;
  for (const LiveProgram& each : noted.live)
    played.highest = larger(played.highest, highest(each, figures.live));
  Durations<Lanes> takes{.loads = figures.loads,
                         .calls = {noted.calls.begin(), noted.calls.end()},
                         .memory_bytes_per_second = noted.memory_bytes_per_second};
  for (std::size_t i = 0; i < noted.program.calls.size(); ++i) {
    const TimedCall& each = noted.program.calls[i];
    const auto count = [i](const std::vector<Bytes>& sent) { return static_cast<double>(sent[i].value); };
    if (each.exchange < 0) {
      played.sent_once += count(noted.sent_once), played.sent_repeated += count(noted.sent_repeated);
      continue;
    }
    const Lanes& size = figures.exchanges[static_cast<std::size_t>(each.exchange)];
    const CollectivePricer& pricer = noted.exchanges.at(i);
    for (std::size_t lane = 0; lane < sizes.size(); ++lane) {
      const Bytes bytes(static_cast<std::int64_t>(size.of[lane]));
      takes.calls[i].of[lane] = pricer.time(bytes).value;
      const auto sent =
          static_cast<double>(ring_wire_bytes(each.call.operation, bytes, each.call.group_size).value);
      played.sent_once.of[lane] += sent * count(noted.sent_once);
      played.sent_repeated.of[lane] += sent * count(noted.sent_repeated);
    }
  }
  played.time = zplan::play(noted.program, takes);
  return played;
}

const PlanFamily::Played& PlanFamily::played(const Noted& noted, const Sizes& sizes) {
  const std::lock_guard lock(mutex_);
  const auto known = played_.find({&noted, sizes});
  if (known != played_.end()) return known->second;
  return played_.emplace(std::pair{&noted, sizes}, play(noted, sizes)).first->second;
}

Estimate PlanFamily::estimate(const Noted& noted, const Played& played, std::size_t lane,
                              std::int64_t micro_batch_size, std::int64_t accumulation) {
  const auto more = static_cast<double>(repeats_of(accumulation) - 1);
  const auto seconds = [&](const Lanes& once) {
    return Seconds(once.of[lane] + played.time.repeated.of[lane] * more);
  };
  Strategy strategy = strategy_;
  strategy.micro_batch_size = micro_batch_size, strategy.gradient_accumulation_steps = accumulation;
  Schedule offload;
  const std::int64_t repeats = repeats_of(accumulation) - 1;
  offload.host_to_device = noted.offload.host_to_device + noted.offload_repeated.host_to_device * repeats;
  offload.device_to_host = noted.offload.device_to_host + noted.offload_repeated.device_to_host * repeats;
  Estimate result;
  result.micro_batch_size = micro_batch_size, result.gradient_accumulation_steps = accumulation;
  const Bytes live(static_cast<std::int64_t>(played.highest.of[lane]));
  // A generation feeds all micro-steps, of which few are played, and of one micro-batch.
  const Bytes unplayed = generated(context_.training(), strategy, context_.model()) - noted.generated;
  result.required_low = std::max(live, noted.initialisation) + unplayed;
  result.host = noted.host;
  const Training& training = context_.training();
  if (trains_values(training)) result.required_low = std::max(result.required_low, phases(noted, strategy));
  result.required_low += noted.outside;
  result.step = seconds(played.time.step) +
                offload_time(training, strategy, context_.cluster(), noted.shard, offload,
                             seconds(played.time.micro_steps))
                    .total() +
                rollout(strategy).total();
  const auto tokens = static_cast<double>(strategy.global_batch_size() * context_.training().sequence_length);
  result.tokens_per_second = tokens / result.step.value;
  result.sent =
      Bytes(static_cast<std::int64_t>(played.sent_once.of[lane] + played.sent_repeated.of[lane] * more));
  return result;
}

std::vector<Estimate> PlanFamily::estimates(const std::vector<std::int64_t>& micro_batch_sizes,
                                            std::int64_t accumulation) {
  std::vector<Estimate> result;
  result.reserve(micro_batch_sizes.size());
  for (std::size_t at = 0; at < micro_batch_sizes.size();) {
    // Eight sizes of one order at a time; fewer are filled up with the first of them.
    TapeFigures& tapes = this->tapes(distinct_micro_batches(accumulation));
    const std::uint64_t order = tapes.at(micro_batch_sizes[at]).order;
    Sizes sizes;
    sizes.fill(micro_batch_sizes[at]);
    std::size_t n = 1;
    while (n < sizes.size() && at + n < micro_batch_sizes.size() &&
           tapes.at(micro_batch_sizes[at + n]).order == order)
      sizes[n] = micro_batch_sizes[at + n], ++n;
    const Noted& run = noted(sizes.front(), accumulation);
    const Played& played = this->played(run, sizes);
    for (std::size_t lane = 0; lane < n; ++lane)
      result.push_back(estimate(run, played, lane, sizes[lane], accumulation));
    at += n;
  }
  return result;
}

TapeKey PlanScreen::key_of(const Training& training, const Strategy& strategy) {
  return TapeKey::of(training, strategy, rank_classes(strategy.layout).front()).of_any_size();
}

TapeFigures& PlanScreen::tapes(const Strategy& strategy) {
  const std::lock_guard lock(mutex_);
  const auto tapes = tapes_.try_emplace(key_of(context_.training(), strategy), context_.cluster(),
                                        context_.training(), local_tokens(context_.training(), strategy),
                                        [this, strategy](std::int64_t micro_batch_size) -> const Recording& {
                                          Strategy sized = strategy;
                                          sized.micro_batch_size = micro_batch_size;
                                          return context_.recording_of(sized);
                                        });
  return tapes.first->second;
}

PlanFamily PlanScreen::family(const Strategy& strategy) {
  Strategy alone = strategy, followed = strategy;
  alone.gradient_accumulation_steps = 1;
  followed.gradient_accumulation_steps = context_.training().rollout.mini_batches + 1;
  return {context_, tapes(alone), tapes(followed), strategy};
}

}  // namespace zplan
