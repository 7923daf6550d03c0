#pragma once
// PyTorch's autograd over tensors without values: what a forward saves, in which order backward runs, when
// gradients are summed in place and when in new memory, and what checkpointing drops and computes again.
// Source: torch 2.11 torch/csrc/autograd/{engine,input_buffer,saved_variable}.cpp and
// torch/utils/checkpoint.py; compared event by event with PyTorch's own allocations (docs/activations.md).

#include <array>
#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "planner/model_trace/autocast.h"
#include "planner/model_trace/recorder.h"
#include "planner/model_trace/tensor.h"

namespace zplan::symbolic {

using Tensors = std::vector<Tensor>;

/// What a node's inputs looked like, so that their gradients can be brought to that form.
struct NextEdge {
  Edge edge;
  Dimensions sizes;
  DType type{DType::bf16};
};

struct Node {
  /// Of the nodes that take the gradients of leaves: they run as soon as they can.
  static constexpr std::uint64_t kLeaf = std::numeric_limits<std::uint64_t>::max();

  std::uint64_t sequence{};  ///< later nodes run first
  int part{Recorder::kModel};
  Term term{};  ///< what memory its backward takes is for
  std::vector<NextEdge> next;
  /// Gradients of the outputs in, of the inputs out; an undefined tensor where none is needed.
  std::function<Tensors(Tensors&)> backward;

  [[nodiscard]] bool needs(std::size_t input) const { return next[input].edge.node != nullptr; }

  /// Of a leaf: which of its part's parameters it takes the gradient of.
  std::int32_t parameter{-1};

  /// What a function written in Python keeps as an attribute of its context: until the graph is gone.
  std::shared_ptr<const void> attribute;

  /// Of which fused kernel it is a part; 0: of none. The one that runs last has what the kernel moves.
  std::int32_t fused{};
  Bytes fused_moves{};

  // What the engine keeps while it runs.
  Tensors buffer;
  int dependencies{};
  std::size_t outputs{1};
};

/// Whether the tensor is a parameter that trains, or another tensor whose graph begins with it.
[[nodiscard]] inline bool is_leaf(const Tensor& x) {
  return x.gradient.node != nullptr && x.gradient.node->sequence == Node::kLeaf;
}

struct CheckpointFrame;

/// A tensor that a checkpointed call computes again; given up where the node that wanted it is gone.
struct Promise {
  std::shared_ptr<CheckpointFrame> frame;
  Tensor tensor;
};

/// A tensor kept for the backward, or a promise to compute it again.
class Saved {
 public:
  Saved() = default;
  Saved(Tensor tensor, class Autograd& torch) : torch_(&torch), tensor_(std::move(tensor)) {}
  Saved(std::shared_ptr<Promise> promise, Autograd& torch) : torch_(&torch), promise_(std::move(promise)) {}
  [[nodiscard]] Tensor get() const;

 private:
  Autograd* torch_{};
  Tensor tensor_;
  std::shared_ptr<Promise> promise_;
};

/// One checkpointed call: how to run it again, and who waits for what it saves, in order.
struct CheckpointFrame {
  std::function<void()> recompute;
  std::vector<std::weak_ptr<Promise>> promises;
  std::size_t kept{};  ///< of the promises, by the second run so far
  bool recomputed{};
  bool selective{};  ///< outputs of expensive operators are kept, not computed again
  std::vector<Tensor> outputs;
  std::size_t taken{};                    ///< of them, by the second run
  std::array<std::size_t, 2> products{};  ///< matrix products of the first and of the second run
};

/// How a checkpointed call keeps what its backward needs.
enum class CheckpointKind : std::uint8_t { full, reentrant, selective };
/// Where it keeps its input meanwhile. DeepSpeed's hooks let go of none that they handed back until the
/// micro-step is over: of those that they fetched from pinned host memory, and of those that were still on
/// the device (retained). Source: DeepSpeed 0.19.8 runtime/activation_checkpointing/offload_activations.py
/// _restore_tensor.
enum class CheckpointInput : std::uint8_t { on_device, on_host, pinned, retained };

class Autograd {
 public:
  explicit Autograd(Recorder& recorder) : recorder_(recorder) {
    recorder.before_step_in = [this] {
      if (pending_.results > 0) end_kernel();
    };
  }
  Autograd(const Autograd&) = delete;
  Autograd& operator=(const Autograd&) = delete;

