#pragma once
// Simulates a rank's training run: a framework's initialisation, then optimizer steps, whose schedule says
// when which micro-batch runs forward and backward.

#include <algorithm>
#include <array>
#include <iterator>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "planner/model_trace/play.h"
#include "planner/question/work.h"
#include "planner/simulation/rank_state.h"
#include "planner/simulation/run.h"

namespace zplan {

/// Tells the device which module runs: the innermost of those entered and not left yet.
class RunningModules {
 public:
  void follow(const Event& event, int layer, Device& device) {
    using Kind = Event::Kind;
    if (silent_ || event.index < 0) return;  // kHeadUnit is no module
    const ModulePlace place{layer, event.index};
    if (event.kind == Kind::enter_module || event.kind == Kind::enter_backward) {
      running_.push_back(place);
    } else if (event.kind == Kind::leave_module || event.kind == Kind::leave_backward) {
      const auto found = std::find(running_.rbegin(), running_.rend(), place);
      if (found != running_.rend()) running_.erase(std::prev(found.base()), running_.end());
    } else {
      return;
    }
    device.set_module(running_.empty() ? ModulePlace{} : running_.back());
  }
  /// Ignores modules of a reference model, whose numbers are of other lists.
  void set_silent(bool silent) { silent_ = silent; }
  /// Forgets modules that were entered and never left.
  void begin_pass(Device& device) { running_.clear(), device.set_module({}); }

