#pragma once
// Autograd is PyTorch's autograd over tensors without values: what a forward saves, in which order the
// backward runs, when gradients are summed in place and when in new memory, and what checkpointing drops and
// recomputes.
// Source: torch 2.11 torch/csrc/autograd/{engine,input_buffer,saved_variable}.cpp and
// torch/utils/checkpoint.py; compared event by event with PyTorch's own allocations (docs/activations.md).

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "planner/model_trace/recorder.h"
#include "planner/model_trace/tensor.h"

namespace zplan::symbolic {

using Tensors = std::vector<Tensor>;

/// NextEdge holds the size and type of a node's input, to which its gradient is brought, and the node that
/// gets the gradient.
struct NextEdge {
  Edge edge;
  Dimensions sizes;
  DType type{DType::bf16};
};

struct Node {
  /// Sequence number of nodes that accumulate the gradients of leaves: they run as soon as they can.
  static constexpr std::uint64_t kLeaf = std::numeric_limits<std::uint64_t>::max();

  std::uint64_t sequence{};  ///< later nodes run first
  int part{Recorder::kModel};
  Term term{};  ///< of the memory that its backward allocates
  std::vector<NextEdge> next;
  /// Computes the inputs' gradients from the outputs'. A gradient that is not needed is undefined.
  std::function<Tensors(Tensors&)> backward;

  [[nodiscard]] bool needs(std::size_t input) const {
    return next[input].edge.node != nullptr && next[input].edge.node->wanted;
  }

  /// For a leaf: the index of its parameter in its part's list.
  std::int32_t parameter{-1};

  /// An attribute that a function written in Python sets on its context. It lives as long as the graph.
  std::shared_ptr<const void> attribute;

  /// The fused kernel that the node is a part of; 0: none. Of a kernel's nodes the last to run counts the
  /// bytes.
  std::int32_t fused{};
  Bytes fused_moves{};

  // State of the engine while it runs.
  bool wanted{true};  ///< false: this backward asks for no gradient that it leads to
  Tensors buffer;
  int dependencies{};
  std::size_t outputs{1};
};

/// True if the tensor is a trained parameter, or another tensor whose graph begins with it.
[[nodiscard]] inline bool is_leaf(const Tensor& x) {
  return x.gradient.node != nullptr && x.gradient.node->sequence == Node::kLeaf;
}

struct CheckpointFrame;

/// Promise is a tensor that a checkpointed call computes again. It expires with the node that needs it. Every
/// backward has the call run again; what it does not read then stays for as long as the promise.
struct Promise {
  std::shared_ptr<CheckpointFrame> frame;
  Tensor tensor;
  Tensors unread{};
};

/// HostCopy is a saved tensor that waits in pinned host memory.
struct HostCopy {
  std::int64_t number{};  ///< of the tensors saved so far
  Tensor stashed;         ///< on the device while its copy is under way
  Layout layout;
  DType type{};
};

/// Saved is a tensor kept for the backward, on the device or on the host, or a promise to compute it again.
class Saved {
 public:
  Saved() = default;
  Saved(std::shared_ptr<HostCopy> copy, class Autograd& torch) : torch_(&torch), copy_(std::move(copy)) {}
  Saved(Tensor tensor, class Autograd& torch) : torch_(&torch), tensor_(std::move(tensor)) {
    computes_again_ = tensor_.storage != nullptr && tensor_.storage->is_computed_again();
    if (computes_again_) tensor_.storage.reset();
  }
  Saved(std::shared_ptr<Promise> promise, Autograd& torch) : torch_(&torch), promise_(std::move(promise)) {}
  [[nodiscard]] Tensor get() const;

