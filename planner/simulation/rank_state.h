#pragma once
// State that every framework's run has: parameters as the model makes them, gradients as autograd leaves
// them, the optimizer's temporaries, and what ranks send each other.

#include <array>
#include <vector>

#include "planner/simulation/device.h"
#include "planner/simulation/optimizer_step.h"
#include "planner/simulation/run.h"
#include "planner/step/call.h"

namespace zplan {

/// The ranks that a collective of gradients, weights or norms reaches: a number of them, of the data-parallel
/// group unless another is named.
struct Over {
  Over(std::int64_t some) : ranks(some) {}  // NOLINT(google-explicit-constructor)
  Over(Group kind, std::int64_t some) : group(kind), ranks(some) {}
  Group group{Group::data};
  std::int64_t ranks{1};
};

/// Blocks of one rank, by tensor of RankModel.
class RankState {
 public:
  RankState(const RunInputs& inputs, Device& device);

  [[nodiscard]] const StepInputs& in() const { return inputs_.step; }
  [[nodiscard]] const RunInputs& inputs() const { return inputs_; }
  [[nodiscard]] std::int64_t gpus_per_node() const { return inputs_.gpus_per_node; }
  [[nodiscard]] const Tape& tape() const { return inputs_.recording.tape; }
  [[nodiscard]] Device& device() { return device_; }
  [[nodiscard]] const std::vector<RankTensor>& tensors() const { return in().rank.tensors; }
  /// The token embedding's number: what a tied head is. The tower of an image-text model stands before it.
  [[nodiscard]] std::size_t token_embedding() const;
  [[nodiscard]] Bytes weight() const { return weight_size(in().training); }
  /// The tensor that part `layer` of a tape (−1: around the layers) knows as its parameter `index`.
  [[nodiscard]] std::size_t tensor_of(int layer, std::int32_t index) const;

  /// Returns the term that a parameter's memory counts under.
  [[nodiscard]] Term term_of(std::size_t tensor) const;

  /// Every parameter in a block of its own as the module's constructor makes them, packed weights in several;
  /// then adapters, and what is cast before training starts.
  void make_parameters();
  /// The trainable ones move to the host; on the device an element stands for each.
  void move_trainable_parameters_to_host();
  /// The trainable ones are let go: a flat copy took their place.
  void release_trainable_parameters();
  /// Releases a parameter; of a packed one its values, while what scales them stays.
  void release_parameter(std::size_t tensor);
  /// Allocates what scales packed weights, which were packed on the host.
  void make_quant_states();

  /// The gradient of `tensor` is in `block`, or was added to the one that is there.
  void take_gradient(std::size_t tensor, Device::Block block);
  void release_gradient(std::size_t tensor) { device_.release(gradients_[tensor]); }
  [[nodiscard]] bool has_gradient(std::size_t tensor) const { return gradients_[tensor] != Device::kNone; }
  void release_gradients();

  /// Takes what the optimizer needs beside states while it updates flat tensors of these sizes, of `element`
  /// bytes each.
  void optimizer_temporaries(const std::vector<Elements>& sizes, Bytes element);

