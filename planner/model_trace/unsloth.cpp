// Unsloth's fast models in the places of transformers' modules: LoRA of several linear layers in one
// function, which keeps no product; norms that write gradients over what they were given; a loss without
// logits. Batches are padding-free: samples lie behind each other in one row. Layers of padded batches are
// compiled (--compile layer), and those of full fine-tuning always are.
// Source: unsloth 2026.10.9 kernels/{fast_lora,rms_layernorm,rope_embedding,utils}.py, models/llama.py,
// utils/attention_dispatch.py; compared with recorded steps (tests/reference/unsloth).

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <initializer_list>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "models/architectures/unsloth_types.h"
#include "planner/model_trace/attention.h"
#include "planner/model_trace/operators.h"
#include "planner/question/framework.h"
#include "planner/sharding/rank_model.h"

namespace zplan {

namespace symbolic {

namespace {

/// True where torch.compile runs around each layer.
bool is_compiled(const Training& training) { return training.compile == Compile::layer; }

/// A linear layer with its adapter.
struct Adapted {
  const Parameter* weight{};
  const Parameter* down{};
  const Parameter* up{};

  [[nodiscard]] std::int64_t in() const { return down->tensor.size(1); }
  [[nodiscard]] std::int64_t out() const { return up->tensor.size(0); }
  [[nodiscard]] std::int64_t rank() const { return down->tensor.size(0); }
};

/// Returns the layer of `weight` where the fused functions run it: with an adapter, without bias, dropout and
/// magnitudes.
std::optional<Adapted> adapted(const Program& p, const Parameters& of, const Parameter& weight) {
  const std::string& name = weight.about->name;
  const std::string path = name.substr(0, name.rfind('.'));
  const Adapted found{&weight, of.find(path + ".lora_A.default.weight"),
                      of.find(path + ".lora_B.default.weight")};
  const bool is_plain = p.training.lora_dropout == 0 && !p.training.dora && !p.adapters_off &&
                        of.find(path + ".bias") == nullptr && p.strategy.layout.tensor == 1;
  if (found.down == nullptr || found.up == nullptr || !is_plain) return std::nullopt;
  return found;
}

/// Calls `use` with bf16 copies of the matrices while they are there.
template <class Use>
void with_narrow(Program& p, const std::vector<const Tensor*>& matrices, const Use& use) {
  Tensors narrow;
  for (const Tensor* each : matrices)
    narrow.push_back(each->type == DType::bf16 ? each->detached()
                                               : p.torch.operate({each}, each->layout, DType::bf16));
  use();
}

/// Adds the adapter's product to a result where it lies.
void add_low_rank(Program& p, std::int64_t in, std::int64_t rank, std::int64_t out) {
  const Tensor middle = fresh(p.torch, {p.sizes.tokens(), rank}, DType::bf16);
  p.torch.multiply(false, product_of(p.sizes.tokens(), in, rank, DType::bf16));
  p.torch.multiply(false, product_of(p.sizes.tokens(), rank, out, DType::bf16));
}

/// The 16-bit weight [out, in] of a packed one, where it gets memory of its own.
Tensor unpacked(Program& p, bool is_packed, std::int64_t out, std::int64_t in) {
  return is_packed ? fresh(p.torch, {out, in}, DType::bf16) : Tensor{};
}

/// matmul_lora: x·W, and x·A·B added to it. Packed weights are unpacked to a buffer that stays; a compiled
/// layer has no such buffer.
Tensor multiply(Program& p, const Adapted& of) {
  const bool unpacks = is_compiled(p.training) && is_packed(p.training, *of.weight->about);
  const Tensor weight = unpacked(p, unpacks, of.out(), of.in());
  Tensor result = fresh(p.torch, {p.sizes.b, p.sizes.s, of.out()}, DType::bf16);
  p.torch.multiply(false, product_of(p.sizes.tokens(), of.in(), of.out(), DType::bf16));
  with_narrow(p, {&of.down->tensor, &of.up->tensor}, [&] { add_low_rank(p, of.in(), of.rank(), of.out()); });
  return result;
}

/// Low holds what the backward needs of an adapted layer: sizes, and the adapter's own matrices.
struct Low {
  std::int64_t in{}, rank{}, out{};
  bool packed{};
  Tensor down, up;

