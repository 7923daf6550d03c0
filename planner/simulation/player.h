#pragma once
// Plays a recorded micro-step through a framework's run: initialisation, then optimizer steps.

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "planner/model_trace/play.h"
#include "planner/question/work.h"
#include "planner/simulation/rank_state.h"
#include "planner/simulation/run.h"
#include "planner/step/optimizer_traffic.h"

namespace zplan {

/// Plays tapes for a framework: a class with
///   void initialise(), begin_micro_step(bool last), gradient(std::size_t tensor, Device::Block),
///   module(const Event&, int layer), end_backward(bool last), step(bool first),
/// and, where it needs them, section(int layer, bool backward) and phase(Phase): where these begin;
/// flattening(): where the GPU decides how it starts.
template <class Framework>
class Player {
 public:
  Player(const RunInputs& inputs, const std::optional<AllocatorOptions>& allocator)
      : inputs_(inputs), device_(allocator), state_(inputs, device_), framework_(state_) {
    if (inputs.logs_memory) device_.keep_log();
    device_.record_requests(inputs.requests);
    if (allocator && !allocator->capacity) device_.keep_trace(inputs.watched);
    const std::int64_t ranks = inputs.step.strategy.layout.token_ranks();
    add_form(inputs.recording.tape, inputs.step.training.sequence_length / ranks);
    device_.set_input_unit(token_ids(sequences(), forms_.front().tokens));
    if (inputs.varied == nullptr) return;
    for (const VariedMicroStep& each : *inputs.varied)
      add_form(each.recording.tape, each.sequence_length / ranks);
  }

  PhasePeak initialise() {
    take_step();
    device_.enter(Phase::initialisation, "initialisation");
    framework_.initialise();
    const StepInputs& in = inputs_.step;
    if (const Bytes kept = rollout_bytes(in.training, in.strategy); kept.value > 0)
      device_.allocate(Term::model_inputs, kept);
    const Bytes scores = generation_scores(in.training, in.strategy, in.model.shape.vocabulary_size);
    if (scores.value > 0) device_.allocate(Term::logits, scores);
    return {device_.peak(Phase::initialisation).requested, device_.peak_allocated()};
  }

  /// What the allocator was asked so far.
  [[nodiscard]] AllocatorTrace take_trace() { return device_.take_trace(); }

  [[nodiscard]] std::optional<Flattening> flattening() const {
    if constexpr (requires { framework_.flattening(); }) return framework_.flattening();
    return std::nullopt;
  }

  RunResult play(int steps, bool condensed) {
    condensed_ = condensed;
    RunResult result;
    result.initialisation = result.least_initialisation = initialise();
    result.flattening = flattening();
    std::optional<Device::Layout> layout;
    for (int step = 0; step < steps && !device_.out_of_memory(); ++step) {
      device_.begin_step();
      state_.begin_step(inputs_.notes_calls && step > 0);  // the first is never the steady one
      play_step(step == 0);
      // From the second step on all ask for the same: one that ends as it began is the steady one.
      if (steps < 3 || step > 1 || is_told_everything() || device_.out_of_memory()) continue;
      const auto before = std::exchange(layout, device_.layout());
      if (before != layout) continue;
      device_.repeat_last_step();
      break;
    }
    result.completed = !device_.out_of_memory();
    result.peak = device_.peak();
    for (std::size_t i = 0; i < kPhases; ++i) {
      result.phases[i] = device_.peak(static_cast<Phase>(i));
      result.peak_allocated = std::max(result.peak_allocated, result.phases[i].allocated);
    }
    result.peak_reserved = device_.peak_reserved();
    result.held = device_.allocated();
    result.left = device_.live();
    result.timeline = device_.moments();
    result.calls = state_.calls().calls();
    result.program = state_.clock().program();
    result.live = device_.take_log();
    result.asked = device_.take_trace();
    result.before_more = device_.take_watched();
    return result;
  }

  // ---- what the tape says
  void section(int layer, bool backward) {
    stop_if_asked();
    layer_ = layer, backward_ = backward;
    if constexpr (requires { framework_.section(layer, backward); }) framework_.section(layer, backward);
    if (layer >= 0)
      device_.enter(backward ? Phase::backward : Phase::forward,
                    backward ? "layer backward" : "layer forward", layer);
  }
  void allocate(std::int32_t block, Term term, Bytes size) { held(block) = device_.allocate(term, size); }
  void release(std::int32_t block) { device_.release(held(block)); }
  void gradient(int layer, std::int32_t index, std::int32_t block) {
    framework_.gradient(state_.tensor_of(layer, index), std::exchange(held(block), Device::kNone));
  }
  void part_of_gradient(int layer, std::int32_t index, std::int32_t block) {
    state_.take_gradient(state_.tensor_of(layer, index), std::exchange(held(block), Device::kNone));
  }
  void delta(const MemoryDelta& delta, std::int32_t number) { device_.delta(delta, number); }
  void gradient(int layer, std::int32_t index, Bytes size, Term term) {
    framework_.gradient(state_.tensor_of(layer, index), device_.adopt(term, size));
  }
  void part_of_gradient(int layer, std::int32_t index, Bytes size, Term term) {
    state_.take_gradient(state_.tensor_of(layer, index), device_.adopt(term, size));
  }
  void module(const Event& event, int layer) { framework_.module(event, layer); }
  void phase(Phase phase) {
    device_.enter(phase, name_of(phase));
    if constexpr (requires { framework_.phase(phase); }) framework_.phase(phase);
  }
  void reference(std::int32_t index) {
    if constexpr (requires { framework_.reference(index); }) framework_.reference(index);
  }
  void communicate(TensorCall call, Bytes size, std::int32_t number) {
    state_.communicate(call, size, number);
  }
  void await(TensorCall call) { state_.await(call); }
  void compute(std::int32_t load) { state_.clock().compute(load); }
  void workspace(std::int32_t library) {
    if (first_) state_.workspace(library);
  }

