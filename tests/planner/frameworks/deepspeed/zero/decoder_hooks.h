#pragma once
// Llama-like decoders as ZeRO-3's hooks see them: modules in the order in which Hugging Face's code enters
// and leaves them, with and without checkpointing and adapters.

#include <utility>
#include <vector>

#include "planner/frameworks/deepspeed/zero/coordinator.h"

namespace zplan::testing {

struct DecoderShape {
  std::int64_t hidden{}, ffn{}, layers{}, heads{}, kv{}, head_dim{}, vocab{};
  bool tied{};
  bool qkv_bias{};  ///< Qwen2
  bool qk_norm{};   ///< Qwen3
};

enum class Recomputation { none, reentrant, non_reentrant };

struct DecoderRun {
  Recomputation recomputation{Recomputation::none};
  std::int64_t lora_rank{};  ///< 0: all weights are trained
  Bytes weights{2}, adapters{4};
  std::int64_t tensor_parallel{1};
  bool adapters_last{};  ///< numbered behind all others: the model was made under zero.Init
};

/// The action of a module of the decoder.
struct HookedModule {
  std::vector<std::int32_t> children{};  ///< in the order of execution
  std::int32_t reads{-1};                ///< a parameter of its second child or later, before that child runs
  bool takes_tensor{true};      ///< its input is given by position and needs a gradient: its backward is left
  bool returns_gradient{true};  ///< its output needs a gradient: its backward is entered
  bool checkpointed{};
};

/// Builds the tape of one micro-step.
class DecoderHooks {
 public:
  DecoderHooks(const DecoderShape& shape, const DecoderRun& run) : shape_(shape), run_(run) {
    build();
    number_adapters();
    visit_forward(root_);
    visit_backward(root_);
  }
  [[nodiscard]] const ModuleTape& tape() const { return tape_; }

 private:
  using Kind = ModuleEvent::Kind;
  using Node = HookedModule;

  // ---- building -------------------------------------------------------------------------------------------

  std::int32_t add(Node node = {}, std::vector<std::int32_t> parameters = {}) {
    nodes_.push_back(std::move(node));
    tape_.modules.push_back({std::move(parameters)});
    return static_cast<std::int32_t>(nodes_.size()) - 1;
  }
  std::int32_t parameter(std::int64_t elements, bool adapter = false) {
    const bool lora = run_.lora_rank > 0;
    tape_.parameters.push_back(
        {Elements(elements), adapter ? run_.adapters : run_.weights, adapter || !lora, false});
    is_adapter_.push_back(adapter);
    return static_cast<std::int32_t>(tape_.parameters.size()) - 1;
  }

  /// A linear layer; under LoRA wrapped as peft does, and reading its adapter's dtype.
  std::int32_t linear(std::int64_t out, std::int64_t in, bool bias, bool gradient_in) {
    std::vector<std::int32_t> own{parameter(out * in)};
    if (bias) own.push_back(parameter(out));
    if (run_.lora_rank == 0) return add({}, own);
    const bool flows = gradient_in;
    const std::int32_t base = add({.takes_tensor = flows, .returns_gradient = flows}, own);
    const std::int32_t dropout = add({.takes_tensor = flows, .returns_gradient = flows});
    const std::int32_t weight = parameter(run_.lora_rank * in, true);
    const std::int32_t a = add({.takes_tensor = flows}, {weight});
    const std::int32_t b = add({}, {parameter(out * run_.lora_rank, true)});
    return add({.children = {base, dropout, a, b}, .reads = weight, .takes_tensor = flows});
  }
  std::int32_t norm(std::int64_t elements, bool flows = true) {
    return add({.takes_tensor = flows, .returns_gradient = flows}, {parameter(elements)});
  }

  std::int32_t attention(bool flows) {
    const std::int64_t t = run_.tensor_parallel, q = shape_.heads * shape_.head_dim / t,
                       kv = shape_.kv * shape_.head_dim / t;
    const std::int32_t query = linear(q, shape_.hidden, shape_.qkv_bias, flows);
    const std::int32_t key = linear(kv, shape_.hidden, shape_.qkv_bias, flows);
    const std::int32_t value = linear(kv, shape_.hidden, shape_.qkv_bias, flows);
    const std::int32_t output = linear(shape_.hidden, q, false, true);
    if (!shape_.qk_norm) return add({.children = {query, key, value, output}, .takes_tensor = false});
    const std::int32_t query_norm = norm(shape_.head_dim), key_norm = norm(shape_.head_dim);
    return add({.children = {query, query_norm, key, key_norm, value, output}, .takes_tensor = false});
  }
  std::int32_t mlp() {
    const std::int64_t f = shape_.ffn / run_.tensor_parallel;
    const std::int32_t gate = linear(f, shape_.hidden, false, true);
    const std::int32_t up = linear(f, shape_.hidden, false, true);
    const std::int32_t down = linear(shape_.hidden, f, false, true);
    return add({.children = {gate, add(), up, down}});
  }
  /// `flows`: whether its input needs a gradient.
  std::int32_t layer(bool flows) {
    const std::int32_t attends = attention(flows), feeds = mlp();
    const std::int32_t first = norm(shape_.hidden, flows), second = norm(shape_.hidden);
    return add({.children = {first, attends, second, feeds},
                .takes_tensor = flows,
                .checkpointed = run_.recomputation != Recomputation::none});
  }