 private:
  std::vector<ModulePlace> running_;
  bool silent_{};
};

/// Runs a step schedule over a rank's tapes for a framework: a class with
///   void initialise(), begin_forward(const Slot&), gradient(std::size_t tensor, Device::Block),
///   module(const Event&, int layer), end_backward(const Slot&), step(bool first),
/// and, where it needs them, begin_backward(const Slot&), reduce(const Slot&), reshard(const Slot&),
/// section(int layer, bool backward) and phase(Phase), called where these begin; transferred(const Slot&),
/// called behind a transfer; begin_weights(const Slot&) and end_weights(const Slot&), called around the
/// second part of a backward in two parts, in which no section begins; flattening(): where the GPU decides
/// how it starts; leaves_alike(): whether a step of a pipeline leaves the same, however many micro-batches it
/// has.
template <class Framework>
class Player {
 public:
  Player(const RunInputs& inputs, const std::optional<AllocatorOptions>& allocator)
      : inputs_(inputs),
        device_(allocator),
        state_(inputs, device_),
        framework_(state_),
        schedule_(schedule_of(inputs)) {
    if (inputs.logs_memory) device_.keep_log();
    device_.record_requests(inputs.requests);
    if (allocator && !allocator->capacity) device_.keep_trace(inputs.watched);
    const std::int64_t ranks = inputs.step.strategy.layout.token_ranks();
    const Recording& recording = inputs.recording;
    for (const bool splits : {false, true}) {
      int first_layer = 0;
      for (std::size_t i = 0; i < (splits ? recording.splits.size() : recording.chunks()); ++i) {
        const Recording& chunk = splits ? recording.split_chunk(i) : recording.chunk(i);
        add_form(chunk.tape, chunk.condensed, inputs.step.training.sequence_length / ranks, first_layer);
        forms_.back().first_around = tensors_around_before(i);
        first_layer += static_cast<int>(chunk.tape.layers.size());
      }
    }
    device_.set_input_unit(token_ids(sequences(), forms_.front().tokens));
    if (inputs.varied == nullptr) return;
    for (const VariedMicroStep& each : *inputs.varied)
      add_form(each.recording.tape, inputs.recording.condensed, each.sequence_length / ranks, 0);
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

  /// Returns the allocator's requests so far.
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
      if (step == 0 && leaves_alike())
        play_step(at_ends(schedule_));
      else
        play_step(schedule_);
      // From the second step on all make the same requests: one that ends as it began is the steady one.
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
    if constexpr (requires { framework_.section(layer, backward); })
      if (!in_weights_) framework_.section(of_rank(layer), backward);
    if (layer >= 0)
      device_.enter(backward ? Phase::backward : Phase::forward,
                    backward ? "layer backward" : "layer forward", of_rank(layer));
  }
  void allocate(std::int32_t block, Term term, Bytes size) { held(block) = device_.allocate(term, size); }
  void release(std::int32_t block) { device_.release(held(block)); }
  void gradient(int layer, std::int32_t index, std::int32_t block) {
    framework_.gradient(tensor_of(layer, index), std::exchange(held(block), Device::kNone));
  }
  void part_of_gradient(int layer, std::int32_t index, std::int32_t block) {
    state_.take_gradient(state_.tensor_of(of_rank(layer), index), std::exchange(held(block), Device::kNone));
  }
  void summed_gradient(int layer, std::int32_t index) {
    if constexpr (requires { framework_.summed_gradient(std::size_t{}); })
      framework_.summed_gradient(state_.tensor_of(of_rank(layer), index));
  }
  void delta(const MemoryDelta& delta, std::int32_t number) { device_.delta(delta, number); }
  void gradient(int layer, std::int32_t index, Bytes size, Term term) {
    framework_.gradient(tensor_of(layer, index), device_.adopt(term, size));
  }
  void part_of_gradient(int layer, std::int32_t index, Bytes size, Term term) {
    state_.take_gradient(state_.tensor_of(of_rank(layer), index), device_.adopt(term, size));
  }
  void module(const Event& event, int layer) {
    if (inputs_.requests != nullptr) modules_.follow(event, of_rank(layer), device_);
    framework_.module(event, of_rank(layer));
  }
  void phase(Phase phase) {
    device_.enter(phase, name_of(phase));
    if constexpr (requires { framework_.phase(phase); }) framework_.phase(phase);
  }
  void reference(std::int32_t index) {
    modules_.set_silent(index != kReferenceEnds);
    if constexpr (requires { framework_.reference(index); }) framework_.reference(index);
  }
  void communicate(TensorCall call, Bytes size, std::int32_t number) {
    if (transfer_ == nullptr) return state_.communicate(call, size, number);
    if (transfer_->is_local) return;
    using Kind = Slot::Kind;
    const bool sends = transfer_->kind == Kind::send_hidden || transfer_->kind == Kind::send_gradient;
    const bool forward = transfer_->kind == Kind::send_hidden || transfer_->kind == Kind::receive_hidden;
    const std::int64_t stages = inputs_.step.strategy.layout.pipeline;
    // The last stage's chunks of layers go on with the first stage's next ones.
    const bool is_next = (sends == forward) != transfer_->is_backwards;
    const auto peer = static_cast<std::int32_t>((inputs_.place.stage + (is_next ? 1 : stages - 1)) % stages);
    const bool over_world = transfer_->over_world && call != TensorCall::stage_sizes;
    const Phase phase = forward ? Phase::forward : Phase::backward;
    const Instant through =
        sends ? state_.send(call, size, number, peer, phase, over_world ? Group::world : Group::pipeline)
              : state_.receive(call, size, number, peer);
    if (transfer_->awaited)
      state_.clock().wait(through, phase);
    else if (!sends)
      running_->received = through;
    transferred_ = size;
  }
  void await(TensorCall call) { state_.await(call); }
  void compute(std::int32_t load) { state_.clock().compute(load); }
  void workspace(std::int32_t library) {
    if (stepped_ || running_->micro_batch > 0) return;
    const bool is_shared = inputs_.step.training.modules.shares_workspace;
    if (is_shared && std::exchange(has_workspace_[static_cast<std::size_t>(library)], true)) return;
    state_.workspace(library);
  }

 private:
  /// True if every step must be simulated, alike or not.
  [[nodiscard]] bool is_told_everything() const {
    return inputs_.requests != nullptr || inputs_.varied != nullptr;
  }