 private:
  Autograd* torch_{};
  Tensor tensor_;
  std::shared_ptr<Promise> promise_;
  std::shared_ptr<HostCopy> copy_;
  bool computes_again_{};
};

/// CheckpointFrame is one checkpointed call: how to run it again, and the promises of what it saves, in
/// order.
struct CheckpointFrame {
  std::function<void()> recompute;
  std::vector<std::weak_ptr<Promise>> promises;
  std::size_t kept{};  ///< promises that the second run has fulfilled
  bool recomputed{};
  std::int64_t task{};  ///< the backward for which it ran again
  bool selective{};     ///< outputs of expensive operators are kept, not computed again
  std::vector<Tensor> outputs;
  std::size_t taken{};                    ///< outputs that the second run has used
  std::array<std::size_t, 2> products{};  ///< matrix products of the first and of the second run
};

/// ParameterGroup holds parameters whose gradients begin at the same nodes, which lie between a result and
/// the input of a backward in two parts, and the gradients that reached those nodes in its first part.
struct ParameterGroup {
  std::vector<std::shared_ptr<Node>> parameters;
  std::vector<std::shared_ptr<Node>> between;  ///< nodes from there to the parameters
  std::vector<std::shared_ptr<Node>> nodes;
  std::vector<Tensors> gradients;
};

/// CheckpointMethod says how a checkpointed call keeps what its backward needs.
enum class CheckpointMethod : std::uint8_t { full, reentrant, selective };
/// CheckpointInput says where a checkpointed call keeps its input. DeepSpeed's hooks release none of the
/// inputs before the micro-step ends: neither those fetched from pinned host memory nor those that were still
/// on the device (retained). Source: DeepSpeed 0.19.8 runtime/activation_checkpointing/offload_activations.py
/// _restore_tensor. Unsloth copies an input back into a buffer that is there already (buffered). Megatron
/// divides it among tensor-parallel ranks (divided).
enum class CheckpointInput : std::uint8_t { on_device, on_host, pinned, retained, buffered, divided };

/// SavedHooks are saved_tensors_hooks that copy what autograd saves to pinned host memory, on a stream of
/// their own: a tensor stays on the device until four more were saved, and one that is fetched until the
/// second node after it that fetches any. Both end with the layer here; the libraries' last into the next.
/// Source: trl 1.15 models/activation_offloading.py, torchtune 0.6.1 training/_activation_offloading.py
/// (OffloadActivations, use_streams).
class SavedHooks {
 public:
  /// Copies each saved tensor, instead of keeping on the device what is saved again while it is stashed. Such
  /// hooks take views of weights for activations, too.
  bool copies_each{};
  /// Gathered weights are no parameters to the hooks (FSDP).
  bool copies_weights{};

  /// Returns what is saved in the place of `tensor`.
  [[nodiscard]] Saved pack(Autograd& torch, const Tensor& tensor);
  /// Returns the tensor, fetched to the device where it has left it.
  [[nodiscard]] Tensor unpack(Autograd& torch, HostCopy& copy);
  /// Ends a node of the backward.
  void leave_node();
  /// Ends a layer.
  void leave_part();

 private:
  struct Known {
    std::weak_ptr<Storage> storage;
    std::int64_t elements{}, number{};
    DType type{};
  };
  [[nodiscard]] Known* known(const Tensor& tensor);
  void forget(std::int64_t number);

  std::int64_t count_{};
  std::vector<std::shared_ptr<HostCopy>> stash_;  ///< oldest first
  std::vector<Known> known_;                      ///< memory whose tensor is on the device
  Tensors fetched_, fetched_now_;                 ///< by nodes before, by the node that runs
};

/// torch.autocast over tensors without values: operators that run in 16 bits cast their operands, and the
/// casts of weights are kept until the outermost context is left. Source: torch 2.11
/// aten/src/ATen/autocast_mode.cpp, torch/amp/autocast_mode.py.
class Autocast {
 public:
  /// `with torch.autocast(enabled=…)`.
  class Context {
   public:
    Context(Autocast& autocast, bool enabled);
    ~Context();
    Context(const Context&) = delete;
    Context& operator=(const Context&) = delete;

   private:
    Autocast& autocast_;
    bool outside_;
  };

  [[nodiscard]] bool enabled() const { return enabled_; }

  /// Returns the operand that an operator gets for `x` if it runs in 16 bits.
  [[nodiscard]] Tensor narrow(Autograd& torch, const Tensor& x);
  /// Returns the operand that an operator gets for `x` if it runs in fp32.
  [[nodiscard]] Tensor wide(Autograd& torch, const Tensor& x) const;

 private:
  bool enabled_{};
  int depth_{};
  /// Casts of weights, oldest first: they are freed in this order, whatever addresses the nodes have.
  std::vector<Tensor> casts_;
  /// Position in `casts_`, by the node that accumulates the weight's gradient.
  std::map<const Node*, std::size_t> cast_of_;
};

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
  /// Sets whether parameters are gathered for the modules that use them (ZeRO stage 3). zero.Init also
  /// replaces torch.nn.functional.linear.
  void gather_parameters(bool gathers) { gathers_parameters_ = gathers; }
  [[nodiscard]] bool gathers_parameters() const { return gathers_parameters_; }

  /// Returns a new tensor in new memory.
  [[nodiscard]] Tensor make(Layout layout, DType type);

