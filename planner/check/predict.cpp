#include "planner/check/predict.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <tuple>
#include <utility>

#include "hardware_profiles/cluster.h"
#include "hardware_profiles/collective_cost.h"
#include "planner/model_trace/causal_lm.h"
#include "planner/moments/evaluation.h"
#include "planner/moments/ppo.h"
#include "planner/plan/legality.h"
#include "planner/plan/plan.h"
#include "planner/plan/plan_context.h"
#include "planner/plan/rank_run.h"
#include "planner/question/framework.h"
#include "planner/sharding/model_part.h"
#include "planner/simulation/allowances.h"
#include "planner/simulation/gpu_trials.h"
#include "planner/simulation/memory.h"
#include "planner/simulation/rank_state.h"

namespace zplan::check {

namespace {

RankRun run_of(const Setup& setup) {
  const RankRun::Target target = RankRun::target_of(setup.cluster);
  if (setup.rank != Setup::kFullestRank)
    return {setup.model, setup.training, setup.strategy, target, setup.rank};
  const std::vector<RankClass> places = rank_classes(setup.strategy.layout);
  if (places.size() == 1) return {setup.model, setup.training, setup.strategy, target, std::int64_t{0}};
  std::optional<RankRun> fullest;
  Bytes most{};
  for (const RankClass& place : places) {
    RankRun run(setup.model, setup.training, setup.strategy, target, place);
    const Bytes needs = run.live_memory().peak.bytes();
    if (fullest && needs <= most) continue;
    most = needs;
    fullest = std::move(run);
  }
  return *std::move(fullest);
}

/// Returns why DeepSpeed would refuse the run, which it then never ran. Rules of other frameworks are not
/// asked.
std::vector<std::string> illegal(const Setup& setup) {
  if (!spec(setup.training.framework).reads_ds_config) return {};
  return why_illegal(setup.model, setup.training, setup.strategy,
                     {setup.cluster.gpus, setup.cluster.gpus_per_node});
}

/// The workspaces that the libraries of a process have made: one for each thread, the forward's and
/// autograd's.
class Workspaces {
 public:
  [[nodiscard]] bool is_new(std::int32_t library, bool backward) {
    return !std::exchange(made_[static_cast<std::size_t>(library)][backward ? 1 : 0], true);
  }

 private:
  std::array<std::array<bool, 2>, 2> made_{};
};

/// Simulates micro-steps of a model whose parameters exist, and measures the bytes that they add.
class ActivationMeter {
 public:
  ActivationMeter(const RankRun& run, Device& device, Workspaces& workspaces)
      : inputs_(run.inputs()),
        device_(device),
        workspaces_(workspaces),
        state_(inputs_, device),
        layout_(run.recording().tape),
        blocks_(static_cast<std::size_t>(layout_.blocks()), Device::kNone) {}

  void make_parameters() { state_.make_parameters(); }
  void release_parameters() {
    for (std::size_t i = 0; i < state_.tensors().size(); ++i) state_.release_parameter(i);
  }

  void step() {
    const StepInputs& in = inputs_.step;
    Device::Block ids = device_.allocate(
        Term::model_inputs, token_ids(in.strategy.micro_batch_size, local_tokens(in.training, in.strategy)) *
                                numbers_per_token(in.strategy));
    base_ = device_.allocated();
    device_.begin_step();
    play(inputs_.recording.tape, layout_, *this);
    device_.release(ids);
  }
  /// Gradients go, and what is cached.
  void clear() {
    state_.release_gradients();
    device_.empty_cache();
  }

  /// Returns the figures of the last step.
  [[nodiscard]] ActivationFigures figures() const {
    const auto above = [&](Phase phase) { return device_.peak(phase).allocated - base_; };
    return {.saved_after_forward = saved_ - base_,
            .forward = above(Phase::forward),
            .loss = above(Phase::loss),
            .loss_backward = above(Phase::loss_backward),
            .layers_backward = above(Phase::backward)};
  }

