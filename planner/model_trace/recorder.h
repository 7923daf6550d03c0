#pragma once
// Recorder turns the allocations and frees of a recorded model into a Tape: it finds which part of the model
// a block belongs to, and how other parts name it.

#include <array>
#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <stdexcept>
#include <vector>

#include "planner/model_trace/tape.h"
#include "planner/model_trace/tensor.h"

namespace zplan::symbolic {

class Recorder {
 public:
  static constexpr int kModel = -1;

  explicit Recorder(std::size_t layers) : parts_(layers) {}

  /// Makes `part`, a layer's position or kModel, the current part.
  void enter(int part) {
    if (before_step_in && part != current_) before_step_in();
    current_ = part;
  }
  /// True if another layer than the current one allocated the memory.
  [[nodiscard]] bool is_other_layers(const Storage& storage) const {
    const int part = blocks_[static_cast<std::size_t>(storage.block())].part;
    return current_ != kModel && part != kModel && part != current_;
  }
  [[nodiscard]] int current() const { return current_; }
  /// Ends the forward pass: layers follow in reverse order.
  void turn_to_backward() {
    if (before_step_in) before_step_in();
    backward_ = true;
  }
  /// Runs `exchange`, whose events belong to a transfer between stages instead of a pass.
  template <class Exchange>
  void transfer(Transfer which, const Exchange& exchange) {
    if (before_step_in) before_step_in();
    transfer_ = which;
    exchange();
    transfer_.reset();
  }
  /// Ends the last layer's backward.
  void leave_layers() { behind_layers_ = true; }
  /// Begins the second part of a backward in two parts.
  void turn_to_weights() {
    if (before_step_in) before_step_in();
    weights_ = true;
  }
  /// Runs `end`, which may free layers' blocks: every layer frees them (TapePart::endings).
  template <class End>
  void end_layers(std::size_t which, const End& end) {
    mark(Event::Kind::end_layers, static_cast<std::int32_t>(which));
    ending_ = which;
    end();
    ending_.reset();
  }
  /// Sets the term of blocks that are allocated next. Returns the term before.
  Term take_for(Term term) { return std::exchange(term_, term); }
  [[nodiscard]] Term term() const { return term_; }

  [[nodiscard]] std::shared_ptr<Storage> allocate(Bytes size);
  /// Runs `make`, whose allocations belong to the model around the layers although a layer makes them. Only
  /// for layers that are alone in their class.
  template <class Make>
  [[nodiscard]] auto around_layers(const Make& make) {
    const std::optional<int> outside = std::exchange(maker_, kModel);
    auto made = make();
    maker_ = outside;
    return made;
  }
  /// Records that a block is freed. finish() throws what a tape cannot express: handles are also released
  /// while an exception passes.
  void release(std::int32_t block) noexcept;
  /// Makes the block the gradient of parameter `index` of the current part.
  void adopt_gradient(Storage& storage, std::int32_t index) {
    give_gradient(Event::Kind::adopt_gradient, storage, index);
  }
  /// Makes the block a part of that gradient, of which more follows.
  void add_gradient(Storage& storage, std::int32_t index) {
    give_gradient(Event::Kind::add_gradient, storage, index);
  }
  void mark(Event::Kind kind, std::int32_t index);
  /// Returns the load between the last moment at which a framework acted and the next.
  [[nodiscard]] Load& load();
  /// Called before another part begins, or a framework acts.
  std::function<void()> before_step_in;
  /// Records that a tensor of the current part waits in pinned host memory.
  void pin(Bytes size) { part(current_).pinned.push_back(size); }
  /// Records an exchange of `size` bytes.
  void communicate(TensorCall call, Bytes size);
  /// Records that the next computation needs the last call of this sort, which was issued ahead.
  void await(TensorCall call) { mark(Event::Kind::await, static_cast<std::int32_t>(call)); }
  /// Makes the block the output of its layer, where no event of the next layer shows it: all layers' outputs
  /// are freed together.
  void return_output(const Storage& storage) {
    const Block& block = blocks_[static_cast<std::size_t>(storage.block())];
    if (block.part != kModel) part(block.part).output = block.number;
  }
  /// Autograd keeps a view of parameter `index` of the current part until the handle goes. A view, not the
  /// parameter, holds on to the memory that a framework gathers a sharded parameter into
  /// (Event::keep_parameter).
  [[nodiscard]] std::shared_ptr<Storage> keep_parameter(std::int32_t index);
  /// Returns the number of this module in the current part's list.
  [[nodiscard]] std::int32_t module_number(const TapeModule& module);
  /// Records that the module reads another module's parameter.
  void read_parameter(std::int32_t module, std::int32_t index);

  /// Returns the tape; `classes` holds the class of each recorded layer. Throws std::logic_error where parts
  /// share blocks in a way that a tape cannot express, which is a bug.
  [[nodiscard]] Tape finish(const std::vector<std::size_t>& classes);

 private:
  void give_gradient(Event::Kind kind, Storage& storage, std::int32_t index);
  struct Block {
    int part;
    std::int32_t number;
    std::int32_t parameter{-1};  ///< kept, instead of a block
  };
  struct Part {
    TapePart tape;
  };
  [[nodiscard]] TapePart& part(int index) {
    return index == kModel ? model_ : parts_[static_cast<std::size_t>(index)].tape;
  }
  [[nodiscard]] std::vector<Event>& list();
  void free(std::int32_t block);
  void free_parameter(const Block& kept);
  /// Records an event at which a framework acts; a new load begins after it.
  void step_in(const Event& event);
  /// Names a block as the current part sees it.
  void name(Event& event, std::int32_t block);

  std::vector<Block> blocks_;
  TapePart model_;
  std::vector<Event> head_, head_backward_;
  std::array<std::vector<Event>, kTransfers> transfers_;
  std::optional<Transfer> transfer_;  ///< the transfer that records events now
  std::vector<Load> loads_;
  const std::vector<Event>* loaded_{};  ///< the list that holds the last load; null: it is closed
  std::vector<Part> parts_;
  int current_{kModel};
  std::optional<int> maker_;  ///< the part that owns new blocks, where not the current one
  bool started_{}, backward_{}, behind_layers_{}, weights_{};
  std::optional<std::size_t> ending_;
  std::exception_ptr failure_;  ///< the first release that a tape cannot express
  Term term_{Term::saved_activations};
};

}  // namespace zplan::symbolic
