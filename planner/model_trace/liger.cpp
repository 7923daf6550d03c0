// Liger-Kernel's functions in the places of transformers' operators: what each makes and keeps, and which
// gradients it writes over what it was given. Source: Liger-Kernel 0.8.5 ops/{rms_norm,rope,swiglu}.py,
// transformers/monkey_patch.py.

#include <utility>

#include "planner/model_trace/attention.h"

namespace zplan {

namespace symbolic {

namespace {

/// `x` itself where its dimensions of heads and tokens lie contiguous the other way round, else such a copy.
Tensor laid_out_by_tokens(Autograd& torch, const Tensor& x) {
  const Layout by_tokens = x.layout.transposed(1, 2);
  if (by_tokens.is_contiguous()) return x.detached();
  Tensor copy = torch.operate({&x}, Layout::contiguous(by_tokens.sizes), x.type);
  copy.layout = copy.layout.transposed(1, 2);
  return copy;
}

/// RMSNorm: keeps its input and, in fp32, a reciprocal root for each row; the gradient of its input lies in
/// that of its output, unless that one is needed for a residual: there it is made anew.
Tensor liger_rms_norm(Program& p, const Tensor& weight, const Tensor& x, bool in_place) {
  Autograd& torch = p.torch;
  const auto node = torch.node({&x, &weight});
  const std::int64_t h = x.layout.sizes.back(), rows = x.elements() / h;
  Tensor output = torch.make(Layout::contiguous(x.layout.sizes), x.type);
  const Tensor roots = torch.make(Layout::contiguous({rows}), DType::fp32);
  torch.end_kernel(1);
  if (!node) return output;
  Saved kept = torch.save(x), kept_weight = torch.save(weight), kept_roots = torch.save(roots);
  node->backward = [&torch, h, in_place, trains = weight.requires_gradient, type = weight.type, kept,
                    kept_weight, kept_roots](Tensors& gradients) {
    const Tensor input = kept.get(), factors = kept_weight.get(), held = kept_roots.get();
    torch.read_only(input.bytes() + gradients[0].bytes());
    Tensor parts;
    if (trains) parts = torch.make(Layout::contiguous({kMultiprocessors, h}), DType::fp32);
    Tensor of_input = in_place ? gradients[0] : torch.make(gradients[0].layout, gradients[0].type);
    torch.end_kernel(1);
    Tensor of_weight;
    if (trains) of_weight = to(torch, torch.operate({&parts}, Layout::contiguous({h}), DType::fp32), type);
    return Tensors{of_input, of_weight};
  };
  return Autograd::connected(output, node);
}

Tensor liger_norm(Program& p, const NormCall& call) {
  const NormForm form = call.form;
  // Gemma 2 and 3 norm branches.
  const bool in_place = form != NormForm::one_more || p.names().norm_behind_attention.empty();
  const bool known = form == NormForm::narrow || form == NormForm::wide || form == NormForm::one_more;
  return known ? liger_rms_norm(p, call.weight.tensor, call.x, in_place) : norm_of_transformers(p, call);
}

/// Turns queries and keys where they lie, and so their gradients.
void liger_rotate(Program& p, Heads& heads) {
  if (p.operators().rotary != Rotary::llama) return rotate_as_transformers(p, heads);
  Autograd& torch = p.torch;
  const auto node = torch.node({&heads.query, &heads.key});
  Tensor query = laid_out_by_tokens(torch, heads.query), key = laid_out_by_tokens(torch, heads.key);
  torch.change(query), torch.change(key);
  if (node) {
    Saved cosines = torch.save(p.given.cosines), sines = torch.save(p.given.sines);
    node->backward = [&torch, cosines, sines](Tensors& gradients) {
      const Tensor first = cosines.get(), second = sines.get();
      Tensor of_query = laid_out_by_tokens(torch, gradients[0]);
      Tensor of_key = laid_out_by_tokens(torch, gradients[1]);
      torch.change(of_query), torch.change(of_key);
      return Tensors{std::move(of_query), std::move(of_key)};
    };
    torch.connect(query, node, 0), torch.connect(key, node, 1);
  }
  heads.query = std::move(query), heads.key = std::move(key);
}

/// silu(gate) · up: keeps both, and writes their gradients over them.
Tensor liger_silu_mul(Program& p, const Tensor& gate, const Tensor& up) {
  Autograd& torch = p.torch;
  const auto node = torch.node({&gate, &up});
  Tensor product = torch.make(Layout::contiguous(gate.layout.sizes), gate.type);
  torch.end_kernel(1);
  if (!node) return product;
  Saved first = torch.save(gate), second = torch.save(up);
  node->backward = [&torch, first, second](Tensors& gradients) {
    const Tensor of_gate = first.get(), of_up = second.get();
    torch.change(of_gate, &gradients[0]), torch.change(of_up);
    return Tensors{of_gate, of_up};
  };
  return Autograd::connected(product, node);
}

Tensor liger_feed_forward(Program& p, const Parameters& of, const Tensor& x) {
  const ModelShape& shape = p.shape();
  const Operators& operators = p.operators();
  if (shape.fused_gate_up || !shape.gated_mlp || operators.gates_by_second ||
      operators.activation != Activation::silu)
    return feed_forward_of_transformers(p, of, x);
  const auto inner = of.linears(TensorRole::mlp, TensorParallelSplit::column);
  Tensor product;
  {
    const Tensor gate = linear_layer(p, of, *inner[0], x);
    const Tensor up = linear_layer(p, of, *inner[1], x);
    product = liger_silu_mul(p, gate, up);
  }
  return linear_layer(p, of, *of.linears(TensorRole::mlp, TensorParallelSplit::row)[0], product);
}

}  // namespace

}  // namespace symbolic

const ModuleSet kLiger{.kernels = {.name = "liger",
                                   .owner = "Liger",
                                   .norm = symbolic::liger_norm,
                                   .rotation = symbolic::liger_rotate,
                                   .feed_forward = symbolic::liger_feed_forward}};

}  // namespace zplan
