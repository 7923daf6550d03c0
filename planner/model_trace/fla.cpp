// flash-linear-attention's kernel of the gated delta rule.

#include "planner/model_trace/fla.h"

#include <array>
#include <utility>

#include "planner/model_trace/operators.h"
#include "planner/model_trace/program.h"

namespace zplan {

namespace symbolic {

namespace {

/// FlaSaved is what the function saves: normalised queries and keys with their reciprocal norms, values,
/// summed decays, β, and each chunk's solved system.
struct FlaSaved {
  Saved query, query_root, key, key_root, value, sums, beta, system;
};

void compute_chunks(Autograd& torch, const DeltaRuleSizes& k, std::int64_t times) {
  const std::int64_t batch = k.b * k.heads * k.chunks() * times;
  for (const std::int64_t width : {k.key, k.value}) {
    torch.compute(product_of(kDeltaChunk, k.key, kDeltaChunk, DType::bf16, batch));
    torch.compute(product_of(kDeltaChunk, kDeltaChunk, width, DType::bf16, batch));
    torch.compute(product_of(kDeltaChunk, k.key, k.value, DType::bf16, batch));
  }
}

/// Solved system times keys and values, the states before each chunk and the new values.
struct Rebuilt {
  Tensor keys, values, states, made;
};

Rebuilt rebuild(Autograd& torch, const DeltaRuleSizes& k, DType type) {
  Rebuilt made;
  made.keys = fresh(torch, {k.b, k.s, k.heads, k.key}, type);
  made.values = fresh(torch, {k.b, k.s, k.heads, k.value}, type);
  made.states = fresh(torch, {k.b, k.chunks(), k.heads, k.key, k.value}, type);
  made.made = fresh(torch, {k.b, k.s, k.heads, k.value}, type);
  return made;
}

/// A gradient of each value head's keys, summed over those that share a key.
Tensor of_key_heads(Autograd& torch, const DeltaRuleSizes& k, Tensor& each) {
  if (k.key_heads == k.heads) return std::exchange(each, {});
  return fresh(torch, {k.b, k.s, k.key_heads, k.key}, each.type);
}

/// Gradients of queries, keys, values, decays and β.
Tensors fused_backward(Autograd& torch, const DeltaRuleSizes& k, DType type) {
  const Dimensions scalars{k.b, k.s, k.heads}, keys{k.b, k.s, k.heads, k.key},
      values{k.b, k.s, k.heads, k.value};
  constexpr std::int64_t kTile = 128;
  Tensors outputs(5);
  Tensor query, key;
  {
    const Rebuilt again = rebuild(torch, k, type);
    Tensor of_values = fresh(torch, values, type);
    const Tensor of_states = fresh(torch, again.states.layout.sizes, type);
    Tensor of_made = fresh(torch, values, type);
    of_values.reset();
    Tensor wide_query = fresh(torch, keys, type), wide_key = fresh(torch, keys, type);
    Tensor partial = fresh(torch, {divide_up(k.key, kTile), k.b, k.s, k.heads}, DType::fp32);
    const Tensor of_keys = fresh(torch, keys, type);
    query = of_key_heads(torch, k, wide_query), wide_query.reset();
    key = of_key_heads(torch, k, wide_key), wide_key.reset();
    Tensor decay = fresh(torch, scalars, DType::fp32);
    partial.reset();
    Tensor more = fresh(torch, keys, type);
    outputs[2] = fresh(torch, values, type);
    const Tensor more_decay = fresh(torch, scalars, DType::fp32);
    outputs[4] = fresh(torch, scalars, type);
    const Tensor more_key = of_key_heads(torch, k, more);
    more.reset(), of_made.reset();
    outputs[3] = fresh(torch, scalars, DType::fp32);
    decay.reset();
    compute_chunks(torch, k, 3);
  }
  if (!k.norms_inside) {
    outputs[0] = std::move(query), outputs[1] = std::move(key);
    return outputs;
  }
  const Dimensions own{k.b, k.s, k.key_heads, k.key};
  outputs[0] = fresh(torch, own, type), query.reset();
  outputs[1] = fresh(torch, own, type), key.reset();
  return outputs;
}

Saved save_defined(Autograd& torch, const Tensor& x) { return x.defined() ? torch.save(x) : Saved{}; }

Tensor in_memory_order(Autograd& torch, const Tensor& x) {
  return x.layout.is_contiguous() ? x : fresh(torch, x.layout.sizes, x.type);
}

}  // namespace

Tensor fla_delta_rule(Autograd& torch, const DeltaRuleSizes& k, const DeltaRuleInputs& own) {
  const DType type = own.query.type;
  const auto node = torch.node({&own.query, &own.key, &own.value, &own.decay, &own.beta});
  Tensor output;
  FlaSaved kept;
  {
    const Tensor query = in_memory_order(torch, own.query), key = in_memory_order(torch, own.key);
    const Tensor value = in_memory_order(torch, own.value);
    const Dimensions rows{k.b, k.s, k.key_heads};
    const auto made = [&](const Dimensions& sizes, DType of) {
      return k.norms_inside ? fresh(torch, sizes, of) : Tensor{};
    };
    const Tensor unit_query = k.norms_inside ? fresh(torch, query.layout.sizes, type) : query;
    const Tensor query_root = made(rows, DType::fp32);
    const Tensor unit_key = k.norms_inside ? fresh(torch, key.layout.sizes, type) : key;
    const Tensor key_root = made(rows, DType::fp32);
    const Tensor sums = fresh(torch, own.decay.layout.sizes, DType::fp32);
    const Tensor system = fresh(torch, {k.b, k.s, k.heads, kDeltaChunk}, type);
    {
      const Rebuilt inner = rebuild(torch, k, type);
      output = fresh(torch, {k.b, k.s, k.heads, k.value}, type);
      compute_chunks(torch, k, 1);
    }
    if (node)
      kept = {torch.save(unit_query), save_defined(torch, query_root),
              torch.save(unit_key),   save_defined(torch, key_root),
              torch.save(value),      torch.save(sums),
              torch.save(own.beta),   torch.save(system)};
  }
  if (!node) return output;
  node->backward = [&torch, kept, k, type](Tensors&) {
    const auto root = [&](const Saved& of) { return k.norms_inside ? of.get() : Tensor{}; };
    const std::array held{kept.query.get(), root(kept.query_root), kept.key.get(),  root(kept.key_root),
                          kept.value.get(), kept.sums.get(),       kept.beta.get(), kept.system.get()};
    return fused_backward(torch, k, type);
  };
  return Autograd::connected(output, node);
}

namespace {

/// Records the rule of transformers' layer, whose kernel normalises queries and keys.
Tensor delta_rule_of_fla(Program& p, const DeltaRuleInputs& own) {
  const DeltaNet& net = *p.shape().delta_net;
  return fla_delta_rule(p.torch,
                        {.b = p.sizes.b,
                         .s = p.sizes.s,
                         .key_heads = net.key_heads,
                         .heads = net.value_heads,
                         .key = net.key_head_size,
                         .value = net.value_head_size},
                        own);
}

}  // namespace

}  // namespace symbolic

const ModuleSet kFla{
    .kernels = {.name = "fla", .owner = "flash-linear-attention", .delta_rule = symbolic::delta_rule_of_fla}};

}  // namespace zplan
