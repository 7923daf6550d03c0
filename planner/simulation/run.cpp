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
    for (std::vector<Event>* each : {&part.forward, &part.backward, &part.weights})
      add_to_loads(*each, first);
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
class ChunkRecorder {
 public:
  ChunkRecorder(const Model& model, const Training& training, const Strategy& strategy,
                const RankClass& place, std::string_view compute_capability)
      : training_(training),
        strategy_(strategy),
        place_(place),
        compute_capability_(compute_capability),
        models_(chunk_models(model, strategy, place)),
        deeper_(strategy) {
    deeper_.layout.pipeline *= std::exchange(deeper_.layout.virtual_stages, 1);
  }

  Recording take() {
    all_.order = record_each(false);
    if (strategy_.torchtitan && splits_backward(strategy_.torchtitan->schedule))
      all_.splits = record_each(true);
    return std::move(all_);
  }

 private:
  std::vector<std::size_t> record_each(bool splits) {
    std::vector<std::size_t> places;
    for (std::size_t i = 0; i < models_.size(); ++i) {
      RankClass of_chunk = place_.part();
      of_chunk.stage = part_of_stage(strategy_, place_.stage, static_cast<std::int64_t>(i));
      const std::size_t equal = place_of_equal(models_, i);
      if (equal < i)
        places.push_back(places[equal]);
      else if (splits && of_chunk.stage == 0)
        places.push_back(all_.order[i]);
      else
        places.push_back(add((splits ? record_split_tape : record_tape)(models_[i], training_, deeper_,
                                                                        of_chunk, compute_capability_)));
    }
    return places;
  }
  /// Returns the place of the recording that it makes of `tape`.
  std::size_t add(Tape tape) {
    share_loads(tape);
    if (all_.tape.classes.empty() && all_.tape.loads.empty()) {
      Recording made = condensed(std::move(tape));
      all_.tape = std::move(made.tape), all_.condensed = std::move(made.condensed);
      return 0;
    }
    move_loads(tape, all_.tape.loads);
    all_.others.push_back(condensed(std::move(tape)));
    return all_.others.size();
  }

  const Training& training_;
  const Strategy& strategy_;
  const RankClass& place_;
  std::string_view compute_capability_;
  std::vector<Model> models_;
  Strategy deeper_;
  Recording all_;
};

}  // namespace

Recording record(const Model& model, const Training& training, const Strategy& strategy,
                 const RankClass& place, std::string_view compute_capability) {
  if (strategy.layout.virtual_stages > 1)
    return ChunkRecorder(model, training, strategy, place, compute_capability).take();
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