  void build() {
    // peft asks for gradients of the embedding's output where layers are checkpointed.
    const bool flows = run_.lora_rank == 0 || run_.recomputation != Recomputation::none;
    const std::int32_t table = parameter(shape_.vocab * shape_.hidden);
    std::vector<std::int32_t> children{add({.takes_tensor = false, .returns_gradient = flows}, {table}),
                                       add({.takes_tensor = false, .returns_gradient = false})};
    for (std::int64_t i = 0; i < shape_.layers; ++i) children.push_back(layer(flows || i > 0));
    children.push_back(norm(shape_.hidden));
    const std::int32_t model = add({.children = children, .takes_tensor = false});
    const std::int32_t head =
        add({}, {shape_.tied ? table : parameter(shape_.vocab / run_.tensor_parallel * shape_.hidden)});
    root_ = add({.children = {model, head}, .takes_tensor = false});
    for (int wrapper = 0; run_.lora_rank > 0 && wrapper < 2; ++wrapper)
      root_ = add({.children = {root_}, .takes_tensor = false});
  }

  /// DeepSpeed's numbers, where adapters are made last.
  void number_adapters() {
    if (!run_.adapters_last) return;
    std::vector<std::int32_t> number(tape_.parameters.size());
    std::vector<ShardedParameter> renumbered;
    for (const bool adapter : {false, true})
      for (std::size_t i = 0; i < number.size(); ++i)
        if (is_adapter_[i] == adapter) {
          number[i] = static_cast<std::int32_t>(renumbered.size());
          renumbered.push_back(tape_.parameters[i]);
        }
    tape_.parameters = renumbered;
    tape_.named = number;
    for (ShardedModule& module : tape_.modules)
      for (std::int32_t& p : module.own) p = number[static_cast<std::size_t>(p)];
    for (Node& node : nodes_)
      if (node.reads >= 0) node.reads = number[static_cast<std::size_t>(node.reads)];
  }

  // ---- a micro-step ---------------------------------------------------------------------------------------

  const Node& node(std::int32_t module) const { return nodes_[static_cast<std::size_t>(module)]; }
  void event(Kind kind, std::int32_t module) { tape_.events.push_back({kind, module, -1}); }

  void visit_forward(std::int32_t module) {
    event(Kind::enter_forward, module);
    visit_children(module, false);
    event(Kind::leave_forward, module);
  }
  /// `stops_early`: at the last module that saves anything, which is entered but not left.
  void visit_children(std::int32_t module, bool stops_early) {
    const std::vector<std::int32_t>& children = node(module).children;
    for (std::size_t i = 0; i < children.size(); ++i) {
      if (i == 1 && node(module).reads >= 0) tape_.events.push_back({Kind::read, module, node(module).reads});
      if (stops_early && i + 1 == children.size()) {
        event(Kind::enter_forward, children[i]);
        visit_children(children[i], true);
      } else {
        visit_forward(children[i]);
      }
    }
  }

  void visit_backward(std::int32_t module) {
    const Node& it = node(module);
    if (!it.returns_gradient) return;
    event(Kind::enter_backward, module);
    if (it.checkpointed) to_recompute_ = module;
    const bool reentrant = run_.recomputation == Recomputation::reentrant;
    if (to_recompute_ >= 0 && (reentrant || it.children.empty()))
      visit_children(std::exchange(to_recompute_, -1), !reentrant);
    for (auto child = it.children.rbegin(); child != it.children.rend(); ++child) visit_backward(*child);
    if (it.takes_tensor) event(Kind::leave_backward, module);
  }

  DecoderShape shape_;
  DecoderRun run_;
  std::vector<Node> nodes_;
  std::vector<bool> is_adapter_;
  ModuleTape tape_;
  std::int32_t root_{};
  std::int32_t to_recompute_{-1};  ///< the layer whose recomputation has yet to be asked for
};

}  // namespace zplan::testing