  void section(int /*unused*/, bool /*unused*/) {}
  void allocate(std::int32_t block, Term term, Bytes size) {
    blocks_[at(block)] = device_.allocate(term, size);
  }
  void release(std::int32_t block) { device_.release(blocks_[at(block)]); }
  void gradient(int layer, std::int32_t index, std::int32_t block) {
    state_.take_gradient(state_.tensor_of(layer, index), std::exchange(blocks_[at(block)], Device::kNone));
  }
  void part_of_gradient(int layer, std::int32_t index, std::int32_t block) { gradient(layer, index, block); }
  void module(const Event& /*unused*/, int /*unused*/) {}
  void workspace(std::int32_t library) {
    if (workspaces_.is_new(library, backward_)) state_.workspace(library);
  }
  void phase(Phase phase) {
    if (phase == Phase::loss_backward) saved_ = device_.allocated();
    backward_ = phase == Phase::loss_backward || phase == Phase::backward;
    device_.enter(phase, to_name(phase));
  }

 private:
  static std::size_t at(std::int32_t block) { return static_cast<std::size_t>(block); }

  RunInputs inputs_;
  Device& device_;
  Workspaces& workspaces_;
  RankState state_;
  TapeLayout layout_;
  std::vector<Device::Block> blocks_;
  Bytes base_, saved_;
  bool backward_{};
};

/// The setup with one sample of eight tokens, as a measurement warms up.
Setup with_short_input(Setup setup) {
  setup.strategy.micro_batch_size = 1;
  setup.training.sequence_length = 8;
  setup.training.padding_mask = false;
  return setup;
}

/// A process measures a first step behind warm-up steps with a short input, of this model and, before it, of
/// the first one that it ran: what these leave behind are workspaces, and the segments that they lie in.
ActivationFigures measured_step(const RankRun& run, const RankRun& short_input,
                                const std::optional<RankRun>& first,
                                const std::optional<AllocatorOptions>& allocator) {
  Device device(allocator);
  Workspaces workspaces;
  if (first) {
    ActivationMeter before(*first, device, workspaces);
    before.make_parameters();
    before.step();
    before.release_parameters();
    before.clear();
  }
  // The short input's parameters are this one's; its gradients are gone when it is measured.
  ActivationMeter meter(run, device, workspaces), warm_up(short_input, device, workspaces);
  meter.make_parameters();
  warm_up.step();
  warm_up.clear();
  meter.step();
  return meter.figures();
}

}  // namespace

namespace {

/// Micro-steps whose lengths are spread evenly up to the limit, in an order without a trend: multiples of the
/// golden ratio, modulo one. A batch is as long as its longest sample.
std::vector<VariedMicroStep> varied_micro_steps(const Setup& setup) {
  constexpr double kGolden = 0.6180339887498949;
  constexpr int kMicroSteps = 16;
  const RankClass place = rank_classes(setup.strategy.layout).front();
  std::vector<VariedMicroStep> steps;
  double at = 0;
  for (int i = 0; i < kMicroSteps; ++i) {
    double longest = 0;
    for (std::int64_t sample = 0; sample < setup.strategy.micro_batch_size; ++sample) {
      at += kGolden;
      at -= std::floor(at);
      longest = std::max(longest, at);
    }
    Training training = setup.training;
    training.sequence_length = std::max<std::int64_t>(
        1, static_cast<std::int64_t>(longest * static_cast<double>(training.sequence_length)));
    steps.push_back(
        {training.sequence_length, record(model_part(setup.model, setup.strategy, place), training,
                                          setup.strategy, place, setup.cluster.gpu.compute_capability)});
  }
  return steps;
}

/// Returns the bytes that the allocator reserves. `roomy` is the run without a limit; its figure stands
/// unless the GPU is known and the run starts differently there, or needs more than the GPU has: then the run
/// is simulated within the GPU's memory.
Bytes reserved_on_card(const Setup& setup, RunInputs inputs, const RunResult& roomy, Bytes outside) {
  const Bytes card = setup.cluster.usable_memory, pool = card - outside;
  const bool starts_otherwise = roomy.flattening && card < roomy.flattening->gpu;
  if (!setup.card_is_known || pool.value <= 0) return roomy.peak_reserved;
  if (roomy.peak_reserved <= pool && !starts_otherwise) return roomy.peak_reserved;
  const RunResult pressed = simulate_within(inputs, pool);
  return pressed.completed ? pressed.peak_reserved : roomy.peak_reserved;
}

Bytes reserved_by_varied(const Setup& setup, RunInputs inputs, Bytes outside) {
  const std::vector<VariedMicroStep> varied = varied_micro_steps(setup);
  inputs.varied = &varied;
  return reserved_on_card(setup, inputs, simulate(inputs), outside);
}

/// Between updates the trainer gives cached segments back (empty_cache), so that what generates and scores
/// comes on top of what is held.
MomentPrediction moment_over(const RunInputs& inputs, const RunResult& run, RunMoment moment) {
  const StepInputs& in = inputs.step;
  if (moment == RunMoment::scoring) {
    const ScoringTapes tapes = record_scoring(in.model, in.training, in.strategy);
    const Bytes taken = run.held + worst_of_scoring(in.model, in.training, tapes).device;
    return {run.held, taken, taken};
  }
  const Tape prompt = record_prediction(in.model, in.training, in.strategy, prompt_tokens(in.training));
  return {run.held, run.held + on_device(worst_of_generation(in.model, in.training, in.strategy, prompt)),
          run.held + generation_pool(in.model, in.training, in.strategy, prompt).reserved};
}

/// An update's peaks are those of its worst phase.
void cover_rollout(const RunInputs& inputs, const RunResult& run, MemoryPrediction& prediction) {
  if (!trains_values(inputs.step.training)) return;
  for (const RunMoment each : {RunMoment::generation, RunMoment::scoring}) {
    const MomentPrediction taken = moment_over(inputs, run, each);
    prediction.peak_allocated = std::max(prediction.peak_allocated, taken.allocated);
    prediction.peak_reserved = std::max(prediction.peak_reserved, taken.reserved);
  }
}

/// The smallest; for a GPU that is known and fails as it starts, that from which on larger ones do not.
Bytes required_pool(const Setup& setup, const RunInputs& inputs, const RunResult& run) {
  const Bytes smallest = GpuTrials(inputs, run).smallest() - inputs.outside;
  const bool fails = setup.card_is_known && run.flattening &&
                     run.flattening->failing(inputs.outside).contains(setup.cluster.usable_memory);
  return fails ? std::max(smallest, run.flattening->reserved) : smallest;
}

}  // namespace

MomentPrediction predict_moment(const Setup& setup, RunMoment moment) {
  const RankRun planned = run_of(setup);
  RunInputs inputs = planned.inputs();
  inputs.outside = {};
  return moment_over(inputs, simulate(inputs), moment);
}

MemoryPrediction predict_memory(const Setup& setup, bool with_required) {
  const RankRun planned = run_of(setup);
  RunInputs inputs = planned.inputs();
  // A GPU that was pretended has neither a context nor NCCL's buffers.
  if (!setup.card_is_known) inputs.outside = {};
  const RunResult run = simulate(inputs);
  MemoryPrediction prediction;
  prediction.outside = planned.outside();
  prediction.peak_requested = run.peak.bytes();
  prediction.held = run.left.total();
  prediction.peak_allocated = run.peak_allocated;
  prediction.peak_reserved = setup.varies ? reserved_by_varied(setup, inputs, prediction.outside)
                                          : reserved_on_card(setup, inputs, run, prediction.outside);
  cover_rollout(inputs, run, prediction);
  if (with_required) prediction.required = required_pool(setup, inputs, run);
  for (const Bytes block : pinned_blocks(inputs.step))
    if (block >= kLeastHostBlock) prediction.host_pinned += block;
  const HostMemory host = host_memory(inputs.step, 1);
  prediction.host_pageable = host.total - host.pinned;
  prediction.peak_phase = run.peak.phase;
  prediction.phases = run.phases;
  return prediction;
}

Bytes predict_resident(const Setup& setup, RunMoment moment, bool trained) {
  const RankRun run = run_of(setup);
  const StepInputs in = run.step();
  const std::int64_t ranks = setup.strategy.layout.world();
  Bytes held = run.shard().parameters;
  if (trained) {
    const Composition left = run.live().left;
    held = left.total() - left[Term::cublas_workspace];
  }
  Bytes node{};
  if (moment != RunMoment::load) node += held * ranks;
  if (moment == RunMoment::evaluation) return node + kept_logits_on_cpu(in) * ranks;
  for (const MomentMemory& each : host_moments(in, ranks, {})) {
    if (each.moment != moment) continue;
    for (const Resident& part : each.parts)
      if (!part.is_copy) node += (part.device + part.host) * ranks + part.host_of_first;
  }
  return node;
}

HeldBytes predict_held(const Setup& setup, std::int64_t rank) {
  const RankClass place = class_of(setup.strategy.layout, rank);
  const RankModel model =
      rank_model(model_part(setup.model, setup.strategy, place), setup.training, setup.strategy, place);
  const Shard shard = make_shard(model, setup.training, setup.strategy);
  HeldBytes held{.parameters = shard.parameters,
                 .persistent_parameters = shard.persistent_parameters,
                 .master_weights = shard.master_weights,
                 .moments = shard.moments,
                 .gradients = shard.gradients,
                 .bucket = shard.bucket};
  if (setup.strategy.offload_parameters != OffloadDevice::none) held.parameters_on_host = shard.parameters;
  return held;
}

/// Repetitions are written out, so that calls come in the order in which they are issued.
std::vector<CallTally> predict_calls(const Setup& setup) {
  std::vector<CallTally> sequence;
  const RankRun run = run_of(setup);
  RunInputs inputs = run.inputs();
  const StepSchedule whole =
      unfolded(inputs.schedule != nullptr ? *inputs.schedule
                                          : accumulate_gradients(setup.strategy.gradient_accumulation_steps));
  if (spec(setup.training.framework).has_stages) inputs.schedule = &whole;
  for (const Call& call : simulate_live(inputs).calls)
    append_folded(sequence, {call.operation, std::string(call.dtype), call.group_size, call.phase, call.times,
                             call.elements * call.times});
  return sequence;
}

double predict_tokens_per_second_per_gpu(const Setup& setup) {
  PlanContext context(setup.model, setup.cluster, setup.training, Headroom{});
  return context.time(setup.strategy).tokens_per_second_per_gpu;
}

CallPrediction predict_call(const Cluster& cluster, Operation operation, Bytes size,
                            std::string_view record) {
  const CollectivePricer planned(cluster, operation, place_of_all(cluster), {.without_record = record});
  const CollectivePricer model(cluster, operation, place_of_all(cluster), {.curves = false});
  return {planned.time(size), model.time(size), planned.measured()};
}

SentPrediction predict_sent(const Cluster& cluster, Operation operation, Bytes size, std::int64_t calls) {
  const GroupPlace place = place_of_all(cluster);
  CollectiveCost cost = CollectivePricer(cluster, operation, place).cost(size);
  if (cost.algorithm == CollectiveAlgorithm::pairwise) cost.protocol = CollectiveProtocol::simple;
  const bool chain = operation == Operation::broadcast || operation == Operation::reduce;
  double share = chain ? static_cast<double>(place.nodes - 1) / static_cast<double>(place.nodes) : 1;
  if (cost.protocol == CollectiveProtocol::ll) share *= 2;
  if (cost.protocol == CollectiveProtocol::ll128) share *= 16.0 / 15;
  const double all = share * static_cast<double>(cost.outside.value) * static_cast<double>(place.ranks) *
                     static_cast<double>(calls);
  constexpr double kMost = 4e18;  // what a broken file says must stay a number
  return {Bytes(std::llround(std::min(all, kMost))), name_of_way(cost)};
}

ActivationPrediction predict_activations(const Setup& setup, const std::optional<Setup>& first) {
  const Setup short_setup = with_short_input(setup);
  const RankRun run = run_of(setup), short_input = run_of(short_setup);
  const std::optional<RankRun> before = first ? std::optional(run_of(*first)) : std::nullopt;
  const auto measured = [&](const std::optional<AllocatorOptions>& allocator) {
    return measured_step(run, short_input, before, allocator);
  };
  return {measured(std::nullopt), measured(AllocatorOptions{})};
}

Skip not_modelled(const Setup& setup, const Measured& measured) {
  const bool of_steps =
      std::holds_alternative<MeasuredMemory>(measured) || std::holds_alternative<MeasuredSpeed>(measured);
  return {of_steps ? illegal(setup) : std::vector<std::string>{}, ""};
}

}  // namespace zplan::check
