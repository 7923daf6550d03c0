// Layers, or the whole model, under torch.compile: Inductor's kernels in the places of transformers'
// operators. A norm, a rotation and a gated activation are one kernel each; what the backward needs of them
// is computed again from the layer's input and the outputs of products. A whole model's attention gets a
// mask and repeated heads, because tracing cannot prove that the mask is causal.
// Source: torch 2.11 torch/_inductor, torch/_functorch/partitioners.py; compared with recorded steps
// (tests/reference/compiled).

#include <utility>
#include <vector>

#include "planner/model_trace/attention.h"
#include "planner/model_trace/operators.h"

namespace zplan::symbolic {

namespace {

/// Returns the result of an elementwise kernel. Where products read it in 8 bits, the graph's backward makes
/// and casts it again.
Tensor computed_again(const Program& p, Tensor result) {
  if (p.training.float8 != Float8::none) result.storage->compute_again();
  return result;
}

/// True where norms have fp32 weights beside 16-bit ones: Unsloth's, where a model trains whole. A compiled
/// layer then keeps a norm's result in fp32, twice the bytes.
bool trains_wide_norms(const Program& p) {
  return p.modules().compiles_layers && p.training.method == Method::full;
}

/// A norm in one kernel: keeps its input and each row's statistics; its backward writes over the gradient.
Tensor compiled_norm(Program& p, const NormCall& call) {
  Autograd& torch = p.torch;
  const Tensor none;
  const Tensor& weight = call.weight.tensor;
  const Tensor& bias = call.bias != nullptr ? call.bias->tensor : none;
  const Tensor& x = call.x;
  const auto node = torch.node({&x, &weight, &bias});
  const std::int64_t h = x.layout.sizes.back(), rows = x.elements() / h;
  Tensor output = computed_again(p, torch.make(Layout::contiguous(x.layout.sizes), x.type));
  const Tensor statistics = torch.make(Layout::contiguous({call.bias != nullptr ? 2 : 1, rows}), DType::fp32);
  const Tensor wide = trains_wide_norms(p) ? torch.make(output.layout, x.type) : Tensor{};
  torch.end_kernel(1);
  if (!node) return output;
  const Saved product = wide.defined() ? torch.save(wide) : Saved{};
  node->backward = [&torch, h, kept = torch.save(x), sums = torch.save(statistics), product,
                    type = weight.type, trains = weight.requires_gradient,
                    has_bias = call.bias != nullptr](Tensors& gradients) {
    const Tensor input = kept.get(), held = sums.get(), other = product.get();
    torch.change(gradients[0], &input);
    Tensors outputs(3);
    outputs[0] = gradients[0];
    if (trains) outputs[1] = torch.operate({}, Layout::contiguous({h}), type);
    if (trains && has_bias) outputs[2] = torch.operate({}, Layout::contiguous({h}), type);
    return outputs;
  };
  return Autograd::connected(output, node);
}

/// Turns queries and keys into new memory, and their gradients where they lie.
void compiled_rotation(Program& p, Heads& heads) {
  rotate_in_one_kernel(p, heads, [&torch = p.torch](Tensors& gradients) {
    for (const Tensor& each : gradients) torch.change(each);
    return std::move(gradients);
  });
}

/// activation(gate) · up, or activation(x), in one kernel: keeps its operands, and writes their gradients
/// over them.
Tensor compiled_activation(Program& p, const Tensors& operands) {
  Autograd& torch = p.torch;
  std::vector<const Tensor*> inputs;
  for (const Tensor& each : operands) inputs.push_back(&each);
  const auto node = torch.node(inputs);
  Tensor result =
      computed_again(p, torch.make(Layout::contiguous(operands[0].layout.sizes), operands[0].type));
  torch.end_kernel(1);
  if (!node) return result;
  std::vector<Saved> kept;
  for (const Tensor& each : operands) kept.push_back(torch.save(each));
  node->backward = [&torch, kept](Tensors& gradients) {
    Tensors outputs;
    for (const Saved& each : kept) outputs.push_back(each.get());
    for (const Tensor& each : outputs) torch.change(each, &gradients[0]);
    return outputs;
  };
  return Autograd::connected(result, node);
}

Tensor compiled_feed_forward(Program& p, const Parameters& of, const Tensor& x) {
  const auto inner = of.linears(TensorRole::mlp, TensorParallelSplit::column);
  const auto outer = of.linears(TensorRole::mlp, TensorParallelSplit::row);
  if (p.shape().fused_gate_up || p.operators().gates_by_second) return feed_forward_of_transformers(p, of, x);
  Tensor product;
  {
    Tensors operands;
    operands.push_back(linear_layer(p, of, *inner[0], x));
    if (p.shape().gated_mlp) operands.push_back(linear_layer(p, of, *inner[1], x));
    product = compiled_activation(p, operands);
  }
  return linear_layer(p, of, *outer[0], product);
}

const LayerKernels kCompiled{.name = "compiled",
                             .owner = "torch.compile",
                             .norm = compiled_norm,
                             .rotation = compiled_rotation,
                             .feed_forward = compiled_feed_forward};

}  // namespace

const LayerKernels& kernels_of(const Program& p) {
  switch (p.training.compile) {
    case Compile::none: break;
    case Compile::layer:
      if (p.torch.recorder().current() == Recorder::kModel) break;
      if (p.modules().compiles_layers && p.training.method != Method::full) break;
      return kCompiled;
    case Compile::model: return kCompiled;
  }
  return p.modules().kernels;
}

bool fuses_kernels(const Program& p) {
  const Training& training = p.training;
  if (kernels_of(p).replace_layers()) return false;  // these are on the tape as they are
  return training.fused_kernels || (training.fused_loss && training.modules.fused_loss_brings);
}

/// The gradient of a compiled embedding is summed in fp32 and cast. Beside that of an fp32 table the head's
/// is in 16 bits still.
Tensor compiled_embedding(Program& p, const Parameter& weight, const Tensor& ids) {
  Autograd& torch = p.torch;
  const Tensor& table = weight.tensor;
  const auto node = torch.node({&table});
  Tensor rows = fresh(torch, {p.sizes.b, p.sizes.s, table.size(1)}, table.type);
  if (!node) return rows;
  node->backward = [&torch, kept = torch.save(ids), table = table.detached()](Tensors&) {
    const Tensor sums = torch.operate({}, table.layout, DType::fp32);
    if (table.type == DType::fp32) {
      const Tensor narrow = torch.operate({&sums}, table.layout, DType::bf16);
      return Tensors{sums};
    }
    return Tensors{torch.operate({&sums}, table.layout, table.type)};
  };
  return Autograd::connected(rows, node);
}

/// The logits are an output of the graph, which stays; the backward makes probabilities and gradients of them
/// in their own type.
Tensor compiled_loss(Program& p, const Tensor& logits) {
  Autograd& torch = p.torch;
  const auto node = torch.node({&logits});
  p.outputs.push_back(logits.detached());
  const Tensor statistics = fresh(torch, {2, p.sizes.tokens()}, DType::fp32);
  torch.read(logits), torch.end_kernel(1);
  const Tensor loss = torch.operate({&statistics}, Layout::contiguous({}), DType::fp32);
  if (!node) return loss;
  node->backward = [&torch, kept = torch.save(logits), sums = torch.save(statistics)](Tensors&) {
    const Tensor held = kept.get(), rows = sums.get();
    const Tensor probabilities = torch.operate({&held}, held.layout, held.type);
    return Tensors{torch.operate({&probabilities}, held.layout, held.type)};
  };
  return Autograd::connected(loss, node);
}

}  // namespace zplan::symbolic