 private:
  /// Whether every step is to be played, alike or not.
  [[nodiscard]] bool is_told_everything() const {
    return inputs_.requests != nullptr || inputs_.varied != nullptr;
  }

  /// Of a micro-batch.
  [[nodiscard]] std::int64_t sequences() const {
    return inputs_.step.strategy.micro_batch_size * sequences_per_sample(inputs_.step.training);
  }
  /// The micro-step of one length, and its blocks.
  struct Form {
    const Tape* tape{};
    std::int64_t tokens{};  ///< of a sample on this rank
    TapeLayout layout;
    std::vector<Device::Block> blocks;
  };
  void add_form(const Tape& tape, std::int64_t tokens) {
    TapeLayout layout(tape);
    std::vector<Device::Block> blocks(static_cast<std::size_t>(layout.blocks()), Device::kNone);
    forms_.push_back({&tape, tokens, std::move(layout), std::move(blocks)});
  }
  [[nodiscard]] Device::Block& held(std::int32_t block) {
    return forms_[form_].blocks[static_cast<std::size_t>(block)];
  }
  static std::string_view name_of(Phase phase) {
    switch (phase) {
      case Phase::forward: return "embedding";
      case Phase::loss: return "head and loss";
      case Phase::loss_backward: return "loss backward";
      default: return "final norm backward";
    }
  }

  void play_step(bool first) {
    const std::int64_t micro_steps = inputs_.step.strategy.gradient_accumulation_steps;
    if (forms_.size() > 1) {
      first_ = first;
      return play_varied(micro_steps);
    }
    // Between the second and the last all micro-steps are alike.
    const std::int64_t played = std::min<std::int64_t>(micro_steps, 3);
    for (std::int64_t i = 0; i < played && !device_.out_of_memory(); ++i) {
      first_ = first && i == 0;
      device_.enter(Phase::forward, "forward");
      const bool last = i + 1 == played;
      const bool repeats = i == 1 && !last;
      state_.calls().repeat(1);
      state_.refill_batches(state_.batch_refills(last ? micro_steps - 1 : i, repeats ? micro_steps - 2 : 1));
      state_.calls().repeat(repeats ? micro_steps - 2 : 1);
      if (repeats) state_.clock().begin_repeated();
      play_micro_step(last);
      if (repeats) state_.clock().end_repeated();
    }
    state_.clock().end_micro_steps();
    device_.enter(Phase::step, "optimizer step");
    std::vector<Device::Block> outputs;
    for (const Bytes each : inputs_.recording.tape.held)
      outputs.push_back(device_.allocate(Term::logits, each));
    framework_.step(first);
    device_.release(outputs);
    state_.clock().optimize(optimizer_traffic(inputs_.step.strategy, inputs_.step.shard));
  }

  /// Each length once, then the longest, in as many optimizer steps as that takes.
  void play_varied(std::int64_t micro_steps) {
    bool first_step = first_;
    for (std::size_t i = 1; i <= forms_.size() && !device_.out_of_memory(); ++i) {
      form_ = i % forms_.size();
      const bool last = form_ == 0 || static_cast<std::int64_t>(i) % micro_steps == 0;
      device_.enter(Phase::forward, "forward");
      play_micro_step(last);
      first_ = false;
      if (!last) continue;
      device_.enter(Phase::step, "optimizer step");
      framework_.step(std::exchange(first_step, false));
    }
  }

  void play_micro_step(bool last) {
    Form& form = forms_[form_];
    const Strategy& strategy = inputs_.step.strategy;
    Device::Block ids = device_.allocate(Term::model_inputs,
                                         token_ids(sequences(), form.tokens) * numbers_per_token(strategy));
    framework_.begin_micro_step(last);
    if (condensed_)
      zplan::play(inputs_.recording.condensed, *this);
    else
      zplan::play(*form.tape, form.layout, *this);
    device_.enter(Phase::backward, "gradient reduction");
    framework_.end_backward(last);
    device_.release(ids);
  }

  const RunInputs& inputs_;
  Device device_;
  RankState state_;
  Framework framework_;
  std::vector<Form> forms_;  ///< the longest, then others
  std::size_t form_{};
  int layer_{-1};
  bool backward_{}, first_{}, condensed_{};
};

}  // namespace zplan
