// Unsloth's fast models in the places of transformers' modules: LoRA of several linear layers in one
// function, which keeps no product; norms that write gradients over what they were given; a loss without
// logits. Batches are padding-free: samples lie behind each other in one row.
// Source: unsloth 2026.10.9 kernels/{fast_lora,rms_layernorm,rope_embedding,utils}.py, models/llama.py,
// utils/attention_dispatch.py; compared with recorded steps (tests/reference/unsloth).

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
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

/// matmul_lora: x·W, and x·A·B added to it. Packed weights are unpacked to a buffer that stays.
Tensor multiply(Program& p, const Adapted& of) {
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
  const Tensor unpacked = of.packed ? fresh(p.torch, {of.out, of.in}, DType::bf16) : Tensor{};
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
      const Tensor unpacked = low.packed ? fresh(torch, {low.out, low.in}, DType::bf16) : Tensor{};
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

/// Gate, up and down in one function: it keeps its input and the two products, not what they make, and
/// writes gradients over all three.
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
  const std::vector<Low> lows{Low(p, layers[0]), Low(p, layers[1]), Low(p, layers[2])};
  node->backward = [&p, &torch, kept = torch.save(x), kept_gate = torch.save(gate), kept_up = torch.save(up),
                    lows](Tensors&) {
    const Tensor input = kept.get(), first = kept_gate.get(), second = kept_up.get();
    Tensors outputs(7);
    std::vector<const Tensor*> matrices;
    for (const Low& each : lows) matrices.insert(matrices.end(), {&each.down, &each.up});
    with_narrow(p, matrices, [&] {
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
    });
    outputs[0] = input;
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

/// RMSNorm with a frozen weight: keeps its input and each row's reciprocal root. In front of attention and
/// feed-forward the gradient is written over the one that came.
Tensor norm_of_unsloth(Program& p, const NormCall& call) {
  const bool known =
      call.form == NormForm::narrow || call.form == NormForm::wide || call.form == NormForm::one_more;
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
Tensor attention_of_unsloth(Program& p, const Parameters& of, const Tensor& x, bool /*sliding*/) {
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

/// The embedding's output needs a gradient, with checkpointing and without. Rotary tables were made before.
Tensor embed_of_unsloth(Program& p, const Parameters& of) {
  const Tensor ids = of_batch({p.sizes.b, p.sizes.s}, DType::int64);
  const Parameter& table = of.all().front();
  const Parameter* copy = saved_copy(p, of, table);
  Tensor embedded = embedding(p.torch, (copy != nullptr ? *copy : table).tensor, ids);
  if (p.operators().scales_embedding) embedded = scale(p.torch, embedded);
  if (copy == nullptr) Autograd::require_gradient(embedded);
  return embedded;
}

/// Head and loss in a kernel that computes logits tile by tile, and their gradient with them: the hidden
/// states' gradient, and a trained head's, are made in the forward.
Tensor loss_of_unsloth(Program& p, const Parameters& of, const Tensor& hidden) {
  Autograd& torch = p.torch;
  const Parameter& weight = head_weight(p, of);
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
  node->backward = [first = torch.save(of_hidden), second = torch.save(of_weight)](Tensors&) {
    return Tensors{first.get(), second.get()};
  };
  return Autograd::connected(loss, node);
}

constexpr std::int64_t kTableRows = 8192;  ///< rotary tables grow by so many rows

/// Rotary tables of all positions, the largest packed weight unpacked, two buffers for layers' inputs.
std::vector<Bytes> held_by_unsloth(const Model& model, const Training& training, const Strategy& strategy) {
  const ModelShape& shape = model.shape;
  const std::int64_t tokens = strategy.micro_batch_size * training.sequence_length;
  const std::int64_t rows =
      std::max(shape.max_positions, divide_up(training.sequence_length, kTableRows) * kTableRows);
  const std::int64_t element = unsloth_rotates_in_fp32(shape.architecture) ? 4 : 2;
  const Bytes table(element * rows * shape.head_size);
  std::vector<Bytes> held{table, table};
  if (training.method == Method::qlora) {
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

/// Its fast models are dense decoders with separate projections; others, and full training, run compiled
/// modules of its FastModel.
std::optional<std::string> refused_by_unsloth(const Model& model, const Training& training,
                                              const Strategy& strategy) {
  const std::span<const std::string_view> fast = unsloth_fast_types();
  if (!spec(training.framework).sharded_instead)
    return "Unsloth is planned on one GPU and with DDP: --framework torch";
  if (training.method == Method::full)
    return "full fine-tuning with Unsloth runs compiled modules, which are not planned: --method lora or "
           "qlora";
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
                         .without_masks = true,
                         .fused_loss_brings = false};

}  // namespace zplan
