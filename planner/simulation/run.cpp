#include "planner/simulation/run.h"

#include <utility>

#include "planner/model_trace/causal_lm.h"
#include "planner/question/framework.h"
#include "planner/sharding/model_part.h"

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

namespace {

Recording condensed(Tape tape) {
  CondensedTape condensed = condense(tape);
  return {std::move(tape), std::move(condensed)};
}

void add_to_loads(std::vector<Event>& events, std::int32_t first) {
  for (Event& each : events)
    if (each.kind == Event::Kind::compute) each.index += first;
}

/// Numbers the loads of `tape` behind `first` others.
void add_to_loads(Tape& tape, std::int32_t first) {
  const auto of_part = [&](TapePart& part) {
    add_to_loads(part.forward, first), add_to_loads(part.backward, first);
  };
  of_part(tape.model);
  for (TapePart& each : tape.classes) of_part(each);
  add_to_loads(tape.head, first), add_to_loads(tape.head_backward, first);
  for (std::vector<Event>& each : tape.transfers) add_to_loads(each, first);
}

/// Moves the loads of `tape` behind those of `all`.
void move_loads(Tape& tape, std::vector<Load>& all) {
  add_to_loads(tape, static_cast<std::int32_t>(all.size()));
  all.insert(all.end(), tape.loads.begin(), tape.loads.end());
  tape.loads.clear();
}

/// Returns the place of a model among `models` before it that has the same layers and ends; models.size()
/// where there is none.
std::size_t place_of_equal(const std::vector<Model>& models, std::size_t before) {
  const Inventory& own = models[before].inventory;
  std::size_t at = 0;
  for (; at < before; ++at) {
    const Inventory& other = models[at].inventory;
    if (other.layers == own.layers && other.before.size() == own.before.size() &&
        other.after.size() == own.after.size())
      break;
  }
  return at;
}

/// Records each chunk of a rank's layers as a stage of a pipeline that has a stage for every chunk.
Recording record_chunks(const Model& model, const Training& training, const Strategy& strategy,
                        const RankClass& place, std::string_view compute_capability) {
  const std::vector<Model> models = chunk_models(model, strategy, place);
  Strategy deeper = strategy;
  deeper.layout.pipeline *= std::exchange(deeper.layout.virtual_stages, 1);
  Recording all;
  all.order.clear();
  for (std::size_t i = 0; i < models.size(); ++i) {
    if (const std::size_t equal = place_of_equal(models, i); equal < i) {
      all.order.push_back(all.order[equal]);
      continue;
    }
    RankClass of_chunk = place.part();
    of_chunk.stage += static_cast<std::int64_t>(i) * strategy.layout.pipeline;
    Tape tape = record_tape(models[i], training, deeper, of_chunk, compute_capability);
    share_loads(tape);
    all.order.push_back(i == 0 ? 0 : all.others.size() + 1);
    if (i > 0) move_loads(tape, all.tape.loads);
    Recording made = condensed(std::move(tape));
    if (i > 0)
      all.others.push_back(std::move(made));
    else
      all.tape = std::move(made.tape), all.condensed = std::move(made.condensed);
  }
  return all;
}

}  // namespace

Recording record(const Model& model, const Training& training, const Strategy& strategy,
                 const RankClass& place, std::string_view compute_capability) {
  if (strategy.layout.virtual_stages > 1)
    return record_chunks(model, training, strategy, place, compute_capability);
  Tape tape = record_tape(model, training, strategy, place.part(), compute_capability);
  share_loads(tape);
  return condensed(std::move(tape));
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