  /// Returns the sequences of a micro-batch.
  [[nodiscard]] std::int64_t sequences() const {
    return inputs_.step.strategy.micro_batch_size * sequences_per_sample(inputs_.step.training);
  }
  /// A tape, the tokens of a sample of its micro-batches on this rank, and the places of its first layer
  /// among the rank's and of its first tensor around layers.
  struct Form {
    const Tape* tape{};
    const CondensedTape* condensed{};
    std::int64_t tokens{};
    int first_layer{};
    TapeLayout layout;
    std::int32_t first_around{};
  };
  /// A micro-batch between the begin of its forward and the end of its backward.
  struct MicroBatch {
    std::int64_t micro_batch{};
    const Form* form{};
    Device::Block ids{Device::kNone};
    std::vector<Device::Block>
        blocks;        ///< by their number in the form's layout; empty under a condensed tape
    Instant received;  ///< when what another stage sent is there
    bool in_flight{};
  };

  void add_form(const Tape& tape, const CondensedTape& condensed, std::int64_t tokens, int first_layer) {
    forms_.push_back({&tape, &condensed, tokens, first_layer, TapeLayout(tape)});
  }
  /// Returns how many of the rank's tensors around layers belong to chunks before chunk `chunk`.
  [[nodiscard]] std::int32_t tensors_around_before(std::size_t chunk) const {
    return static_cast<std::int32_t>(std::ranges::count_if(
        state_.tensors(), [&](const RankTensor& each) { return each.layer < 0 && each.chunk < chunk; }));
  }
  [[nodiscard]] std::size_t tensor_of(int layer, std::int32_t index) const {
    return state_.tensor_of(of_rank(layer), layer < 0 ? running_->form->first_around + index : index);
  }
  /// Returns the form of a slot's micro-batch. Those of backwards in two parts follow the others.
  [[nodiscard]] const Form& form_of(const Slot& slot) const {
    return forms_[slot.tape + (slot.is_split ? inputs_.recording.chunks() : 0)];
  }
  /// Returns the number among the rank's layers of layer `layer` of the tape that runs.
  [[nodiscard]] int of_rank(int layer) const {
    return layer < 0 ? layer : layer + running_->form->first_layer;
  }
  [[nodiscard]] Device::Block& held(std::int32_t block) {
    return running_->blocks[static_cast<std::size_t>(block)];
  }
  [[nodiscard]] MicroBatch* find_in_flight(const Slot& slot) {
    for (const std::unique_ptr<MicroBatch>& each : micro_batches_)
      if (each->in_flight && each->micro_batch == slot.micro_batch && each->form == &form_of(slot))
        return each.get();
    return nullptr;
  }
  /// Returns the micro-batch of `slot`, which begins where none is in flight under its number.
  MicroBatch& begin_or_find(const Slot& slot) {
    if (MicroBatch* known = find_in_flight(slot)) return *known;
    const auto over = std::find_if(micro_batches_.begin(), micro_batches_.end(),
                                   [](const auto& each) { return !each->in_flight; });
    MicroBatch& made = over != micro_batches_.end() ? **over : *micro_batches_.emplace_back(new MicroBatch);
    made.micro_batch = slot.micro_batch, made.form = &form_of(slot), made.in_flight = true;
    made.received = {};
    if (!condensed_) made.blocks.assign(static_cast<std::size_t>(made.form->layout.blocks()), Device::kNone);
    return made;
  }
  static std::string_view name_of(Phase phase) {
    switch (phase) {
      case Phase::forward: return "embedding";
      case Phase::loss: return "head and loss";
      case Phase::loss_backward: return "loss backward";
      default: return "final norm backward";
    }
  }

  [[nodiscard]] static StepSchedule schedule_of(const RunInputs& inputs) {
    if (inputs.schedule != nullptr) return *inputs.schedule;
    const std::int64_t micro_batches = inputs.step.strategy.gradient_accumulation_steps;
    return inputs.varied != nullptr ? accumulate_lengths(inputs.varied->size() + 1, micro_batches)
                                    : accumulate_gradients(micro_batches);
  }