  [[nodiscard]] Recorder& recorder() { return recorder_; }
  [[nodiscard]] bool enabled() const { return enabled_; }
  [[nodiscard]] Autocast& autocast() { return autocast_; }
  /// Parameters are gathered for the modules that use them: ZeRO stage 3. DeepSpeed's zero.Init also puts a
  /// function of its own in the place of torch.nn.functional.linear.
  void gather_parameters(bool gathers) { gathers_parameters_ = gathers; }
  [[nodiscard]] bool gathers_parameters() const { return gathers_parameters_; }

  /// A new tensor in new memory.
  [[nodiscard]] Tensor make(Layout layout, DType type);

  /// The node of an operation on `inputs`; none where nothing of it needs a gradient.
  [[nodiscard]] std::shared_ptr<Node> node(std::initializer_list<const Tensor*> inputs);
  [[nodiscard]] std::shared_ptr<Node> node(std::span<const Tensor* const> inputs);
  /// `output` is what `node` (if any) takes the gradient of, as its input number `index`.
  static void connect(Tensor& output, const std::shared_ptr<Node>& node, std::size_t index = 0);
  /// Returns `output` as the only result of `node`.
  [[nodiscard]] static Tensor connected(Tensor output, const std::shared_ptr<Node>& node) {
    connect(output, node);
    return output;
  }
  [[nodiscard]] Saved save(const Tensor& tensor);
  /// Whether what is saved now stays; a checkpointed call only promises it.
  [[nodiscard]] bool keeps_saved() const { return frames_.empty() || frames_.back()->recomputed; }

  /// A trainable leaf: its gradient is parameter `index` of the current part. `summed`: over the
  /// tensor-parallel group first.
  void accumulate_into(Tensor& leaf, std::int32_t index, bool summed = false);

  /// The output of an expensive operator (matrix product, attention): under selective checkpointing the first
  /// run keeps it and the second takes it from there.
  [[nodiscard]] Tensor expensive(const std::function<Tensor()>& make, bool is_product = false);
  bool alternate_products{};  ///< of matrix products every second one is computed again nevertheless
  /// Inputs of reentrant checkpoints, and their gradients, stay until drop_fetched().
  bool holds_inputs{};

  /// A matrix product runs: the first of each thread (forward's and the engine's) makes cuBLAS keep a
  /// workspace, the first with a bias one of cuBLASLt.
  void multiply(bool biased, const Product& product);
  /// A matrix product that is not cuBLAS's; what was read and made since the last kernel is its own.
  void compute(const Product& product);

  // What kernels read and write (Load::moved). An operation reads what it was given and, in its backward,
  // what it kept, once; it writes what it makes. These are for what that does not tell.
  /// Read by one more of the operation's kernels.
  void read(const Tensor& x);
  /// Not all of an operand is read (rows of a table), or more than it; the same of a result.
  void read_only(Bytes size) { pending_.read = size; }
  void write_only(Bytes size) { pending_.written = size, pending_.results = 1; }
  /// The kernel so far stands alone: what is read and made from here on is another's. `kernels`: how many
  /// there were, where that is not one for each result.
  void end_kernel(std::int64_t kernels = 0);
  /// A kernel of its own that reads these and writes a new tensor.
  [[nodiscard]] Tensor kernel(std::initializer_list<const Tensor*> operands, Layout layout, DType type);
  /// The same as an operator that Python issues, without a gradient.
  [[nodiscard]] Tensor operate(std::initializer_list<const Tensor*> operands, Layout layout, DType type);
  /// A kernel that changes x where it lies, by what `by` holds.
  void change(const Tensor& x, const Tensor* by = nullptr);
  /// A kernel that copies x into a part of another tensor.
  void copy(const Tensor& x);
  /// Operators, views among them, that Python issues beside those that are described.
  void issue(std::int64_t operators) { recorder_.load().operators += fused_ == 0 ? operators : 0; }
  /// What was read and made since the last kernel counts with another one.
  void drop_kernel() { pending_ = {}; }
  /// A fused attention kernel of so many operations; what it reads and writes is hidden behind them.
  /// `tiled`: the head size in PyTorch's memory-efficient kernel; 0: in FlashAttention's.
  void attend(Flops flops, bool backward, std::int64_t tiled = 0);
  /// One kernel that moves `forward` bytes does what `call` issues, and one that moves `backward` its
  /// backward. Memory is that of the operations: a fused kernel takes no more.
  template <class Call>
  decltype(auto) fused(bool applies, Bytes forward, Bytes backward, Call&& call) {
    const FusedPart part(*this, applies, forward, backward);
    return std::forward<Call>(call)();
  }
  /// Keys that a query of the layer that runs sees at most; 0: all.
  std::int64_t attention_window{};