  /// Returns the node of an operation on `inputs`; null where no input needs a gradient.
  [[nodiscard]] std::shared_ptr<Node> node(std::initializer_list<const Tensor*> inputs);
  [[nodiscard]] std::shared_ptr<Node> node(std::span<const Tensor* const> inputs);
  /// Makes `output` result number `index` of `node`. Does nothing without a node.
  static void connect(Tensor& output, const std::shared_ptr<Node>& node, std::size_t index = 0);
  /// Returns `output` as the only result of `node`.
  [[nodiscard]] static Tensor connected(Tensor output, const std::shared_ptr<Node>& node) {
    connect(output, node);
    return output;
  }
  [[nodiscard]] Saved save(const Tensor& tensor);
  /// True if what is saved now stays; a checkpointed call only promises it.
  [[nodiscard]] bool keeps_saved() const { return frames_.empty() || frames_.back()->recomputed; }

  /// Makes `leaf` trained: its gradient is that of parameter `index` of the current part. `summed`: it is
  /// first summed over the tensor-parallel group.
  void accumulate_into(Tensor& leaf, std::int32_t index, bool summed = false);

  /// Returns the output of an expensive operator (matrix product, attention). Under selective checkpointing
  /// the first run keeps it and the second reuses it.
  [[nodiscard]] Tensor expensive(const std::function<Tensor()>& make, bool is_product = false);
  bool sums_in_products{};  ///< gradients without memory were added to the framework's sums by their product
  bool one_workspace{};     ///< the forward's and the engine's threads share cuBLAS's workspace
  bool recomputes_whole{};  ///< a checkpointed call runs to its end again (early_stop=False)
  bool alternate_products{};    ///< selective checkpointing recomputes every second matrix product
  std::int64_t input_ranks{1};  ///< that hold a part each of a checkpoint's divided input
  /// Inputs of reentrant checkpoints, and their gradients, stay until drop_fetched().
  bool holds_inputs{};

  /// Runs a matrix product. The first of each thread (forward's and the engine's) makes cuBLAS allocate a
  /// workspace, the first with a bias one of cuBLASLt.
  void multiply(bool biased, const Product& product);
  /// Runs a matrix product outside cuBLAS; what was read and made since the last kernel belongs to it.
  void compute(const Product& product);

  // Bytes that kernels read and write (Load::moved). An operation reads its operands once and, in its
  // backward, what it kept; it writes what it allocates. The functions below correct that.
  /// Counts one more read of x by the operation's kernels.
  void read(const Tensor& x);
  /// Replaces the bytes read so far: rows of a table are read, or an operand more than once.
  void read_only(Bytes size) { pending_.read = size; }
  /// Replaces the bytes written so far.
  void write_only(Bytes size) { pending_.written = size, pending_.results = 1; }
  /// Ends a kernel: what is read and made next belongs to another. `kernels`: how many ended, where that is
  /// not one for each result.
  void end_kernel(std::int64_t kernels = 0);
  /// Runs a kernel that reads `operands` and writes a new tensor.
  [[nodiscard]] Tensor kernel(std::initializer_list<const Tensor*> operands, Layout layout, DType type);
  /// Runs a kernel as an operator that Python issues, without a gradient.
  [[nodiscard]] Tensor operate(std::initializer_list<const Tensor*> operands, Layout layout, DType type);
  /// Runs a kernel that changes x in place, reading `by`.
  void change(const Tensor& x, const Tensor* by = nullptr);
  /// Runs a kernel that copies x into a part of another tensor.
  void copy(const Tensor& x);
  /// Counts operators (views included) that Python issues beside the recorded ones.
  void issue(std::int64_t operators) { recorder_.load().operators += fused_ == 0 ? operators : 0; }
  /// Discards what was read and made since the last kernel: another kernel counts it.
  void drop_kernel() { pending_ = {}; }
  /// Runs a fused attention kernel; its reads and writes are hidden by its operations. `tiled`: the head size
  /// of PyTorch's memory-efficient kernel; 0: FlashAttention.
  void attend(Flops flops, bool backward, std::int64_t tiled = 0);
  /// Runs `call` as one kernel that moves `forward` bytes, and its backward as one that moves `backward`.
  /// Memory stays that of the single operations: a fused kernel needs no more.
  template <class Call>
  decltype(auto) fused(bool applies, Bytes forward, Bytes backward, Call&& call) {
    const FusedPart part(*this, applies, forward, backward);
    return std::forward<Call>(call)();
  }
  /// Most keys that a query of the current layer sees; 0: all.
  std::int64_t attention_window{};

