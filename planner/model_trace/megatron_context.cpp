#include "planner/model_trace/megatron_context.h"

#include <utility>

#include "planner/model_trace/operators.h"

namespace zplan::symbolic {

namespace {

const MegatronOptions& options_of(const Program& p) { return *p.strategy.megatron; }

/// Keys and values of a rank, as they are passed on in one message.
Bytes keys_and_values(const Program& p) { return Bytes(4) * p.sizes.tokens() * p.sizes.k * p.sizes.d; }

bool has_ring(const Program& p) { return context_exchange(p) == ContextExchange::a2a_p2p; }

void pass_keys(Program& p, std::int64_t times, std::int64_t parts) {
  const TensorCall call = has_ring(p) ? TensorCall::keys_between_parts : TensorCall::passed_keys;
  for (std::int64_t i = 0; i < times; ++i) p.torch.recorder().communicate(call, keys_and_values(p) * parts);
}

/// Exchanges heads for tokens: a copy in the order of ranks, the exchange, a copy in the order of tokens. The
/// way back has the same three. Copies of the inputs live until all of them are through.
Tensors exchanged_heads(Program& p, const Tensors& inputs, TensorCall call) {
  Autograd& torch = p.torch;
  Tensors copies, results;
  for (const Tensor& each : inputs) {
    const Layout layout = Layout::contiguous(each.layout.sizes);
    copies.push_back(torch.operate({&each}, layout, each.type));
    const Tensor arrived = fresh(torch, each.layout.sizes, each.type);
    torch.drop_kernel();
    torch.recorder().communicate(call, arrived.bytes());
    results.push_back(torch.operate({&arrived}, layout, each.type));
  }
  return results;
}

/// Keys or values of all ranks, put in the order of tokens.
Tensor keys_of_all(Program& p, const Tensor& own) {
  Dimensions sizes = own.layout.sizes;
  sizes[1] *= p.strategy.layout.context;
  const Tensor all = fresh(p.torch, sizes, own.type);
  p.torch.drop_kernel();
  p.torch.recorder().communicate(TensorCall::gathered_context, all.bytes());
  return p.torch.operate({&all}, Layout::contiguous(sizes), own.type);
}

/// Gradients of keys or values of all ranks' tokens, as the two halves of this rank's queries make them: half
/// r of 2·ranks sees r + 1 parts of the tokens, the other one 2·ranks − r.
Tensors halves_of(Program& p, const Tensor& whole) {
  const std::int64_t parts = 2 * p.strategy.layout.context, part = whole.elements() / parts;
  const std::int64_t first = p.context_rank + 1;
  return {fresh(p.torch, {part * first}, whole.type),
          fresh(p.torch, {part * (parts + 1 - first)}, whole.type)};
}

/// Sums ranks' gradients of keys or values; each gets those of its own tokens.
Tensor own_key_gradients(Program& p, Tensor all, const Dimensions& own) {
  all = p.torch.operate({&all}, all.layout, all.type);
  Tensor result = fresh(p.torch, own, all.type);
  p.torch.drop_kernel();
  p.torch.recorder().communicate(TensorCall::scattered_keys, all.bytes());
  return result;
}

}  // namespace

Flops attention_work(const Program& p, std::int64_t features) {
  const auto of = [](std::int64_t n) { return static_cast<double>(n); };
  const double keys = of(p.sizes.s) * of(p.strategy.layout.context);
  return Flops(of(p.sizes.b) * of(p.sizes.a) * of(p.sizes.s) * keys * of(features));
}

ContextExchange context_exchange(const Program& p) {
  if (p.exchanges.empty()) return options_of(p).context_exchanges.front();
  return p.exchanges[std::min(p.sublayer, p.exchanges.size() - 1)];
}

void pass_forward(Program& p, std::int64_t ranks) { pass_keys(p, ranks - 1, 1); }

void pass_backward(Program& p, std::int64_t ranks) {
  if (ranks == 1) return;
  pass_keys(p, 1, 1);
  pass_keys(p, ranks - 2, 2);
  pass_keys(p, 1, 1);
}

Tensor attention_with_all_heads(Program& p, const Tensor& q, const Tensor& k, const Tensor& v) {
  Autograd& torch = p.torch;
  const auto node = torch.node({&q, &k, &v});
  const std::int64_t ring = has_ring(p) ? options_of(p).context_hierarchy.back() : 1;
  const TensorCall call = has_ring(p) ? TensorCall::heads_within_part : TensorCall::exchanged_heads;
  Tensors all = exchanged_heads(p, {q, k, v}, call);
  const Tensor own = fresh(torch, q.layout.sizes, q.type);
  const Tensor statistics = fresh(torch, {p.sizes.b, p.sizes.a, p.sizes.s}, DType::fp32);
  torch.attend(attention_work(p, 2 * p.sizes.d), false);
  pass_forward(p, ring);
  Tensor result = exchanged_heads(p, {own}, call).front();
  if (!node) return result;
  node->backward = [&p, &torch, call, ring, kept_q = torch.save(all[0]), kept_k = torch.save(all[1]),
                    kept_v = torch.save(all[2]), kept = torch.save(own), sums = torch.save(statistics),
                    work = attention_work(p, 2 * p.sizes.d)](Tensors& gradients) {
    const Tensor query = kept_q.get(), key = kept_k.get(), value = kept_v.get(), held = kept.get(),
                 held_sums = sums.get();
    const Tensor arrived = exchanged_heads(p, {gradients[0]}, call).front();
    Tensors made;
    for (const Tensor& each : {query, key, value})
      made.push_back(fresh(torch, each.layout.sizes, arrived.type));
    torch.attend(work * 2.5, true);
    pass_backward(p, ring);
    return exchanged_heads(p, made, call);
  };
  return Autograd::connected(std::move(result), node);
}

Tensor attention_with_all_keys(Program& p, const Tensor& q, const Tensor& k, const Tensor& v) {
  Autograd& torch = p.torch;
  const auto node = torch.node({&q, &k, &v});
  const Tensor value = contiguous(torch, v);
  Tensor result;
  const Tensor statistics = fresh(torch, {p.sizes.b, p.sizes.a, p.sizes.s}, DType::fp32);
  {
    const Tensor keys = keys_of_all(p, k), values = keys_of_all(p, value);
    result = fresh(torch, q.layout.sizes, q.type);
    const Tensor zeros = fresh(torch, q.layout.sizes, q.type), halves = fresh(torch, q.layout.sizes, q.type);
    torch.attend(attention_work(p, 2 * p.sizes.d), false);
  }
  if (!node) return result;
  node->backward = [&p, &torch, kept_q = torch.save(q), kept_k = torch.save(k), kept_v = torch.save(value),
                    kept = torch.save(result), sums = torch.save(statistics),
                    work = attention_work(p, 2 * p.sizes.d)](Tensors& gradients) {
    const Tensor query = kept_q.get(), key = kept_k.get(), held_v = kept_v.get(), held = kept.get(),
                 held_sums = sums.get();
    const DType type = gradients[0].type;
    Dimensions whole = key.layout.sizes;
    whole[1] *= p.strategy.layout.context;
    Tensors outputs(3);
    outputs[0] = fresh(torch, query.layout.sizes, type);
    Tensor key_sums = fresh(torch, whole, type), value_sums = fresh(torch, whole, type);
    const Tensor keys = keys_of_all(p, key), values = keys_of_all(p, held_v);
    const Tensor query_halves = fresh(torch, query.layout.sizes, type);
    const Tensors key_halves = halves_of(p, key_sums), value_halves = halves_of(p, value_sums);
    torch.attend(work * 2.5, true);
    outputs[1] = own_key_gradients(p, std::move(key_sums), key.layout.sizes);
    outputs[2] = own_key_gradients(p, std::move(value_sums), held_v.layout.sizes);
    return outputs;
  };
  return Autograd::connected(std::move(result), node);
}

}  // namespace zplan::symbolic
