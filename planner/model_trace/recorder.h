#pragma once
// Turns what a symbolic run of a model makes and frees into a Tape: which part of the program a block belongs
// to, and how the other parts name it.

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

  /// From here on things happen in `part`: a layer's position, or kModel.
  void enter(int part) {
    if (before_step_in && part != current_) before_step_in();
    current_ = part;
  }
  /// Whether the memory was made in another layer than the one that runs.
  [[nodiscard]] bool is_other_layers(const Storage& storage) const {
    const int part = blocks_[static_cast<std::size_t>(storage.block())].part;
    return current_ != kModel && part != kModel && part != current_;
  }
  [[nodiscard]] int current() const { return current_; }
  /// Ends the forward pass: layers are left backwards from here on.
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
  /// The last layer's backward is over too.
  void leave_layers() { behind_layers_ = true; }
  /// Runs `end`, which may free layers' blocks: it does so of every layer (TapePart::endings).
  template <class End>
  void end_layers(std::size_t which, const End& end) {
    mark(Event::Kind::end_layers, static_cast<std::int32_t>(which));
    ending_ = which;
    end();
    ending_.reset();
  }
  /// What blocks are taken for from here on; returns what they were taken for.
  Term take_for(Term term) { return std::exchange(term_, term); }
  [[nodiscard]] Term term() const { return term_; }

  [[nodiscard]] std::shared_ptr<Storage> allocate(Bytes size);
  /// What `make` allocates belongs to what stands around the layers: a layer leaves it there for good. Only
  /// of layers that no other of their class repeats.
  template <class Make>
  [[nodiscard]] auto around_layers(const Make& make) {
    const std::optional<int> outside = std::exchange(maker_, kModel);
    auto made = make();
    maker_ = outside;
    return made;
  }
  /// What cannot be told is thrown by finish(): handles also go while an exception passes.
  void release(std::int32_t block) noexcept;
  /// The block becomes the gradient of parameter `index` of the current part.
  void adopt_gradient(Storage& storage, std::int32_t index) {
    give_gradient(Event::Kind::adopt_gradient, storage, index);
  }
  /// The same of a part of it, where more follows.
  void add_gradient(Storage& storage, std::int32_t index) {
    give_gradient(Event::Kind::add_gradient, storage, index);
  }
  void mark(Event::Kind kind, std::int32_t index);
  /// What is computed between the last moment at which a framework stepped in and the next.
  [[nodiscard]] Load& load();
  /// Called before the program goes on elsewhere, or a framework steps in.
  std::function<void()> before_step_in;
  /// The call's group exchanges `size`.
  void communicate(TensorCall call, Bytes size);
  /// What is computed next needs the last call of this kind, which was issued ahead.
  void await(TensorCall call) { mark(Event::Kind::await, static_cast<std::int32_t>(call)); }
  /// The block is what its layer returns, where no event of the next one says so: what that keeps of it is
  /// freed with all layers.
  void return_output(const Storage& storage) {
    const Block& block = blocks_[static_cast<std::size_t>(storage.block())];
    if (block.part != kModel) part(block.part).output = block.number;
  }
  /// Autograd keeps a view of parameter `index` of the current part until the handle goes. A view, not the
  /// parameter, holds on to the memory that a framework gathers a sharded parameter into
  /// (Event::keep_parameter).
  [[nodiscard]] std::shared_ptr<Storage> keep_parameter(std::int32_t index);
  /// The number of this module among the current part's.
  [[nodiscard]] std::int32_t module_number(const TapeModule& module);
  /// The module reads a parameter of another one.
  void read_parameter(std::int32_t module, std::int32_t index);

  /// The tape; `classes` tells for each recorded layer which class it stands for. Throws std::logic_error
  /// where parts share blocks in a way that a tape cannot say: a mistake in the program.
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
  /// An event at which a framework steps in: what is computed behind it is another load.
  void step_in(const Event& event);
  /// How the current part names a block.
  void name(Event& event, std::int32_t block);

  std::vector<Block> blocks_;
  TapePart model_;
  std::vector<Event> head_, head_backward_;
  std::array<std::vector<Event>, kTransfers> transfers_;
  std::optional<Transfer> transfer_;  ///< that events belong to now
  std::vector<Load> loads_;
  const std::vector<Event>* loaded_{};  ///< the list that the last load stands in; null: it is closed
  std::vector<Part> parts_;
  int current_{kModel};
  std::optional<int> maker_;  ///< whose blocks are made, where not the current part's
  bool started_{}, backward_{}, behind_layers_{};
  std::optional<std::size_t> ending_;
  std::exception_ptr failure_;  ///< of the first block whose release could not be told
  Term term_{Term::saved_activations};
};

}  // namespace zplan::symbolic