  Low(const Program& p, const Adapted& of)
      : in(of.in()),
        rank(of.rank()),
        out(of.out()),
        packed(is_packed(p.training, *of.weight->about)),
        down(of.down->tensor.detached()),
        up(of.up->tensor.detached()) {}
};

/// New gradients of both matrices of an adapter, made of the layer's input and its output's gradient.
void adapter_gradients(Program& p, const Low& of, Tensor& down, Tensor& up) {
  const std::int64_t tokens = p.sizes.tokens();
  p.torch.multiply(false, product_of(of.rank, tokens, of.in, DType::bf16));
  down = fresh(p.torch, down.layout.sizes, DType::bf16);
  const Tensor middle = fresh(p.torch, {of.rank, tokens}, DType::bf16);
  p.torch.multiply(false, product_of(of.rank, of.in, tokens, DType::bf16));
  up = fresh(p.torch, up.layout.sizes, DType::bf16);
  p.torch.multiply(false, product_of(of.rank, tokens, of.out, DType::bf16));
}

/// Adds the gradient of a layer's input to one that is there. A packed weight is unpacked for it.
void add_input_gradient(Program& p, const Low& of) {
  const Tensor weight = unpacked(p, of.packed, of.out, of.in);
  p.torch.multiply(false, product_of(p.sizes.tokens(), of.out, of.in, DType::bf16));
}

/// Q, K and V of one function: it keeps the normed hidden states, over which their gradient is written.
Heads fused_projections(Program& p, const std::array<Adapted, 3>& layers, const Tensor& x) {
  Autograd& torch = p.torch;
  const auto node = torch.node({&x, &layers[0].down->tensor, &layers[0].up->tensor, &layers[1].down->tensor,
                                &layers[1].up->tensor, &layers[2].down->tensor, &layers[2].up->tensor});
  Tensors made;
  for (const Adapted& each : layers) made.push_back(multiply(p, each));
  if (node) {
    const std::vector<Low> lows{Low(p, layers[0]), Low(p, layers[1]), Low(p, layers[2])};
    node->backward = [&p, &torch, kept = torch.save(x), lows](Tensors& gradients) {
      const Tensor input = kept.get();
      Tensors whole(3);  // where heads do not lie behind each other, they are copied
      for (std::size_t i = 0; i < 3; ++i) whole[i] = contiguous(torch, gradients[i].detached());
      Tensors outputs(7);
      std::vector<const Tensor*> matrices;
      for (const Low& each : lows) matrices.insert(matrices.end(), {&each.down, &each.up});
      with_narrow(p, matrices, [&] {
        Tensors middles;
        for (const Low& each : lows)
          middles.push_back(fresh(torch, {p.sizes.tokens(), each.rank}, DType::bf16));
        for (std::size_t i = 0; i < 3; ++i) {
          outputs[1 + 2 * i] = lows[i].down, outputs[2 + 2 * i] = lows[i].up;
          adapter_gradients(p, lows[i], outputs[1 + 2 * i], outputs[2 + 2 * i]);
        }
        for (const Low& each : lows) add_input_gradient(p, each);
      });
      outputs[0] = input;
      return outputs;
    };
  }
  Heads heads;
  for (std::size_t i = 0; i < 3; ++i) Autograd::connect(made[i], node, i);
  heads.query = std::move(made[0]), heads.key = std::move(made[1]), heads.value = std::move(made[2]);
  return heads;
}

/// Queries, keys and values as they leave their projections: [b, s, heads·d].
Heads projected(Program& p, const Parameters& of, const Tensor& x) {
  std::array<Adapted, 3> layers;
  std::size_t found = 0;
  for (const char letter : {'q', 'k', 'v'})
    if (const auto layer = adapted(p, of, projection(of, letter))) layers[found++] = *layer;
  if (found == 3) return fused_projections(p, layers, x);
  Heads heads;
  heads.query = linear_of_transformers(p, of, projection(of, 'q'), x);
  heads.key = linear_of_transformers(p, of, projection(of, 'k'), x);
  heads.value = linear_of_transformers(p, of, projection(of, 'v'), x);
  return heads;
}

/// One adapted layer by itself: it keeps its input.
Tensor fused_linear(Program& p, const Adapted& of, const Tensor& x) {
  Autograd& torch = p.torch;
  const auto node = torch.node({&x, &of.down->tensor, &of.up->tensor});
  const Tensor result = multiply(p, of);
  if (!node) return result;
  node->backward = [&p, &torch, kept = torch.save(x), low = Low(p, of)](Tensors&) {
    const Tensor input = kept.get();
    Tensors outputs(3);
    with_narrow(p, {&low.down, &low.up}, [&] {
      const Tensor middle = fresh(torch, {p.sizes.tokens(), low.rank}, DType::bf16);
      outputs[1] = low.down, outputs[2] = low.up;
      adapter_gradients(p, low, outputs[1], outputs[2]);
      const Tensor weight = unpacked(p, low.packed, low.out, low.in);
      outputs[0] = fresh(torch, input.layout.sizes, DType::bf16);
      torch.multiply(false, product_of(p.sizes.tokens(), low.out, low.in, DType::bf16));
    });
    return outputs;
  };
  return Autograd::connected(result, node);
}

Tensor linear_of_unsloth(Program& p, const Parameters& of, const Parameter& weight, const Tensor& x) {
  const bool is_output = weight.about->module == p.names().attention_output;
  if (const auto layer = is_output ? adapted(p, of, weight) : std::nullopt) return fused_linear(p, *layer, x);
  return linear_of_transformers(p, of, weight, x);
}

/// SavedGates are what the function of gate, up and down keeps: its input and both products. A compiled layer
/// computes the input again, which a norm made.
struct SavedGates {
  Saved input{}, gate{}, up{};
  Layout of_input{};
};

/// Gradients of gate, up and down, in new memory: a compiled layer makes the product of both once more, its
/// gradient by the weight and that by the adapter, and then those of gate and up.
void compiled_gates(Program& p, const std::vector<Low>& lows, const SavedGates& kept, Tensors& outputs) {
  Autograd& torch = p.torch;
  const Tensor gate = kept.gate.get(), up = kept.up.get();
  const Tensor input = fresh(torch, kept.of_input.sizes, DType::bf16);
  Tensor inner = fresh(torch, gate.layout.sizes, DType::bf16);
  {
    const Tensor weight = unpacked(p, lows[2].packed, lows[2].out, lows[2].in);
    torch.multiply(false, product_of(p.sizes.tokens(), lows[2].out, lows[2].in, DType::bf16));
  }
  {
    const Tensor low = fresh(torch, gate.layout.sizes, DType::bf16);
    add_low_rank(p, lows[2].out, lows[2].rank, lows[2].in);
    const Tensor product = fresh(torch, gate.layout.sizes, DType::bf16);
    const Tensor of_norm = fresh(torch, kept.of_input.sizes, DType::fp32);
    const Tensor of_rows = fresh(torch, kept.of_input.sizes, DType::bf16);
    outputs[5] = lows[2].down, outputs[6] = lows[2].up;
    adapter_gradients(p, lows[2], outputs[5], outputs[6]);
  }
  torch.change(inner), torch.change(gate), torch.change(up);
  outputs[0] = fresh(torch, kept.of_input.sizes, DType::bf16);
  for (std::size_t i = 2; i-- > 0;) {
    outputs[1 + 2 * i] = lows[i].down, outputs[2 + 2 * i] = lows[i].up;
    adapter_gradients(p, lows[i], outputs[1 + 2 * i], outputs[2 + 2 * i]);
    if (i == 1) inner.reset();
    add_input_gradient(p, lows[i]);
  }
}

/// Gradients of gate, up and down, written over what was kept.
void gates_in_place(Program& p, const std::vector<Low>& lows, const SavedGates& kept, Tensors& outputs) {
  Autograd& torch = p.torch;
  const Tensor input = kept.input.get(), first = kept.gate.get(), second = kept.up.get();
  const Tensor inner = fresh(torch, first.layout.sizes, DType::bf16);
  torch.multiply(false, product_of(p.sizes.tokens(), lows[2].out, lows[2].in, DType::bf16));
  add_low_rank(p, lows[2].out, lows[2].rank, lows[2].in);
  torch.change(inner), torch.change(first), torch.change(second);
  for (std::size_t i = 3; i-- > 0;) {
    outputs[1 + 2 * i] = lows[i].down, outputs[2 + 2 * i] = lows[i].up;
    adapter_gradients(p, lows[i], outputs[1 + 2 * i], outputs[2 + 2 * i]);
  }
  add_input_gradient(p, lows[1]);
  add_input_gradient(p, lows[0]);
  outputs[0] = input;
}

/// Gate, up and down in one function: it keeps its input and the two products, not what they make.
Tensor fused_feed_forward(Program& p, const std::array<Adapted, 3>& layers, const Tensor& x) {
  Autograd& torch = p.torch;
  const auto node = torch.node({&x, &layers[0].down->tensor, &layers[0].up->tensor, &layers[1].down->tensor,
                                &layers[1].up->tensor, &layers[2].down->tensor, &layers[2].up->tensor});
  const Tensor gate = multiply(p, layers[0]), up = multiply(p, layers[1]);
  Tensor result;
  {
    const Tensor product = torch.operate({&gate, &up}, gate.layout, DType::bf16);
    result = multiply(p, layers[2]);
  }
  if (!node) return result;
  const bool compiled = is_compiled(p.training);
  const std::vector<Low> lows{Low(p, layers[0]), Low(p, layers[1]), Low(p, layers[2])};
  SavedGates kept{.of_input = x.layout};
  if (!compiled) kept.input = torch.save(x);
  kept.gate = torch.save(gate), kept.up = torch.save(up);
  node->backward = [&p, compiled, kept, lows](Tensors&) {
    Tensors outputs(7);
    std::vector<const Tensor*> matrices;
    for (const Low& each : lows) matrices.insert(matrices.end(), {&each.down, &each.up});
    with_narrow(p, matrices, [&] { (compiled ? compiled_gates : gates_in_place)(p, lows, kept, outputs); });
    return outputs;
  };
  return Autograd::connected(result, node);
}

Tensor feed_forward_of_unsloth(Program& p, const Parameters& of, const Tensor& x) {
  const auto inner = of.linears(TensorRole::mlp, TensorParallelSplit::column);
  const auto outer = of.linears(TensorRole::mlp, TensorParallelSplit::row);
  const bool is_gated = p.shape().gated_mlp && !p.shape().fused_gate_up && inner.size() >= 2;
  std::array<Adapted, 3> layers;
  std::size_t found = 0;
  if (is_gated)
    for (const Parameter* weight : {inner[0], inner[1], outer[0]})
      if (const auto layer = adapted(p, of, *weight)) layers[found++] = *layer;
  return found == 3 ? fused_feed_forward(p, layers, x) : feed_forward_of_transformers(p, of, x);
}

/// The final norm of a model that trains whole, whose weight is fp32 and whose result is, too.
Tensor wide_norm(Program& p, const NormCall& call) {
  Autograd& torch = p.torch;
  const Tensor& x = call.x;
  const Tensor& weight = call.weight.tensor;
  const auto node = torch.node({&x, &weight});
  Tensor result = torch.make(Layout::contiguous(x.layout.sizes), DType::fp32);
  const Tensor roots = torch.make(Layout::contiguous({p.sizes.tokens()}), DType::fp32);
  torch.end_kernel(1);
  if (!node) return result;
  node->backward = [&torch, kept = torch.save(x), kept_roots = torch.save(roots),
                    weight = weight.detached()](Tensors& gradients) {
    const Tensor input = kept.get(), factors = kept_roots.get();
    const Tensor of_input = torch.operate({&gradients[0], &input}, input.layout, input.type);
    return Tensors{of_input, torch.operate({}, weight.layout, weight.type)};
  };
  return Autograd::connected(result, node);
}

/// RMSNorm with a frozen weight: keeps its input and each row's reciprocal root. In front of attention and
/// feed-forward the gradient is written over the one that came.
Tensor norm_of_unsloth(Program& p, const NormCall& call) {
  const bool known =
      call.form == NormForm::narrow || call.form == NormForm::wide || call.form == NormForm::one_more;
  if (known && p.training.method == Method::full) return wide_norm(p, call);
  if (!known || call.weight.tensor.requires_gradient) return norm_of_transformers(p, call);
  Autograd& torch = p.torch;
  const Tensor x = contiguous(torch, call.x);
  const auto node = torch.node({&x});
  const std::int64_t h = x.layout.sizes.back(), rows = x.elements() / h;
  Tensor result = torch.make(Layout::contiguous(x.layout.sizes), x.type);
  const Tensor roots = torch.make(Layout::contiguous({rows}), DType::fp32);
  torch.end_kernel(1);
  if (!node) return result;
  const bool is_layers = torch.recorder().current() != Recorder::kModel && h == p.sizes.h;
  const bool overwrites = is_layers && call.form != NormForm::one_more;
  node->backward = [&torch, overwrites, kept = torch.save(x),
                    kept_roots = torch.save(roots)](Tensors& gradients) {
    const Tensor input = kept.get(), factors = kept_roots.get();
    const Tensor gradient = contiguous(torch, gradients[0].detached());
    if (overwrites) {
      torch.change(gradient, &input);
      return Tensors{gradient};
    }
    return Tensors{
        torch.operate({&gradient, &input}, Layout::contiguous(gradient.layout.sizes), gradient.type)};
  };
  return Autograd::connected(result, node);
}

/// Turns queries and keys into new memory, in one kernel, and so their gradients.
void rotate_of_unsloth(Program& p, Heads& heads) {
  rotate_in_one_kernel(p, heads, [&torch = p.torch](Tensors& gradients) {
    Tensors turned;
    for (const Tensor& each : gradients)
      turned.push_back(torch.operate({&each}, Layout::contiguous(each.layout.sizes), each.type));
    return turned;
  });
}

/// PyTorch's fused attention sample by sample, whose outputs are joined in new memory; FlashAttention runs
/// over all samples at once.
Tensor attention_of_unsloth(Program& p, const Parameters& of, const Tensor& x, bool sliding) {
  if (p.training.method == Method::full) return attention_of_transformers(p, of, x, sliding);
  Autograd& torch = p.torch;
  const Sizes& n = p.sizes;
  Heads heads = projected(p, of, x);
  const auto by_head = [&](Tensor& rows, std::int64_t count) {
    rows = view(torch, rows, {n.b, n.s, count, n.d});
  };
  by_head(heads.query, n.a), by_head(heads.key, n.k), by_head(heads.value, n.k);
  norm_queries_and_keys(p, of, heads);
  for (Tensor* each : {&heads.query, &heads.key, &heads.value}) *each = transpose(torch, *each, 1, 2);
  rotate(p, heads);
  Tensor output = flash_attention(torch, heads.query, heads.key, heads.value, false);
  output = view(torch, transpose(torch, output, 1, 2), {n.tokens(), n.a * n.d});
  if (p.training.attention != Attention::flash) output = cat(torch, {output}, 0);
  heads = {};
  const Tensor joined = view(torch, output, {n.b, n.s, n.a * n.d});
  output.reset();
  return linear_layer(p, of, attention_output(p, of), joined);
}

/// The embeddings of a model that trains whole, and the mask of booleans that keeps samples of a row apart,
/// which layers are given.
Tensor embed_and_mask(Program& p, const Parameters& of) {
  Tensor embedded = before_layers(p, of);
  p.given.unread = fresh(p.torch, {1, 1, p.sizes.tokens(), p.sizes.tokens()}, DType::boolean);
  return embedded;
}

/// The embedding's output needs a gradient, with checkpointing and without. Rotary tables were made before.
Tensor embed_of_unsloth(Program& p, const Parameters& of) {
  if (p.training.method == Method::full) return embed_and_mask(p, of);
  const Tensor ids = of_batch({p.sizes.b, p.sizes.s}, DType::int64);
  const Parameter& table = of.all().front();
  const Parameter* copy = saved_copy(p, of, table);
  Tensor embedded = embedding(p.torch, (copy != nullptr ? *copy : table).tensor, ids);
  if (p.operators().scales_embedding) embedded = scale(p.torch, embedded);
  if (copy == nullptr) Autograd::require_gradient(embedded);
  return embedded;
}

/// Slices of the tokens in which a trained head's loss runs: what a slice makes, 16 B a logit, is to fit in 4
/// GiB less the gradients that no slice shrinks. Where less than 8 GiB are free it is half of that: more and
/// smaller slices. Source: unsloth_zoo 2026.10.9 fused_losses/cross_entropy_loss.py get_chunk_size.
std::int64_t loss_slices(std::int64_t tokens, std::int64_t V, Bytes fixed) {
  constexpr Bytes kTarget{std::int64_t{4} << 30};
  const Bytes target = fixed < kTarget ? kTarget - fixed : kTarget;
  const std::int64_t exact = divide_up(16 * tokens * V, target.value);
  return exact <= 1 ? 1 : std::min(divide_up(exact, 4) * 4, tokens);
}

/// Gradients of hidden states and head, times that of the loss, in new memory.
Tensors times_loss(Autograd& torch, std::initializer_list<const Tensor*> gradients) {
  Tensors made;
  for (const Tensor* each : gradients) made.push_back(torch.operate({each}, each->layout, each->type));
  return made;
}

/// Head and loss of a model that trains whole, slice by slice: each makes its logits, the gradient of its
/// hidden states and one of the head, which is added to the sum. The backward scales both into new memory.
Tensor loss_of_trained_head(Program& p, const Parameter& weight, const Tensor& hidden) {
  Autograd& torch = p.torch;
  const auto node = torch.node({&hidden, &weight.tensor});
  const std::int64_t T = p.sizes.tokens(), h = p.sizes.h, V = weight.tensor.size(0);
  const Tensor of_hidden = fresh(torch, hidden.layout.sizes, hidden.type);
  const Tensor of_weight = torch.operate({}, Layout::contiguous({V, h}), weight.tensor.type);
  const Bytes fixed = of_hidden.bytes() + of_weight.bytes() * 2;
  for (const std::int64_t rows : chunks(T, loss_slices(T, V, fixed))) {
    const Tensor narrow = torch.operate({}, Layout::contiguous({rows, h}), DType::bf16);
    const Tensor logits = fresh(torch, {rows, V}, DType::bf16);
    torch.multiply(false, product_of(rows, h, V, DType::bf16));
    torch.change(logits), torch.change(logits);
    const Tensor of_rows = fresh(torch, {rows, h}, DType::bf16);
    torch.multiply(false, product_of(rows, V, h, DType::bf16));
    const Tensor of_slice = fresh(torch, {V, h}, weight.tensor.type);
    torch.multiply(false, product_of(V, rows, h, DType::bf16));
    torch.change(of_weight, &of_slice);
  }
  const Tensor loss = torch.operate({}, Layout::contiguous({}), DType::fp32);
  if (!node) return loss;
  node->backward = [&torch, first = torch.save(of_hidden), second = torch.save(of_weight)](Tensors&) {
    const Tensor of_input = first.get(), of_head = second.get();
    return times_loss(torch, {&of_input, &of_head});
  };
  return Autograd::connected(loss, node);
}

/// Head and loss in a kernel that computes logits tile by tile, and their gradient with them: the hidden
/// states' gradient, and a trained head's, are made in the forward.
Tensor loss_of_unsloth(Program& p, const Parameters& of, const Tensor& hidden) {
  Autograd& torch = p.torch;
  const Parameter& weight = head_weight(p, of);
  if (p.training.method == Method::full) return loss_of_trained_head(p, weight, hidden);
  const auto node = torch.node({&hidden, &weight.tensor});
  const std::int64_t T = p.sizes.tokens(), h = p.sizes.h, V = weight.tensor.size(0);
  const Tensor of_hidden = fresh(torch, hidden.layout.sizes, hidden.type);
  Tensor of_weight;
  if (weight.tensor.requires_gradient) of_weight = fresh(torch, {V, h}, weight.tensor.type);
  const Tensor loss = torch.operate({}, Layout::contiguous({}), DType::fp32);
  torch.compute(product_of(T, h, V, DType::bf16));
  torch.compute(product_of(T, h, V, DType::bf16));
  torch.compute(product_of(T, V, h, DType::bf16));
  if (of_weight.defined()) torch.compute(product_of(V, T, h, DType::bf16));
  if (!node) return loss;
  node->backward = [&torch, first = torch.save(of_hidden), second = torch.save(of_weight)](Tensors&) {
    const Tensor of_input = first.get(), of_head = second.get();
    if (!of_head.defined()) return Tensors{of_input, of_head};
    return times_loss(torch, {&of_input, &of_head});
  };
  return Autograd::connected(loss, node);
}

constexpr std::int64_t kTableRows = 8192;  ///< rotary tables grow by so many rows

/// Rotary tables of all positions, except of a model that trains whole; the largest packed weight unpacked;
/// two buffers for layers' inputs.
std::vector<Bytes> held_by_unsloth(const Model& model, const Training& training, const Strategy& strategy) {
  const ModelShape& shape = model.shape;
  const std::int64_t tokens = strategy.micro_batch_size * training.sequence_length;
  const std::int64_t rows =
      std::max(shape.max_positions, divide_up(training.sequence_length, kTableRows) * kTableRows);
  const std::int64_t element = unsloth_rotates_in_fp32(shape.architecture) ? 4 : 2;
  const Bytes table(element * rows * shape.head_size);
  std::vector<Bytes> held;
  if (training.method != Method::full) held = {table, table};
  if (training.method == Method::qlora && !is_compiled(training)) {
    Elements largest{};
    for_each_tensor(model.inventory, [&](const zplan::Tensor& each, int) {
      if (is_packed(training, each)) largest = std::max(largest, each.elements());
    });
    held.push_back(largest * Bytes(2));
  }
  if (strategy.checkpointing == Checkpointing::full &&
      checkpoint_offload(training, strategy) == CheckpointOffload::buffered) {
    const Bytes input(2 * tokens * shape.hidden_size);
    held.insert(held.end(), 2, std::max(input, kLargestUnoffloaded));
  }
  return held;
}

/// Its fast models are dense decoders with separate projections; others run compiled modules of its
/// FastModel, as full training of all models does.
std::optional<std::string> refused_by_unsloth(const Model& model, const Training& training,
                                              const Strategy& strategy) {
  const std::span<const std::string_view> fast = unsloth_fast_types();
  if (!spec(training.framework).sharded_instead)
    return "Unsloth is planned on one GPU and with DDP: --framework torch";
  if (training.compile == Compile::model) return "Unsloth compiles layers, not models: --compile layer";
  if (training.method == Method::full && !is_compiled(training))
    return "Unsloth compiles the layers of a model that it trains whole: --compile layer";
  if (std::ranges::find(fast, model.shape.architecture) == fast.end() || model.vision)
    return fmt::format("Unsloth's fast models are planned ({}), and {} is not one of them",
                       fmt::join(fast, ", "), model.shape.architecture);
  if (training.objective != Objective::sft) return "Unsloth is planned for next tokens (--objective sft)";
  if (training.precision == Precision::fp32 || training.dora)
    return "Unsloth is planned in 16 bits, without DoRA";
  if (training.method == Method::qlora && training.quantization != Quantization::nf4_double)
    return "Unsloth's checkpoints have double quantisation: --quantization nf4-double";
  if (strategy.layout.token_ranks() > 1 || strategy.layout.tensor > 1)
    return "Unsloth is planned without tensor, sequence and context parallelism";
  return std::nullopt;
}

}  // namespace

}  // namespace symbolic

const ModuleSet kUnsloth{.name = "unsloth",
                         .kernels = {.owner = "Unsloth",
                                     .norm = symbolic::norm_of_unsloth,
                                     .rotation = symbolic::rotate_of_unsloth,
                                     .feed_forward = symbolic::feed_forward_of_unsloth},
                         .linear = symbolic::linear_of_unsloth,
                         .attention = symbolic::attention_of_unsloth,
                         .before_layers = symbolic::embed_of_unsloth,
                         .head_and_loss = symbolic::loss_of_unsloth,
                         .refuses = symbolic::refused_by_unsloth,
                         .held = symbolic::held_by_unsloth,
                         .compiles_layers = true,
                         .without_masks = true,
                         .fused_loss_brings = false};

}  // namespace zplan