  /// x.requires_grad_(True) of a tensor outside the graph: it keeps its gradient, and the graph keeps both.
  static void require_gradient(Tensor& x);

  /// torch.utils.checkpoint.checkpoint: `call` runs without keeping what it saves and is run again when its
  /// backward asks. `inputs` are kept.
  [[nodiscard]] Tensor checkpoint(const std::function<Tensor(const Tensor&)>& call, const Tensor& input,
                                  CheckpointKind kind, CheckpointInput kept = CheckpointInput::on_device);
  /// Lets go of what was fetched for checkpointed calls.
  void drop_fetched() { fetched_.clear(); }

  /// torch.no_grad or torch.enable_grad, as long as it stands.
  class GradMode {
   public:
    GradMode(Autograd& torch, bool enabled)
        : torch_(torch), before_(std::exchange(torch.enabled_, enabled)) {}
    ~GradMode() { torch_.enabled_ = before_; }
    GradMode(const GradMode&) = delete;
    GradMode& operator=(const GradMode&) = delete;

   private:
    Autograd& torch_;
    bool before_;
  };
  /// Gradients of parameters add up, and frameworks are not told (DeepSpeed's ds_grad_is_ready).
  bool holds_gradients{};

  /// Runs the backward from `root` with gradient `gradient`.
  void backward(const Tensor& root, Tensor gradient);

  /// Called before a node runs, with its sequence number: phases end where certain nodes begin.
  std::function<void(const Node&)> before_node;

 private:
  friend class Saved;
  [[nodiscard]] Tensor recomputed(const Tensor& tensor);
  void recompute(CheckpointFrame& frame);
  [[nodiscard]] Tensor checkpoint_reentrant(const std::function<Tensor(const Tensor&)>& call,
                                            const Tensor& input, CheckpointInput kept);
  /// A copy of what was kept on the host.
  [[nodiscard]] Tensor fetch(const Tensor& kept, CheckpointInput from);
  void run(Node& node, std::vector<std::shared_ptr<Node>>& ready);
  void pass_on(Tensor gradient, const Edge& edge, std::vector<std::shared_ptr<Node>>& ready);
  void sum_into(Tensor& buffer, Tensor gradient);
  /// Sums what was broadcast and casts, as validate_outputs does.
  void fit(Tensor& gradient, const NextEdge& to);

  /// While it lives operations are parts of one kernel.
  class FusedPart {
   public:
    FusedPart(Autograd& torch, bool applies, Bytes forward, Bytes backward);
    ~FusedPart();
    FusedPart(const FusedPart&) = delete;
    FusedPart& operator=(const FusedPart&) = delete;

   private:
    Autograd& torch_;
    bool applies_;
  };
  void count_operator();

  /// What the kernel that is being described reads and writes.
  struct Kernel {
    Bytes read, written;
    std::int64_t results{};
  };

  Recorder& recorder_;
  Autocast autocast_;
  Kernel pending_;
  bool enabled_{true};
  bool gathers_parameters_{};
  bool running_{};                                      ///< whether a backward runs
  std::array<std::array<bool, 2>, 2> has_workspace_{};  ///< by thread, of cuBLAS and of cuBLASLt
  std::uint64_t sequence_{1};
  std::int32_t fused_{};        ///< the fused kernel that is being described; 0: none
  std::int32_t fused_parts_{};  ///< how many there were
  Bytes fused_backward_{};      ///< what its backward moves, until a node has that
  Tensors fetched_;
  std::vector<std::shared_ptr<CheckpointFrame>> frames_;  ///< checkpointed calls that run now
};

}  // namespace zplan::symbolic