  /// Issues a collective over `elements` of `element` bytes each, which does not begin before `earliest`;
  /// returns when it is through. `dtype` defaults to torch's name of a type of that size; neighbours of the
  /// group are `stride` ranks of the data-parallel group apart.
  Instant issue(Instant earliest, Operation operation, Elements elements, Bytes element,
                std::string_view purpose, Over over, std::string_view dtype = {}, std::int64_t stride = 1);
  /// Issues one for which the compute stream waits at once.
  void communicate(Operation operation, Elements elements, Bytes element, std::string_view purpose,
                   Over over) {
    wait(issue(clock_.computed(), operation, elements, element, purpose, over));
  }
  /// Communicates over the whole data-parallel group.
  void communicate(Operation operation, Elements elements, Bytes element, std::string_view purpose) {
    communicate(operation, elements, element, purpose, in().strategy.layout.gradient_ranks());
  }
  void wait(Instant until) { clock_.wait(until, device_.phase()); }
  /// Returns how often the micro-steps `first` … `first` + `micro_steps` − 1 refill the data loader: under
  /// sequence parallelism the batches that its ranks gather serve as many micro-steps as there are ranks.
  [[nodiscard]] std::int64_t batch_refills(std::int64_t first, std::int64_t micro_steps) const;
  /// So often every rank of the sequence-parallel group gathers the batches of all, divides them and keeps
  /// its share on the host. Source: DeepSpeed 0.19.8 runtime/sequence_parallel/ulysses_sp.py
  /// UlyssesSPDataLoaderAdapter.refill.
  void refill_batches(std::int64_t times);
  /// Every rank of the world gathers how many tokens of the step each counts. Source: transformers 5.23
  /// trainer.py _get_num_items_in_batch.
  void count_tokens();
  /// The last collective of this kind, which was issued ahead, is needed now.
  void await(TensorCall call);
  /// A collective within a micro-step; `number` is the tape's for it.
  void communicate(TensorCall call, Bytes size, std::int32_t number);
  /// Sends hidden states (forward) or their gradient (backward) to the stage `peer` of a pipeline by the
  /// communicator of `group`, once they are computed; returns when they are through.
  Instant send(TensorCall call, Bytes size, std::int32_t number, std::int32_t peer, Phase phase, Group group);
  /// Receives them from there; returns when they are there.
  Instant receive(TensorCall call, Bytes size, std::int32_t number, std::int32_t peer);
  /// One number that the ranks of a group agree on: an overflow flag (one byte) or a gradient norm.
  void agree(Group group, Bytes element, std::string_view purpose);
  /// All-reduces within a group of ranks that computes one micro-step together; what comes next needs the
  /// sum.
  void all_reduce(Group group, Elements elements, Bytes element, std::string_view purpose,
                  std::string_view dtype = {});
  /// An optimizer step begins, whose calls and program are written down where they are `noted`.
  void begin_step(bool noted) {
    calls_.begin_step();
    clock_.begin_step(noted);
    notes_calls_ = noted;
  }
  [[nodiscard]] bool notes_calls() const { return notes_calls_; }
  [[nodiscard]] CallLog& calls() { return calls_; }
  [[nodiscard]] Clock& clock() { return clock_; }

  /// A frozen model, a copy or a teacher, that this rank holds whole.
  void make_reference();

  /// The workspace that cuBLAS (0) or cuBLASLt (1) keeps for a thread.
  void workspace(std::int32_t library);

 private:
  [[nodiscard]] Call call_of(TensorCall call, Bytes size) const;
  [[nodiscard]] Call call_of(Group group, Operation operation, Elements elements, Bytes element,
                             std::string_view purpose, std::string_view dtype = {}) const;
  /// Notes a call whose result the next computation needs.
  void exchange(const Call& call, std::int32_t number);
  [[nodiscard]] bool is_adapter(std::size_t tensor) const;
  void make_packed(std::size_t tensor);
  void make_base();
  void prepare_unpacked();
  void make_adapters();
  void cast_module(bool prepared);
  /// Replaces a parameter's data by a copy in another type.
  void cast(std::size_t tensor, Bytes size);

  const RunInputs& inputs_;
  Device& device_;
  CallLog calls_;
  Clock clock_;
  bool notes_calls_{};
  std::vector<std::size_t> layer_start_;
  std::size_t before_{};  ///< tensors in front of the layers
  std::size_t behind_{};  ///< where tensors behind them begin
  std::vector<std::vector<Device::Block>> parameters_;
  std::vector<Device::Block> gradients_;
  std::array<Instant, kTensorCalls>
      under_way_{};  ///< by kind: when the last that was issued ahead is through
};

}  // namespace zplan