  /// True if the first step, whose figures are not told, may be a short one.
  [[nodiscard]] bool leaves_alike() const {
    if constexpr (requires { framework_.leaves_alike(); })
      return inputs_.schedule != nullptr && !device_.has_allocator() && !is_told_everything() &&
             framework_.leaves_alike();
    return false;
  }

  void play_step(const StepSchedule& schedule) {
    for (const Round& round : schedule.rounds) {
      const std::int64_t begun = round.begun();
      const std::vector<Awaited> awaited = round.steady ? this->awaited() : std::vector<Awaited>{};
      if (begun > 0) begin_round(round, begun);
      for (const Slot& slot : round.slots) play(slot);
      for (Awaited each : awaited) carry(each, begun);
      if (round.steady) state_.clock().end_repeated(round.repeats);
      // Those still in flight stand for the last ones of all repetitions.
      for (const std::unique_ptr<MicroBatch>& each : micro_batches_)
        each->micro_batch += (round.repeats - 1) * begun;
    }
  }

  /// Awaited is a micro-batch in flight, and the instant when what it received, or will receive, is there.
  struct Awaited {
    Slot slot;
    Instant received;
  };
  [[nodiscard]] std::vector<Awaited> awaited() const {
    std::vector<Awaited> all;
    for (const std::unique_ptr<MicroBatch>& each : micro_batches_)
      if (each->in_flight && each->received.number > 0)
        all.push_back(
            {{.micro_batch = each->micro_batch, .tape = static_cast<std::size_t>(each->form - forms_.data())},
             each->received});
    return all;
  }
  /// The next repetition waits for what this one received for it.
  void carry(Awaited& before, std::int64_t begun) {
    before.slot.micro_batch += begun;
    if (const MicroBatch* now = find_in_flight(before.slot))
      state_.clock().carry(now->received, before.received);
  }

  void begin_round(const Round& round, std::int64_t begun) {
    if (device_.out_of_memory()) return;
    const auto first = std::find_if(round.slots.begin(), round.slots.end(),
                                    [](const Slot& each) { return each.kind == Slot::Kind::forward; });
    device_.enter(Phase::forward, "forward");
    state_.calls().repeat(1);
    state_.refill_batches(state_.batch_refills(first->micro_batch, begun * round.repeats));
    state_.calls().repeat(round.repeats);
    if (round.steady) state_.clock().begin_repeated();
  }

  /// Runs one slot. Once memory has run out micro-batches in flight are finished, and no other begins.
  void play(const Slot& slot) {
    using Kind = Slot::Kind;
    if (slot.kind == Kind::step) return step();
    if (slot.kind == Kind::reduce) return reduce(slot);
    if (slot.kind == Kind::unshard || slot.kind == Kind::reshard) return reshard(slot);
    if (slot.kind == Kind::free_sent) return device_.release(sent_);
    running_ = device_.out_of_memory() ? find_in_flight(slot) : &begin_or_find(slot);
    if (running_ == nullptr) return;
    modules_.begin_pass(device_);
    switch (slot.kind) {
      case Kind::forward: return forward(slot);
      case Kind::backward: return backward(slot);
      case Kind::input_gradient: return input_gradient(slot);
      case Kind::weight_gradient: return weight_gradient(slot);
      case Kind::receive_hidden: return transfer(Transfer::receive_hidden, slot);
      case Kind::send_hidden: return transfer(Transfer::send_hidden, slot);
      case Kind::receive_gradient: return transfer(Transfer::receive_gradient, slot);
      case Kind::send_gradient: return transfer(Transfer::send_gradient, slot);
      default: return;
    }
  }

  void reduce(const Slot& slot) {
    device_.enter(Phase::backward, "gradient reduction");
    if constexpr (requires { framework_.reduce(slot); }) framework_.reduce(slot);
  }

  void reshard(const Slot& slot) {
    device_.enter(Phase::forward, "gathered parameters");
    if constexpr (requires { framework_.reshard(slot); }) framework_.reshard(slot);
  }