  std::optional<SavedHooks> hooks{};  ///< around the forward

  /// Float8Products holds how linear layers inside of decoder layers multiply in 8 bits.
  struct Float8Products {
    bool fused{};          ///< Inductor's kernels scale and cast in one
    bool keeps_weights{};  ///< its graphs keep weights that were gathered in 8 bits
  };
  std::optional<Float8Products> float8{};

  /// x.requires_grad_(True) of a tensor outside the graph. It keeps its gradient, and the graph keeps both.
  static void require_gradient(Tensor& x);

  /// torch.utils.checkpoint.checkpoint: runs `call` without keeping what it saves, and again when its
  /// backward needs that. The input is kept.
  [[nodiscard]] Tensor checkpoint(const std::function<Tensor(const Tensor&)>& call, const Tensor& input,
                                  CheckpointMethod kind, CheckpointInput kept = CheckpointInput::on_device);
  /// Releases the inputs fetched for checkpointed calls.
  void drop_fetched() { fetched_.clear(); }

  /// torch.no_grad or torch.enable_grad, as a scope.
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
  /// Gradients of parameters are summed without a call of the framework's hooks (DeepSpeed's
  /// ds_grad_is_ready).
  bool holds_gradients{};

  /// Runs the backward from `root` with gradient `gradient`.
  void backward(const Tensor& root, Tensor gradient);
  /// Runs only what leads to the leaf `input`, and keeps the graph. Returns the groups of those `parameters`
  /// that the graph has, in their order, with what backward_to_parameters() needs. Source: torch 2.14.1
  /// distributed/pipelining/_backward.py stage_backward_input.
  [[nodiscard]] std::vector<ParameterGroup> backward_to_input(
      const Tensor& root, Tensor gradient, const std::shared_ptr<Node>& input,
      const std::vector<std::shared_ptr<Node>>& parameters);
  /// Runs what leads to the parameters of each group in turn. A group's nodes are let go as the next one
  /// begins; the last group stays. Source: stage_backward_weight, there.
  void backward_to_parameters(std::vector<ParameterGroup>& groups);

  /// Called before each node of the backward runs: some nodes end a phase.
  std::function<void(Node&)> before_node;

 private:
  friend class Saved;
  [[nodiscard]] Tensor recomputed(const Tensor& tensor);
  void recompute(CheckpointFrame& frame);
  [[nodiscard]] Tensor checkpoint_reentrant(const std::function<Tensor(const Tensor&)>& call,
                                            const Tensor& input, CheckpointInput kept);
  /// Returns what a checkpointed call keeps of its input.
  [[nodiscard]] Tensor kept_as(Tensor input, CheckpointInput where);
  /// Returns a copy on the device of what was kept on the host, or the whole of what was divided.
  [[nodiscard]] Tensor fetch(const Tensor& kept, CheckpointInput from);
  /// Runs the nodes that the graph has from `roots` on, whose buffers have their gradients.
  void run_graph(const std::vector<std::shared_ptr<Node>>& roots);
  void run(Node& node, std::vector<std::shared_ptr<Node>>& ready);
  void pass_on(Tensor gradient, const Edge& edge, std::vector<std::shared_ptr<Node>>& ready);
  void sum_into(Tensor& buffer, Tensor gradient);
  /// Sums what was broadcast and casts, as validate_outputs does.
  void fit(Tensor& gradient, const NextEdge& to);

  /// FusedPart makes the operations of its scope parts of one kernel.
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

  /// Kernel counts what the kernel under way reads and writes.
  struct Kernel {
    Bytes read, written;
    std::int64_t results{};
  };

  Recorder& recorder_;
  Autocast autocast_;
  Kernel pending_;
  bool enabled_{true};
  bool gathers_parameters_{};
  bool running_{};                                      ///< a backward runs
  bool keeps_graph_{};                                  ///< it leaves nodes what they saved
  std::int64_t task_{}, tasks_{};                       ///< number of the backward that runs, and of the last
  std::array<std::array<bool, 2>, 2> has_workspace_{};  ///< by thread, of cuBLAS and of cuBLASLt
  std::uint64_t sequence_{1};
  std::int32_t fused_{};        ///< the fused kernel under way; 0: none
  std::int32_t fused_parts_{};  ///< fused kernels so far
  Bytes fused_backward_{};      ///< bytes that its backward moves, until a node counts them
  Tensors fetched_;
  std::vector<std::shared_ptr<CheckpointFrame>> frames_;  ///< checkpointed calls under way
};

}  // namespace zplan::symbolic
