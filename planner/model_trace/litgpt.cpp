// litgpt's modules: one product for queries, keys and values, and adapters on slices of it.
// Source: litgpt 0.5 finetune/lora.py, model.py, pyproject.toml (bitsandbytes 0.42); Lightning 2.4
// fabric/plugins/precision/half.py convert_output, bitsandbytes.py (every nn.Linear; quantize packs from
// torch.half); of a slice's soft cap litgpt 0.4.12 lora.py GPT.forward.

#include <array>
#include <vector>

#include "planner/model_trace/attention.h"
#include "planner/model_trace/program.h"

namespace zplan {

namespace symbolic {

namespace {

/// The adapter of one of the three, on its slice of the product.
struct SliceAdapter {
  const Parameter *down{}, *up{};
};

std::vector<SliceAdapter> slice_adapters(const Parameters& of) {
  std::vector<SliceAdapter> found;
  for (const char letter : {'q', 'k', 'v'}) {
    const std::string module = std::string(1, letter) + "_proj";
    const Parameter* down = of.find(module + ".lora_A.default.weight");
    if (down != nullptr) found.push_back({down, of.find(module + ".lora_B.default.weight")});
  }
  return found;
}

/// Queries, keys and values of all heads in one memory.
Tensor joint_product(Program& p, const Parameters& of, const Tensor& x) {
  const std::array weights{&projection(of, 'q'), &projection(of, 'k'), &projection(of, 'v')};
  std::int64_t width = 0;
  for (const Parameter* each : weights) width += each->tensor.size(0);
  if (p.training.method == Method::qlora && is_nf4(p.training.quantization)) {
    const bool biased = of.find("q_proj.bias") != nullptr;
    return packed_joint_linear(p, x, *weights[0], width, biased);
  }
  if (p.training.method == Method::qlora) {
    Tensors parts;
    for (const Parameter* each : weights) parts.push_back(base_linear_layer(p, of, *each, x));
    return cat(p.torch, parts, 2);
  }
  std::vector<const Tensor*> inputs{&x};
  for (const Parameter* each : weights) inputs.push_back(&each->tensor);
  const auto node = p.torch.node(inputs);
  Tensor result = p.torch.make(Layout::contiguous({p.sizes.b, p.sizes.s, width}), x.type);
  const std::int64_t tokens = p.sizes.tokens(), in = x.layout.sizes.back();
  p.torch.compute(product_of(tokens, in, width, x.type));
  if (!node) return result;
  const bool trains = weights[0]->tensor.requires_gradient;
  std::vector<Tensor> shapes;
  for (const Tensor* each : inputs) shapes.push_back(each->detached()), shapes.back().storage.reset();
  node->backward = [&torch = p.torch, trains, needs = x.requires_gradient, shapes = std::move(shapes),
                    kept = trains ? p.torch.save(x) : Saved{}, tokens, in, width](Tensors&) {
    Tensors gradients(shapes.size());
    const auto make = [&](std::size_t i) { return torch.make(shapes[i].layout, shapes[i].type); };
    if (needs) gradients[0] = make(0);
    for (std::size_t i = 1; trains && i < shapes.size(); ++i) gradients[i] = make(i);
    if (needs) torch.compute(product_of(tokens, width, in, shapes[0].type));
    if (trains) torch.compute(product_of(in, tokens, width, shapes[0].type));
    return gradients;
  };
  return Autograd::connected(result, node);
}

/// Zeros with the adapted slices copied in. Keeps what was copied.
Tensor padded_with_zeros(Program& p, const Tensor& slices, std::int64_t width) {
  const auto node = p.torch.node({&slices});
  Tensor result = p.torch.kernel({}, Layout::contiguous({p.sizes.b, p.sizes.s, width}), slices.type);
  p.torch.copy(slices);
  if (!node) return result;
  node->backward = [&torch = p.torch, kept = p.torch.save(slices)](Tensors& gradients) {
    const Tensor held = kept.get();
    return Tensors{torch.make(Layout::contiguous(held.layout.sizes), gradients[0].type)};
  };
  return Autograd::connected(result, node);
}

/// Adapters of slices: one dropout for all. Source: litgpt 0.5 lora.py LoRAQKVLinear.forward.
Tensor low_rank_slices(Program& p, const std::vector<SliceAdapter>& adapters, const Tensor& x,
                       std::int64_t width) {
  Tensor slices;
  {
    const Tensor dropped = p.training.lora_dropout > 0 ? dropout(p.torch, x) : x;
    Tensors parts;
    for (const SliceAdapter& each : adapters) {
      const Tensor down = linear(p.torch, dropped, each.down->tensor);
      parts.push_back(linear(p.torch, down, each.up->tensor));
    }
    slices = parts.size() > 1 ? cat(p.torch, parts, 2) : parts[0];
  }
  if (adapters.size() < 3) slices = padded_with_zeros(p, slices, width);
  return scale(p.torch, slices);
}

/// Every head of keys and values once per query that shares it, in memory of its own.
Tensor expanded(Program& p, const Tensor& x) {
  const std::int64_t groups = p.sizes.k, each = p.sizes.a / p.sizes.k;
  const Tensor wide = expand(p.torch, x, {p.sizes.b, groups, each, p.sizes.s, p.sizes.d});
  return reshape(p.torch, wide, {p.sizes.b, p.sizes.a, p.sizes.s, p.sizes.d});
}

/// By groups of heads that share keys and values. Source: litgpt 0.5 model.py CausalSelfAttention.forward.
Heads litgpt_projections(Program& p, const Parameters& of, const Tensor& x) {
  Tensor both = joint_product(p, of, x);
  const std::int64_t width = both.layout.sizes.back();
  if (const auto adapters = slice_adapters(of); !adapters.empty())
    both = add(p.torch, both, low_rank_slices(p, adapters, x, width));
  const std::int64_t groups = p.sizes.k, share = p.sizes.a / groups;
  const Tensor grouped = transpose(
      p.torch,
      transpose(p.torch, view(p.torch, both, {p.sizes.b, p.sizes.s, groups, share + 2, p.sizes.d}), 1, 2), 2,
      3);
  const Tensors parts = split(p.torch, grouped, 2, {share, 1, 1});
  const bool repeats = share > 1;
  Heads heads;
  heads.query = reshape(p.torch, parts[0], {p.sizes.b, p.sizes.a, p.sizes.s, p.sizes.d});
  for (Tensor* each : {&heads.key, &heads.value}) {
    const Tensor& part = parts[each == &heads.key ? 1 : 2];
    *each =
        repeats ? expanded(p, part) : reshape(p.torch, part, {p.sizes.b, p.sizes.a, p.sizes.s, p.sizes.d});
  }
  norm_queries_and_keys(p, of, heads);
  return heads;
}

}  // namespace

}  // namespace symbolic

const ModuleSet kLitgpt{.name = "litgpt",
                        .projections = symbolic::litgpt_projections,
                        .runs_llama_blocks = true,
                        .fused_gelu = true,
                        .fused_loss_brings = false,
                        .packed_keeps_input = true,
                        .packs_head = true,
                        .unpacks_to_half = true,
                        .widens_logits = true,
                        .caps_whole_logits = true,
                        .keeps_outputs = true};

}  // namespace zplan