  void transfer(Transfer which, const Slot& slot) {
    transfer_ = &slot;
    if (condensed_)
      play_transfer(*running_->form->condensed, which, *this);
    else
      play_transfer(*running_->form->tape, running_->form->layout, which, *this);
    transfer_ = nullptr;
    if (which == Transfer::send_hidden && slot.kept)
      sent_ = device_.allocate(Term::layer_working_set, transferred_);
    if (which == Transfer::send_gradient && !slot.is_split) running_->in_flight = false;
    if constexpr (requires { framework_.transferred(slot); }) framework_.transferred(slot);
  }

  void forward(const Slot& slot) {
    const Form& form = *running_->form;
    running_->ids = device_.allocate(
        Term::model_inputs, token_ids(sequences(), form.tokens) * numbers_per_token(inputs_.step.strategy));
    framework_.begin_forward(slot);
    state_.clock().wait(std::exchange(running_->received, {}), Phase::forward);
    if (condensed_)
      play_forward(*form.condensed, *this);
    else
      play_forward(*form.tape, form.layout, *this);
  }

  void backward(const Slot& slot) {
    play_backward_of(slot);
    device_.release(running_->ids);
    running_->in_flight =
        !running_->form->tape->transfers[static_cast<std::size_t>(Transfer::send_gradient)].empty();
  }

  /// The model's first part has no input whose gradient another needs.
  void input_gradient(const Slot& slot) {
    if (running_->form->tape->is_split) return play_backward_of(slot);
    state_.clock().wait(std::exchange(running_->received, {}), Phase::backward);
  }

  void weight_gradient(const Slot& slot) {
    const Form& form = *running_->form;
    if (!form.tape->is_split) return backward(slot);
    in_weights_ = true;
    device_.enter(Phase::backward, "gradients of weights");
    if constexpr (requires { framework_.begin_weights(slot); }) framework_.begin_weights(slot);
    if (condensed_)
      play_weights(*form.condensed, *this);
    else
      play_weights(*form.tape, form.layout, *this);
    modules_.begin_pass(device_);
    in_weights_ = false;
    if constexpr (requires { framework_.end_weights(slot); }) framework_.end_weights(slot);
    device_.release(running_->ids);
    running_->in_flight = false;
  }

  void play_backward_of(const Slot& slot) {
    const Form& form = *running_->form;
    if constexpr (requires { framework_.begin_backward(slot); }) framework_.begin_backward(slot);
    state_.clock().wait(std::exchange(running_->received, {}), Phase::backward);
    if (condensed_)
      play_backward(*form.condensed, *this);
    else
      play_backward(*form.tape, form.layout, *this);
    modules_.begin_pass(device_);
    device_.enter(Phase::backward, "gradient reduction");
    framework_.end_backward(slot);
  }

  void step() {
    state_.calls().repeat(1);
    state_.clock().end_micro_steps();
    device_.enter(Phase::step, "optimizer step");
    std::vector<Device::Block> outputs;
    for (const Bytes each : inputs_.recording.tape.held)
      outputs.push_back(device_.allocate(Term::logits, each));
    framework_.step(!std::exchange(stepped_, true));
    device_.release(outputs);
    state_.clock().optimize(optimizer_traffic(inputs_.step.strategy, inputs_.step.shard));
  }

  const RunInputs& inputs_;
  Device device_;
  RankState state_;
  Framework framework_;
  StepSchedule schedule_;
  std::vector<Form> forms_;                                 ///< of the longest samples, then others
  std::vector<std::unique_ptr<MicroBatch>> micro_batches_;  ///< those over are used again
  MicroBatch* running_{};
  const Slot* transfer_{};             ///< that runs
  Bytes transferred_;                  ///< by the last transfer
  Device::Block sent_{Device::kNone};  ///< what a send kept
  RunningModules modules_;
  bool stepped_{}, condensed_{};
  bool in_weights_{};                    ///< the second part of a backward in two parts runs
  std::array<bool, 2> has_workspace_{};  ///< of cuBLAS and of cuBLASLt, where one serves all
};

}  // namespace zplan
