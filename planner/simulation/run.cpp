#include "planner/simulation/run.h"

#include "planner/model_trace/causal_lm.h"
#include "planner/question/framework.h"

namespace zplan {

AllocatorOptions allocator_options(const Training& training) {
  AllocatorOptions options;
  options.expandable_segments = training.expandable_segments;
  return options;
}

RunInputs flattening_on_host(RunInputs inputs) {
  inputs.flattens_on_host = true;
  inputs.requests = nullptr;
  return inputs;
}

namespace {

RunResult play(const RunInputs& inputs, const std::optional<AllocatorOptions>& allocator, bool condensed) {
  // Live memory repeats from the second step on; what the allocator caches drifts for longer.
  const int steps = allocator ? 3 : 2;
  return spec(inputs.step.training.framework).play(inputs, allocator, steps, condensed);
}

}  // namespace

Recording record(const Model& model, const Training& training, const Strategy& strategy,
                 const RankClass& place, std::string_view compute_capability) {
  Tape tape = record_tape(model, training, strategy, place.part(), compute_capability);
  CondensedTape condensed = condense(tape);
  return {std::move(tape), std::move(condensed)};
}

RunResult simulate(const RunInputs& inputs) {
  return play(inputs, allocator_options(inputs.step.training), false);
}

std::optional<Flattening> flattening_of(const RunInputs& inputs) {
  return spec(inputs.step.training.framework).flattening(inputs);
}

RunResult simulate_flattening_on_host(const RunInputs& inputs) {
  return simulate(flattening_on_host(inputs));
}

RunResult simulate_within(const RunInputs& inputs, Bytes pool) {
  AllocatorOptions options = allocator_options(inputs.step.training);
  options.capacity = pool;
  return play(inputs, options, false);
}

RunResult simulate_live(const RunInputs& inputs) { return play(inputs, std::nullopt, true); }

RunResult simulate_live_from_whole_tape(const RunInputs& inputs) { return play(inputs, std::nullopt, false); }

}  // namespace zplan
