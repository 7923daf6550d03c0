#include "planner/model_trace/autograd.h"

#include <algorithm>
#include <utility>

#include "planner/model_trace/operators.h"

namespace zplan::symbolic {

Autocast::Context::Context(Autocast& autocast, bool enabled)
    : autocast_(autocast), outside_(std::exchange(autocast.enabled_, enabled)) {
  ++autocast_.depth_;
}

Autocast::Context::~Context() {
  if (--autocast_.depth_ == 0) {
    autocast_.cast_of_.clear();
    for (Tensor& cast : autocast_.casts_) cast = {};
    autocast_.casts_.clear();
  }
  autocast_.enabled_ = outside_;
}

Tensor Autocast::narrow(Autograd& torch, const Tensor& x) {
  if (!enabled_ || x.type != DType::fp32) return x;
  const bool is_weight = x.requires_gradient && is_leaf(x);
  if (!is_weight) return to(torch, x, DType::bf16);
  const auto [place, is_new] = cast_of_.try_emplace(x.gradient.node.get(), casts_.size());
  if (is_new) casts_.push_back(to(torch, x, DType::bf16));
  return casts_[place->second];
}

Tensor Autocast::wide(Autograd& torch, const Tensor& x) const {
  return enabled_ && x.defined() && is_floating(x.type) ? to(torch, x, DType::fp32) : x;
}

namespace {

/// Ends a recomputation as soon as everything that was saved is there again.
struct StopRecomputation {};

bool runs_later(const std::shared_ptr<Node>& a, const std::shared_ptr<Node>& b) {
  return a->sequence < b->sequence;
}

using Ready = std::vector<std::shared_ptr<Node>>;

/// Puts a node at `hole`, or further up as long as the one above runs later.
void sift_up(Ready& ready, std::size_t hole, std::shared_ptr<Node> node) {
  for (; hole > 0 && runs_later(ready[(hole - 1) / 2], node); hole = (hole - 1) / 2)
    ready[hole] = std::move(ready[(hole - 1) / 2]);
  ready[hole] = std::move(node);
}

/// The heap is that of libstdc++'s priority_queue, with which PyTorch is built: leaves are all equal, so
/// which of their gradients comes first follows from how the heap is kept, and other C++ libraries keep it
/// otherwise. Source: torch/csrc/autograd/engine.h ReadyQueue.
void push(Ready& ready, std::shared_ptr<Node> node) {
  ready.emplace_back();
  sift_up(ready, ready.size() - 1, std::move(node));
}

/// Takes the first node. Its place goes down to the heap's end, and what stood last comes up from there.
std::shared_ptr<Node> pop(Ready& ready) {
  std::shared_ptr<Node> first = std::move(ready.front());
  std::shared_ptr<Node> last = ready.size() > 1 ? std::move(ready.back()) : nullptr;
  ready.pop_back();
  if (ready.empty()) return first;
  std::size_t hole = 0;
  for (std::size_t below = 2; below <= ready.size(); below = 2 * hole + 2) {
    if (below == ready.size() || runs_later(ready[below], ready[below - 1])) --below;
    ready[hole] = std::move(ready[below]);
    hole = below;
  }
  sift_up(ready, hole, std::move(last));
  return first;
}

}  // namespace

Tensor Saved::get() const {
  if (torch_ == nullptr) return {};
  if (copy_ != nullptr) return torch_->hooks->unpack(*torch_, *copy_);
  if (promise_ == nullptr) {
    Tensor held = tensor_;
    if (computes_again_) held.storage = torch_->make(held.layout, held.type).storage;
    torch_->read(held);
    return held;
  }
  const CheckpointFrame& frame = *promise_->frame;
  if (!frame.recomputed || frame.task != torch_->task_) torch_->recompute(*promise_->frame);
  torch_->read(promise_->tensor);
  return std::move(promise_->tensor);
}

void Autograd::recompute(CheckpointFrame& frame) {
  const Kernel outside = std::exchange(pending_, {});
  const std::int32_t around = std::exchange(fused_, 0);
  frame.recomputed = true, frame.task = task_;
  frame.kept = frame.taken = frame.products[1] = 0;
  frame.recompute();
  end_kernel();
  fused_ = around;
  pending_ = outside;
}

Autograd::FusedPart::FusedPart(Autograd& torch, bool applies, Bytes forward, Bytes backward)
    : torch_(torch), applies_(applies && torch.fused_ == 0) {
  if (!applies_) return;
  torch_.end_kernel();
  if (forward > Bytes{}) {
    torch_.count_operator();
    Load& load = torch_.recorder_.load();
    load.moved += forward, ++load.kernels;
  }
  torch_.fused_ = ++torch_.fused_parts_, torch_.fused_backward_ = backward;
}

Autograd::FusedPart::~FusedPart() {
  if (!applies_) return;
  torch_.end_kernel();
  torch_.fused_ = 0, torch_.fused_backward_ = {};
}

void Autograd::count_operator() {
  if (fused_ != 0) return;
  ++recorder_.load().operators;
  if (!frames_.empty()) ++recorder_.load().checkpointed;
}

namespace {
/// Bytes of memory that a tensor covers: what is broadcast is there once.
Bytes covered(const Tensor& x) {
  std::int64_t elements = 1;
  for (std::size_t i = 0; i < x.layout.rank(); ++i)
    if (x.layout.strides[i] != 0) elements *= x.layout.sizes[i];
  return Bytes(elements * size_of(x.type));
}
}  // namespace

void Autograd::read(const Tensor& x) {
  if (x.defined()) pending_.read += covered(x);
}

void Autograd::end_kernel(std::int64_t kernels) {
  const Kernel done = std::exchange(pending_, {});
  if (done.results == 0 || fused_ != 0) return;  // a view, or a part of another kernel
  Load& load = recorder_.load();
  load.moved += done.read + done.written;
  load.kernels += kernels > 0 ? kernels : done.results;
}

namespace {

/// Tiles of results have 64 features: a head of 96 is worked out as one of 128. Of the forward's two products
/// one has features as columns, of the backward's five three. Source: PyTorch
/// aten/src/ATen/native/transformers/cuda/mem_eff_attention/kernel_forward.h, kernel_backward.h.
void add_tiled(TiledAttention& made, Flops flops, bool backward, std::int64_t head_size) {
  constexpr std::int64_t kTile = 64;
  const double padded =
      static_cast<double>((head_size + kTile - 1) / kTile * kTile) / static_cast<double>(head_size);
  const double columns = backward ? 3.0 / 5 : 1.0 / 2;
  made.counted += flops;
  (backward ? made.backward : made.forward) += flops * (1 - columns + columns * padded);
  made.head_size = std::max(made.head_size, head_size);
}

}  // namespace

void Autograd::attend(Flops flops, bool backward, std::int64_t tiled) {
  Load& load = recorder_.load();
  if (tiled > 0) add_tiled(load.attention_tiled, flops, backward, tiled);
  (backward ? load.attention_backward : load.attention_forward) += flops;
  ++load.kernels;
  pending_ = {};
}

Tensor Autograd::make(Layout layout, DType type) {
  Tensor tensor;
  tensor.type = type;
  tensor.layout = std::move(layout);
  if (tensor.elements() == 0) return tensor;
  tensor.storage = recorder_.allocate(tensor.bytes());
  pending_.written += tensor.bytes();
  ++pending_.results;
  return tensor;
}

std::shared_ptr<Node> Autograd::node(std::span<const Tensor* const> inputs) {
  end_kernel();
  count_operator();
  for (const Tensor* each : inputs) read(*each);
  const bool needed =
      std::any_of(inputs.begin(), inputs.end(), [](const Tensor* each) { return each->requires_gradient; });
  if (!enabled_ || !needed) return nullptr;
  auto made = std::make_shared<Node>();
  made->sequence = sequence_++;
  made->part = recorder_.current();
  made->fused = fused_, made->fused_moves = std::exchange(fused_backward_, {});
  made->next.reserve(inputs.size());
  for (const Tensor* each : inputs)
    made->next.push_back({each->requires_gradient ? each->gradient : Edge{}, each->layout.sizes, each->type});
  return made;
}

std::shared_ptr<Node> Autograd::node(std::initializer_list<const Tensor*> inputs) {
  return node(std::span(inputs.begin(), inputs.size()));
}

void Autograd::connect(Tensor& output, const std::shared_ptr<Node>& node, std::size_t index) {
  output.requires_gradient = node != nullptr;
  output.gradient = {node, index};
  if (node) node->outputs = std::max(node->outputs, index + 1);
}

Saved Autograd::save(const Tensor& tensor) {
  if (frames_.empty()) {
    if (hooks && !running_ && tensor.defined()) return hooks->pack(*this, tensor.detached());
    return {tensor.detached(), *this};
  }
  const std::shared_ptr<CheckpointFrame>& frame = frames_.back();
  if (!frame->recomputed) {
    auto promise = std::make_shared<Promise>(Promise{frame, {}});
    frame->promises.push_back(promise);
    return {std::move(promise), *this};
  }
  const Tensor again = recomputed(tensor);
  if (const auto promise = frame->promises[frame->kept++].lock()) {
    if (promise->tensor.defined()) promise->unread.push_back(std::move(promise->tensor));
    promise->tensor = again;
  }
  Saved kept(again, *this);
  if (!recomputes_whole && frame->kept == frame->promises.size()) throw StopRecomputation{};
  return kept;
}

/// Recomputation keeps trained tensors detached, so that of a gathered parameter holds on to the memory.
/// Source: torch 2.11 torch/utils/checkpoint.py _recomputation_hook.
Tensor Autograd::recomputed(const Tensor& tensor) {
  Tensor kept = tensor.detached();
  if (gathers_parameters_ && !tensor.storage && is_leaf(tensor) && tensor.gradient.node->parameter >= 0)
    kept.storage = recorder_.keep_parameter(tensor.gradient.node->parameter);
  return kept;
}

Tensor Autograd::kernel(std::initializer_list<const Tensor*> operands, Layout layout, DType type) {
  end_kernel();
  for (const Tensor* each : operands) read(*each);
  Tensor result = make(std::move(layout), type);
  end_kernel();
  return result;
}

Tensor Autograd::operate(std::initializer_list<const Tensor*> operands, Layout layout, DType type) {
  issue(1);
  return kernel(operands, std::move(layout), type);
}

void Autograd::change(const Tensor& x, const Tensor* by) {
  end_kernel();
  pending_ = {.read = x.bytes(), .written = x.bytes(), .results = 1};
  if (by != nullptr) read(*by);
  end_kernel();
}

void Autograd::copy(const Tensor& x) {
  end_kernel();
  pending_ = {.read = covered(x), .written = x.bytes(), .results = 1};
  end_kernel();
}

void Autograd::compute(const Product& product) {
  Load& load = recorder_.load();
  load.add(product);
  ++load.kernels;
  drop_kernel();
}

void Autograd::multiply(bool biased, const Product& product) {
  compute(product);
  std::array<bool, 2>& has = has_workspace_[running_ && !one_workspace ? 1 : 0];
  for (std::size_t i = 0; i < (biased ? 2U : 1U); ++i)
    if (!std::exchange(has[i], true)) recorder_.mark(Event::Kind::workspace, static_cast<std::int32_t>(i));
}

void Autograd::accumulate_into(Tensor& leaf, std::int32_t index, bool summed) {
  auto sink = std::make_shared<Node>();
  sink->sequence = Node::kLeaf;
  sink->part = recorder_.current();
  sink->parameter = index;
  sink->backward = [this, index, summed](Tensors& gradients) {
    if (summed) recorder_.communicate(TensorCall::replicated_gradient, gradients[0].bytes());
    if (!gradients[0].storage) {
      if (sums_in_products) recorder_.mark(Event::Kind::summed_gradient, index);
      return Tensors{};
    }
    holds_gradients ? recorder_.add_gradient(*gradients[0].storage, index)
                    : recorder_.adopt_gradient(*gradients[0].storage, index);
    return Tensors{};
  };
  leaf.requires_gradient = true;
  leaf.gradient = {std::move(sink), 0};
}

void Autograd::require_gradient(Tensor& x) {
  if (x.requires_gradient) return;
  auto sink = std::make_shared<Node>();
  sink->sequence = Node::kLeaf;
  sink->backward = [leaf = x.detached(), gradient = std::make_shared<Tensor>()](Tensors& gradients) {
    *gradient = std::move(gradients[0]);
    return Tensors{};
  };
  x.requires_gradient = true;
  x.gradient = {std::move(sink), 0};
}

/// An input that moves to the host keeps no memory; of a divided one this rank copies its part.
Tensor Autograd::kept_as(Tensor input, CheckpointInput where) {
  const bool leaves = where == CheckpointInput::on_host || where == CheckpointInput::pinned ||
                      where == CheckpointInput::buffered;
  if (leaves) input.storage.reset();
  if (where == CheckpointInput::divided)
    input.storage = make(Layout::contiguous({input.elements() / input_ranks}), input.type).storage;
  return input;
}

Tensor Autograd::fetch(const Tensor& kept, CheckpointInput from) {
  if (from == CheckpointInput::on_device || from == CheckpointInput::buffered) return kept;
  Tensor fetched = kept;
  if (from == CheckpointInput::divided) {
    fetched.storage = make(kept.layout, kept.type).storage;
    drop_kernel();
    recorder_.communicate(TensorCall::gathered_inputs, fetched.bytes());
    return fetched;
  }
  if (!fetched.storage) fetched.storage = make(kept.layout, kept.type).storage, drop_kernel();
  if (from != CheckpointInput::on_host) fetched_.push_back(fetched.detached());
  return fetched;
}

Tensor Autograd::checkpoint(const std::function<Tensor(const Tensor&)>& call, const Tensor& given,
                            CheckpointMethod kind, CheckpointInput where) {
  if (kind == CheckpointMethod::reentrant) return checkpoint_reentrant(call, given, where);
  auto frame = std::make_shared<CheckpointFrame>();
  frame->selective = kind == CheckpointMethod::selective;
  const std::weak_ptr<CheckpointFrame> itself = frame;
  const int part = recorder_.current();
  frame->recompute = [this, call, kept = kept_as(given, where), where, itself, part,
                      autocasts = autocast_.enabled()] {
    const std::shared_ptr<CheckpointFrame> again = itself.lock();
    recorder_.enter(part);
    const Tensor input = fetch(kept, where);
    const Autocast::Context context(autocast_, autocasts);
    const bool was_enabled = std::exchange(enabled_, true);
    frames_.push_back(again);
    recorder_.enter(part);
    try {
      const Tensor output = call(input);
    } catch (const StopRecomputation&) {
    }
    frames_.pop_back();
    enabled_ = was_enabled;
  };
  frames_.push_back(frame);
  Tensor output = call(given);
  frames_.pop_back();
  return output;
}

Tensor Autograd::expensive(const std::function<Tensor()>& make, bool is_product) {
  if (frames_.empty() || !frames_.back()->selective) return make();
  CheckpointFrame& frame = *frames_.back();
  if (is_product && alternate_products && ++frame.products[frame.recomputed ? 1 : 0] % 2 == 0) return make();
  if (frame.recomputed) return std::move(frame.outputs[frame.taken++]);
  Tensor output = make();
  frame.outputs.push_back(output.detached());
  return output;
}

Tensor Autograd::checkpoint_reentrant(const std::function<Tensor(const Tensor&)>& call, const Tensor& input,
                                      CheckpointInput where) {
  const auto made = node({&input});
  const bool was_enabled = std::exchange(enabled_, false);
  Tensor output = call(input);
  enabled_ = was_enabled;
  if (!made) return output;
  made->attribute = std::make_shared<std::function<Tensor(const Tensor&)>>(call);  // and what it was given
  made->backward = [this, call, kept = kept_as(input.detached(), where), where,
                    autocasts = autocast_.enabled()](Tensors& gradients) mutable {
    const bool outer = std::exchange(enabled_, true);
    Tensor leaf = fetch(kept, where);
    if (where == CheckpointInput::divided) kept.storage.reset();
    Tensor gradient_of_input;
    auto sink = std::make_shared<Node>();
    sink->sequence = Node::kLeaf;
    sink->part = recorder_.current();
    sink->backward = [&gradient_of_input](Tensors& arrived) {
      gradient_of_input = std::move(arrived[0]);
      return Tensors{};
    };
    leaf.requires_gradient = true;
    leaf.gradient = {sink, 0};
    Tensor again;
    {
      const Autocast::Context context(autocast_, autocasts);
      again = call(leaf);
    }
    enabled_ = outer;
    backward(again, gradients[0]);
    if (holds_inputs)
      for (const Tensor& each : {leaf, gradient_of_input}) fetched_.push_back(each.detached());
    return Tensors{gradient_of_input};
  };
  connect(output, made);
  return output;
}

void Autograd::backward(const Tensor& root, Tensor gradient) {
  root.gradient.node->buffer.assign(1, std::move(gradient));
  run_graph({root.gradient.node});
}

void Autograd::run_graph(const std::vector<std::shared_ptr<Node>>& roots) {
  const bool outer = std::exchange(running_, true);
  const bool was_enabled = std::exchange(enabled_, false);
  const std::int64_t around = std::exchange(task_, ++tasks_);
  std::vector<Node*> stack;
  for (const std::shared_ptr<Node>& each : roots) {
    each->dependencies = 0;
    stack.push_back(each.get());
  }
  // Count, for every node, how many gradients it waits for.
  while (!stack.empty()) {
    Node* each = stack.back();
    stack.pop_back();
    for (const NextEdge& next : each->next) {
      Node* to = next.edge.node.get();
      if (to == nullptr || !to->wanted) continue;
      if (to->dependencies++ == 0 && to->buffer.empty()) {
        to->buffer.resize(to->outputs);
        stack.push_back(to);
      }
    }
  }
  std::vector<std::shared_ptr<Node>> ready;
  for (const std::shared_ptr<Node>& each : roots) push(ready, each);
  while (!ready.empty()) {
    const std::shared_ptr<Node> next = pop(ready);
    run(*next, ready);
  }
  if (hooks && !outer) hooks->leave_part();
  task_ = around;
  enabled_ = was_enabled;
  running_ = outer;
}

void Autograd::run(Node& node, std::vector<std::shared_ptr<Node>>& ready) {
  if (hooks && node.part != recorder_.current()) hooks->leave_part();
  if (before_node) before_node(node);
  recorder_.enter(node.part);
  end_kernel();
  if (node.fused == 0 || node.fused_moves > Bytes{}) ++recorder_.load().nodes;
  if (node.fused_moves > Bytes{}) recorder_.load().moved += node.fused_moves, ++recorder_.load().kernels;
  const std::int32_t around = std::exchange(fused_, node.fused);
  Tensors outputs;
  {
    Tensors gradients = std::move(node.buffer);
    for (const Tensor& each : gradients) read(each);
    node.buffer.clear();
    outputs = node.backward(gradients);
    if (hooks) hooks->leave_node();
    end_kernel();
    for (std::size_t i = 0; i < outputs.size(); ++i) {
      if (!outputs[i].defined() || !node.needs(i)) continue;
      fit(outputs[i], node.next[i]);
    }
  }
  if (node.sequence != Node::kLeaf && !keeps_graph_) node.backward = nullptr;
  for (std::size_t i = 0; i < node.next.size(); ++i) {
    if (!node.needs(i)) continue;
    fused_ = node.next[i].edge.node->fused == node.fused ? node.fused : around;
    pass_on(i < outputs.size() ? std::move(outputs[i]) : Tensor{}, node.next[i].edge, ready);
  }
  fused_ = around;
}

void Autograd::pass_on(Tensor gradient, const Edge& edge, std::vector<std::shared_ptr<Node>>& ready) {
  if (gradient.defined()) sum_into(edge.node->buffer[edge.input], std::move(gradient));
  if (--edge.node->dependencies == 0) push(ready, edge.node);
}

void Autograd::sum_into(Tensor& buffer, Tensor gradient) {
  if (!buffer.defined()) {
    buffer = std::move(gradient);
    return;
  }
  const bool alone =
      !buffer.view && buffer.storage && buffer.storage.use_count() == 1 && buffer.layout.is_dense();
  read(buffer), read(gradient);
  if (alone) {  // added in place
    // Memory that goes through several layers counts as each layer's own in turn: the next gets it at once.
    if (recorder_.is_other_layers(*buffer.storage)) {
      const Layout layout = buffer.layout;
      const DType type = buffer.type;
      buffer.reset();
      buffer = make(layout, type);
      return end_kernel();
    }
    pending_.written += buffer.bytes(), ++pending_.results;
    return end_kernel();
  }
  buffer = make(elementwise({&buffer.layout, &gradient.layout}), buffer.type);
  end_kernel();
}

void Autograd::fit(Tensor& gradient, const NextEdge& to) {
  if (gradient.layout.sizes != to.sizes) gradient = sum_to(*this, gradient, to.sizes);
  if (gradient.type != to.type && is_floating(to.type)) {
    read(gradient);
    gradient = make(elementwise({&gradient.layout}), to.type);
    end_kernel();
  }
}

}  // namespace zplan::symbolic
