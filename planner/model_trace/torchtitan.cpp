// torchtitan's Decoder on plain local tensors (its backend "spmd_types"): fused projections, rotations in
// fp32, RMSNorm and attention as one kernel each, a loss in slices of the sequence.
// Source: torchtitan 0.3.0 models/common/{decoder,attention,feed_forward,rope,embedding,decoder_sharding}.py,
// components/loss.py; spmd_types 0.2.3 _collectives.py; compared with recorded steps (docs/torchtitan.md).

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "planner/model_trace/megatron_context.h"
#include "planner/model_trace/torchtitan_layers.h"

namespace zplan {

namespace symbolic {

namespace titan {

// ---- exchanges of tensor-parallel ranks -------------------------------------------------------------------

// Ranks' tokens are gathered rank by rank, then joined along the sequence.
Tensor gathered(Program& p, const Tensor& x) {
  const Tensor own = contiguous(p.torch, x);
  Dimensions sizes = own.layout.sizes;
  sizes[1] *= p.strategy.layout.tensor;
  const Tensor by_rank = fresh(p.torch, sizes, own.type);
  p.torch.drop_kernel();
  p.torch.recorder().communicate(TensorCall::gathered_tokens, by_rank.bytes());
  return p.torch.operate({&by_rank}, Layout::contiguous(sizes), own.type);
}

namespace {

/// True if DTensors divide the gradients of hidden states where these are whole: between layers a gradient is
/// then a part of the tokens', which is gathered in front of a layer. Its memory is counted as whole.
bool divides_gradients(const Program& p) {
  return options(p).backend == SpmdBackend::full_dtensor && !divides_tokens(p);
}

/// Sums of ranks' partial results, of which this rank gets its tokens'. Tokens come first where they are
/// exchanged, so that several samples are copied.
Tensor scattered(Program& p, const Tensor& x) {
  const Tensor ordered = x.size(0) > 1 ? contiguous(p.torch, transpose(p.torch, x, 0, 1)) : x;
  Dimensions sizes = x.layout.sizes;
  sizes[1] /= p.sizes.u;
  const auto scatter = [&] {
    Tensor own = fresh(p.torch, sizes, x.type);
    p.torch.drop_kernel();
    p.torch.recorder().communicate(TensorCall::scattered_tokens, ordered.bytes());
    return own;
  };
  // Selective checkpointing keeps what DTensor's exchange returns.
  return options(p).backend == SpmdBackend::spmd_types ? scatter() : p.torch.expensive(scatter);
}

}  // namespace

Tensor summed(Program& p, const Tensor& x, TensorCall call) {
  const Tensor result = p.torch.operate({&x}, Layout::contiguous(x.layout.sizes), x.type);
  p.torch.recorder().communicate(call, result.bytes());
  return result;
}

Tensor column_input(Program& p, const Tensor& x) {
  if (!divides_tensors(p)) return x;
  const auto node = p.torch.node({&x});
  Tensor all = divides_tokens(p) ? gathered(p, x) : x.detached();
  if (!node) return all;
  node->backward = [&p](Tensors& gradients) {
    if (divides_tokens(p)) return Tensors{scattered(p, gradients[0])};
    return Tensors{summed(p, gradients[0],
                          divides_gradients(p) ? TensorCall::scattered_tokens : TensorCall::column_input)};
  };
  return Autograd::connected(std::move(all), node);
}

Tensor row_output(Program& p, const Tensor& partial, TensorCall call) {
  if (!divides_tensors(p)) return partial;
  const auto node = p.torch.node({&partial});
  Tensor own = divides_tokens(p) ? scattered(p, partial) : summed(p, partial, call);
  if (!node) return own;
  node->backward = [&p](Tensors& gradients) {
    if (divides_gradients(p)) return Tensors{summed(p, gradients[0], TensorCall::gathered_tokens)};
    return Tensors{divides_tokens(p) ? gathered(p, gradients[0]) : gradients[0]};
  };
  return Autograd::connected(std::move(own), node);
}

// ---- layers -----------------------------------------------------------------------------------------------

namespace {

const Parameter& weight_of(const Parameters& of, const std::string& module) {
  return of.get(module + ".weight");
}

}  // namespace

Tensor project(Program& p, const Parameters& of, const std::string& module, const Tensor& x) {
  return plain_linear(p.torch, x, weight_of(of, module).tensor);
}

// torch.nn.functional.rms_norm.
Tensor rms_norm(Program& p, const Parameters& of, const std::string& module, const Tensor& x) {
  Autograd& torch = p.torch;
  const Tensor& weight = weight_of(of, module).tensor;
  const auto node = torch.node({&x, &weight});
  Tensor result, roots;
  {
    const Tensor dense = contiguous(torch, x.detached());
    result = fresh(torch, x.layout.sizes, x.type);
    roots = fresh(torch, with_last(x.layout.sizes, 1), DType::fp32);
  }
  torch.end_kernel(1);
  if (!node) return result;
  node->backward = [&torch, &itself = *node, kept = torch.save(x), kept_roots = torch.save(roots),
                    size = weight.layout.sizes](Tensors& gradients) {
    const Tensor held = kept.get(), held_roots = kept_roots.get();
    const Tensor incoming = contiguous(torch, gradients[0]), dense = contiguous(torch, held);
    Tensors outputs(2);
    if (itself.needs(0)) outputs[0] = fresh(torch, held.layout.sizes, incoming.type);
    if (itself.needs(1)) outputs[1] = fresh(torch, size, incoming.type);
    torch.end_kernel(itself.needs(0) && itself.needs(1) ? 2 : 1);
    return outputs;
  };
  return Autograd::connected(result, node);
}

namespace {

/// The rows of a layer's table of rotations for the tokens' positions.
Tensor rotation_rows(Program& p, std::int64_t features) {
  return p.torch.operate({}, Layout::contiguous({p.sizes.b, p.sizes.s, 1, features}), DType::fp32);
}

}  // namespace

Tensors rotated_by_complex_numbers(Program& p, const Tensors& heads) {
  const Tensor rows = rotation_rows(p, heads.front().layout.sizes.back());
  Tensors wide, turned, narrow;
  for (const Tensor& each : heads) wide.push_back(to(p.torch, each, DType::fp32));
  for (const Tensor& each : wide) turned.push_back(multiply_complex(p.torch, each, rows));
  for (std::size_t i = 0; i < heads.size(); ++i) narrow.push_back(to(p.torch, turned[i], heads[i].type));
  return narrow;
}

namespace {

/// x·cos + rotate_half(x)·sin.
Tensor turned_by_halves(Program& p, const Tensor& wide, const Tensor& cosines, const Tensor& sines) {
  const std::int64_t half = p.sizes.d / 2;
  const Tensor product = mul(p.torch, wide, cosines);
  Tensor turned;
  {
    const Tensors parts = split(p.torch, wide, 3, {half, half});
    const Tensor negative = neg(p.torch, parts[1]);
    turned = cat(p.torch, {negative, parts[0]}, 3);
  }
  turned = mul(p.torch, turned, sines);
  return add(p.torch, product, turned);
}

void rotate_by_halves(Program& p, Tensor& query, Tensor& key) {
  const std::int64_t d = p.sizes.d;
  const Tensor rows = rotation_rows(p, 2 * d);
  const Tensors parts = split(p.torch, rows, 3, {d, d});
  const Tensor wide_query = to(p.torch, query, DType::fp32), wide_key = to(p.torch, key, DType::fp32);
  const Tensor turned_query = turned_by_halves(p, wide_query, parts[0], parts[1]);
  const Tensor turned_key = turned_by_halves(p, wide_key, parts[0], parts[1]);
  query = to(p.torch, turned_query, query.type), key = to(p.torch, turned_key, key.type);
}

/// FlashAttention over the samples' tokens, one behind the other. Source: torch 2.14 nn/attention/varlen.py;
/// flash-attention csrc/flash_attn/flash_api.cpp mha_varlen_fwd, mha_varlen_bwd.
class VarlenAttention {
 public:
  explicit VarlenAttention(Program& p)
      : p_(p),
        torch_(p.torch),
        width_(p.sizes.d <= 128 ? (p.sizes.d + 31) / 32 * 32 : (p.sizes.d + 63) / 64 * 64) {}

  Tensor forward(const Tensor& q, const Tensor& k, const Tensor& v) {
    const auto node = torch_.node({&q, &k, &v});
    const Flops work = attention_work(p_, 2 * p_.sizes.d);
    Tensor result = torch_.expensive([&] {
      torch_.attend(work, false);
      return fresh(torch_, q.layout.sizes, q.type);
    });
    const Tensor sums = torch_.expensive([&] {
      return fresh(torch_, {p_.sizes.a, p_.sizes.tokens()}, DType::fp32);
    });
    const Tensor seeds = torch_.expensive([&] { return fresh(torch_, {2}, DType::int64); });
    torch_.drop_kernel();
    if (!node) return result;
    node->backward = [self = *this, work, query = torch_.save(q), key = torch_.save(k),
                      value = torch_.save(v), output = torch_.save(result), kept = torch_.save(sums),
                      kept_seeds = torch_.save(seeds)](Tensors& gradients) {
      const Tensor held_q = query.get(), held_k = key.get(), held_v = value.get(), held = output.get(),
                   held_sums = kept.get(), held_seeds = kept_seeds.get();
      return self.backward(held_q, held_k, held_v, gradients[0], work);
    };
    return Autograd::connected(result, node);
  }

 private:
  Tensors backward(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& gradient,
                   const Flops& work) const {
    const Tensor incoming = contiguous(torch_, gradient);
    Tensors outputs{fresh(torch_, q.layout.sizes, q.type), fresh(torch_, k.layout.sizes, k.type),
                    fresh(torch_, v.layout.sizes, v.type)};
    const std::int64_t padded = p_.sizes.tokens() + 128 * p_.sizes.b;
    torch_.attend(work * 2.5, true);
    const Tensor delta = fresh(torch_, {p_.sizes.a, padded}, DType::fp32);
    const Tensor accumulated = fresh(torch_, {padded, p_.sizes.a, width_}, DType::fp32);
    torch_.drop_kernel();
    if (p_.sizes.k == p_.sizes.a) return outputs;
    // Gradients of all heads' keys and values: those of heads that share one are summed.
    const Tensor keys = fresh(torch_, q.layout.sizes, q.type), values = fresh(torch_, q.layout.sizes, q.type);
    torch_.read_only(keys.bytes() * 2);
    torch_.write_only(k.bytes() * 2);
    return outputs;
  }

  Program& p_;
  Autograd& torch_;
  std::int64_t width_;  ///< of a head in the kernel's sums
};

/// Keys or values of all ranks that divide a sample's tokens; their gradient is summed.
Tensor of_all_tokens(Program& p, const Tensor& own) {
  const std::int64_t ranks = p.strategy.layout.context;
  if (ranks == 1) return own;
  Autograd& torch = p.torch;
  Dimensions sizes = own.layout.sizes;
  sizes[1] *= ranks;
  const auto node = torch.node({&own});
  Tensor all;
  {
    const Tensor by_rank = fresh(torch, sizes, own.type);
    torch.drop_kernel();
    torch.recorder().communicate(TensorCall::gathered_context, by_rank.bytes());
    all = torch.operate({&by_rank}, Layout::contiguous(sizes), own.type);
  }
  if (!node) return all;
  node->backward = [&torch, sizes = own.layout.sizes](Tensors& gradients) {
    const Tensor ordered = contiguous(torch, transpose(torch, gradients[0], 0, 1));
    Tensor part = fresh(torch, sizes, ordered.type);
    torch.drop_kernel();
    torch.recorder().communicate(TensorCall::scattered_keys, ordered.bytes());
    return Tensors{part};
  };
  return Autograd::connected(std::move(all), node);
}

/// FlexAttention as Inductor compiles it. Of a compiled region selective checkpointing keeps all that its
/// backward reads, queries, keys and values, too. Source: torchtitan 0.3.0 models/common/attention.py
/// FlexAttention.
Tensor flex_attention(Program& p, const Tensor& given_q, const Tensor& given_k, const Tensor& given_v) {
  Autograd& torch = p.torch;
  const auto node = torch.node({&given_q, &given_k, &given_v});
  const std::int64_t width = given_v.layout.sizes.back();
  const Flops work = attention_work(p, given_q.layout.sizes.back() + width);
  const auto kept = [&torch](const Tensor& x) { return torch.expensive([&x] { return x; }).detached(); };
  const Tensor q = kept(given_q), k = kept(given_k), v = kept(given_v);
  Tensor result = torch.expensive([&] {
    torch.attend(work, false);
    return fresh(torch, with_last(q.layout.sizes, width), q.type);
  });
  const Tensor sums = torch.expensive([&] {
    return fresh(torch, {p.sizes.a, p.sizes.tokens()}, DType::fp32);
  });
  torch.drop_kernel();
  if (!node) return result;
  node->backward = [&torch, work, query = torch.save(q), key = torch.save(k), value = torch.save(v),
                    output = torch.save(result), logarithms = torch.save(sums)](Tensors& gradients) {
    const Tensor held_q = query.get(), held_k = key.get(), held_v = value.get(), held = output.get(),
                 held_sums = logarithms.get();
    const Tensor delta = torch.operate({&gradients[0], &held}, held_sums.layout, DType::fp32);
    Tensors outputs{fresh(torch, held_q.layout.sizes, held_q.type),
                    fresh(torch, held_k.layout.sizes, held_k.type),
                    fresh(torch, held_v.layout.sizes, held_v.type)};
    torch.attend(work * 2.5, true);
    return outputs;
  };
  return Autograd::connected(result, node);
}

}  // namespace

Tensor attend_to_documents(Program& p, const Tensor& q, const Tensor& k, const Tensor& v) {
  if (options(p).attention == TitanAttention::varlen) {
    const auto narrow = [&p](const Tensor& x) { return to(p.torch, x, DType::bf16); };
    const Tensor narrow_q = narrow(q), narrow_k = narrow(k), narrow_v = narrow(v);
    return to(p.torch, VarlenAttention(p).forward(narrow_q, narrow_k, narrow_v), q.type);
  }
  const Tensor keys = of_all_tokens(p, k), values = of_all_tokens(p, v);
  return flex_attention(p, q, keys, values);
}

namespace {

struct Projections {
  Tensor query, key, value;
};

/// Queries, keys and values of one product, each copied into memory of its own.
Projections projections(Program& p, const Parameters& of, const Tensor& x) {
  Autograd& torch = p.torch;
  const Sizes& n = p.sizes;
  const Tensor product = project(p, of, "qkv_linear.wqkv", x);
  const std::int64_t each = n.a / n.k;
  const Tensor grouped = view(torch, product, {n.b, n.s, n.k, each + 2, n.d});
  const Tensors parts = split(torch, grouped, 3, {each, 1, 1});
  const auto own = [&](const Tensor& part, std::int64_t heads) {
    return contiguous(torch, reshape(torch, part, {n.b, n.s, heads, n.d}));
  };
  Projections made;
  made.query = own(parts[0], n.a), made.key = own(parts[1], n.k), made.value = own(parts[2], n.k);
  return made;
}

Tensor self_attention(Program& p, const Parameters& of, const Tensor& normed) {
  Tensor attended;
  {
    const Tensor x = column_input(p, normed);
    Projections heads = projections(p, of, x);
    const bool norms_heads = of.find("attention.k_norm.weight") != nullptr;
    if (norms_heads) {
      heads.query = rms_norm(p, of, "attention.q_norm", heads.query);
      heads.key = rms_norm(p, of, "attention.k_norm", heads.key);
    }
    if (p.operators().rotary != Rotary::none) {
      if (norms_heads) {
        rotate_by_halves(p, heads.query, heads.key);
      } else {
        Tensors turned = rotated_by_complex_numbers(p, {heads.query, heads.key});
        heads.query = std::move(turned[0]), heads.key = std::move(turned[1]);
      }
    }
    attended = attend_to_documents(p, heads.query, heads.key, heads.value);
  }
  const Tensor merged = view(p.torch, attended, {p.sizes.b, p.sizes.s, p.sizes.a * p.sizes.d});
  return row_output(p, project(p, of, "attention.wo", merged), TensorCall::row_output);
}

}  // namespace

Tensor gated_parts(Program& p, const Parameters& of, const std::string& path, const Tensor& x) {
  Tensor gated;
  {
    const Tensor gate = silu(p.torch, project(p, of, path + ".w1", x));
    gated = mul(p.torch, gate, project(p, of, path + ".w3", x));
  }
  return project(p, of, path + ".w2", gated);
}

namespace {

Tensor dense_feed_forward(Program& p, const Parameters& of, const Tensor& normed) {
  const Tensor x = column_input(p, normed);
  return row_output(p, gated_parts(p, of, "feed_forward", x), TensorCall::row_output);
}

Tensor attention_of(Program& p, const Parameters& of, const Tensor& normed) {
  return p.shape().latent_attention ? latent_attention(p, of, normed) : self_attention(p, of, normed);
}

Tensor feed_forward_of(Program& p, const Parameters& of, const Tensor& normed) {
  const bool is_routed = of.find("moe.router.gate.weight") != nullptr;
  return is_routed ? mixture(p, of, normed) : dense_feed_forward(p, of, normed);
}

Tensor titan_layer(Program& p, const Parameters& of, const Tensor& hidden) {
  const Tensor middle = add(p.torch, hidden, attention_of(p, of, rms_norm(p, of, "attention_norm", hidden)));
  return add(p.torch, middle, feed_forward_of(p, of, rms_norm(p, of, "ffn_norm", middle)));
}

// ---- embedding --------------------------------------------------------------------------------------------

/// Rows of tokens that other ranks hold are zero.
Tensor rows_of_part(Program& p, const Tensor& table, const Tensor& ids) {
  Autograd& torch = p.torch;
  const Layout tokens = Layout::contiguous(ids.layout.sizes);
  const Tensor mask = torch.operate({&ids}, tokens, DType::boolean);
  const Tensor own = torch.operate({&ids}, tokens, DType::int64);
  const Tensor rows = embedding(torch, table, own);
  const Tensor factors = torch.operate({&mask}, Layout::contiguous({ids.size(0), ids.size(1), 1}), rows.type);
  return mul(torch, rows, factors);
}

Tensor titan_embedding(Program& p, const Parameters& of) {
  const Tensor& table = weight_of(of, "tok_embeddings").tensor;
  const Tensor ids = of_batch({p.sizes.b, p.sizes.s}, DType::int64);
  if (!divides_tensors(p)) return embedding(p.torch, table, ids);
  return row_output(p, rows_of_part(p, table, ids), TensorCall::split_embedding);
}

void receive_nothing(Program& /*unused*/, bool /*unused*/) {}

// ---- head and loss ----------------------------------------------------------------------------------------

Tensor titan_final_norm(Program& p, const Parameters& of, const Tensor& hidden) {
  return column_input(p, rms_norm(p, of, "norm", hidden));
}

/// The loss of logits whose vocabulary ranks divide. Source: torchtitan 0.3.0 components/loss.py
/// _LossParallelCrossEntropy.
Tensor vocabulary_parallel_loss(Program& p, const Tensor& logits) {
  Autograd& torch = p.torch;
  const std::int64_t tokens = logits.size(0);
  const auto node = torch.node({&logits});
  const Layout all = Layout::contiguous(logits.layout.sizes);
  const auto number = [&](DType type = DType::fp32) {
    return torch.operate({}, Layout::contiguous({tokens, 1}), type);
  };
  const auto sum_over_ranks = [&](const Tensor& own, TensorCall call) {
    Tensor sum = torch.operate({&own}, own.layout, DType::fp32);
    torch.recorder().communicate(call, sum.bytes());
    return sum;
  };
  Tensor logarithms;
  {
    const Tensor largest = sum_over_ranks(
        torch.operate({&logits}, Layout::contiguous({tokens, 1}), DType::fp32), TensorCall::token_maxima);
    const Tensor shifted = torch.operate({&logits, &largest}, all, DType::fp32);
    Tensor sums;
    {
      const Tensor exponentials = torch.operate({&shifted}, all, DType::fp32);
      sums = torch.operate({&exponentials}, Layout::contiguous({tokens, 1}), DType::fp32);
    }
    sums = sum_over_ranks(sums, TensorCall::token_sums);
    logarithms = torch.operate({&shifted, &sums}, all, DType::fp32);
  }
  const Tensor places = number(DType::int64), outside = number(DType::boolean);
  const Tensor chosen = sum_over_ranks(number(), TensorCall::token_sums);
  Tensor loss = torch.operate({&chosen}, Layout::contiguous({}), DType::fp32);
  if (!node) return loss;
  node->backward = [&torch, all, kept = torch.save(logarithms)](Tensors&) {
    const Tensor held = kept.get();
    const Tensor gradient = torch.operate({}, all, DType::fp32);
    Tensor sum;
    {
      const Tensor probabilities = torch.operate({&held}, all, DType::fp32);
      sum = torch.operate({&gradient, &probabilities}, all, DType::fp32);
    }
    return Tensors{torch.operate({&sum}, all, DType::fp32)};
  };
  return Autograd::connected(loss, node);
}

/// The summed loss of some tokens' logits, divided by the tokens of the step.
Tensor loss_of(Program& p, const Tensor& logits) {
  Autograd& torch = p.torch;
  torch.recorder().take_for(Term::loss_temporaries);
  const std::int64_t V = logits.layout.sizes.back(), tokens = logits.elements() / V;
  const Tensor flat = view(torch, logits, {tokens, V});
  const auto sum = [&] {
    const Tensor wide = to(torch, flat, DType::fp32);
    return divides_tensors(p) ? vocabulary_parallel_loss(p, wide)
                              : cross_entropy(torch, wide, of_batch({tokens}, DType::int64));
  };
  return scale(torch, sum());
}

/// A slice of the hidden states as a leaf, whose gradient goes to `gradient`.
Tensor slice_of(Program& p, const Tensor& own, Tensor& gradient) {
  Tensor slice = own.detached();
  auto sink = std::make_shared<Node>();
  sink->sequence = Node::kLeaf;
  sink->part = p.torch.recorder().current();
  sink->backward = [&gradient](Tensors& gradients) {
    gradient = std::move(gradients[0]);
    return Tensors{};
  };
  slice.requires_gradient = true;
  slice.gradient = {std::move(sink), 0};
  return slice;
}

/// Copies a slice's gradient into the buffer of all, by way of its cast.
void add_to_buffer(Program& p, Tensor& gradient) {
  p.torch.copy(to(p.torch, gradient.detached(), DType::fp32));
  gradient.reset();
}

/// Slices of the sequence as tensors of their own: copies where samples lie one behind the other.
Tensors slices_of(Program& p, const Tensor& hidden) {
  const std::int64_t length = p.sizes.s / options(p).loss_chunks;
  Tensors all;
  for (std::int64_t i = 0; i < options(p).loss_chunks; ++i)
    all.push_back(contiguous(p.torch, alias(hidden, hidden.layout.narrowed(1, length))));
  return all;
}

/// ChunkedLossWrapper: head, loss and their backward of one slice after the other; the decoder's backward
/// begins with the gradient that they leave.
Tensor chunked_loss(Program& p, const Tensor& head, const Tensor& given) {
  Autograd& torch = p.torch;
  const Tensor hidden = hooked_logits(p, given);  // the hook of the head's unit is on its only output
  const auto node = torch.node({&hidden});
  Tensor gradient;
  {
    const Autograd::GradMode off(torch, false);
    const Tensors slices = slices_of(p, hidden);
    Tensor labels;  // and positions
    if (p.sizes.b > 1) labels = torch.operate({}, Layout::contiguous({2, p.sizes.tokens()}), DType::int64);
    const Tensor buffer = torch.operate({}, Layout::contiguous(hidden.layout.sizes), DType::fp32);
    Tensor logits;  // of the last slice, until the next ones are there
    for (const Tensor& each : slices) {
      Tensor of_slice;
      const Tensor own = slice_of(p, each, of_slice);
      Tensor loss;
      {
        const Autograd::GradMode on(torch, true);
        torch.recorder().take_for(Term::logits);
        logits = plain_linear(torch, own, head);
        loss = loss_of(p, logits);
      }
      torch.backward(loss, torch.operate({}, Layout::contiguous({}), DType::fp32));
      logits.gradient = {};
      add_to_buffer(p, of_slice);
    }
    gradient = to(torch, buffer, hidden.type);
  }
  Tensor result = fresh(torch, {}, DType::fp32);
  if (!node) return result;
  node->backward = [kept = torch.save(gradient)](Tensors&) { return Tensors{kept.get()}; };
  return Autograd::connected(result, node);
}

/// The head's weight. FSDP gathers a tied one by itself, and gives it a gradient of its own.
Tensor head_of(Program& p, const Parameters& of) {
  if (const Parameter* own = of.find("lm_head.weight")) return own->tensor;
  const Parameter& table = weight_of(of, "tok_embeddings");
  if (shares_tied(options(p), p.strategy.layout)) return table.tensor;
  Tensor head = table.tensor.detached();
  p.torch.accumulate_into(head, table.index);
  return head;
}

Tensor titan_head_and_loss(Program& p, const Parameters& of, const Tensor& hidden) {
  const Tensor head = head_of(p, of);
  const bool is_stage = p.strategy.layout.pipeline > 1;  // it keeps its output until its backward is over
  if (options(p).loss_chunks > 0 && is_stage) p.outputs.push_back(hidden.detached());
  if (options(p).loss_chunks > 0) return chunked_loss(p, head, hidden);
  p.torch.recorder().take_for(Term::logits);
  const Tensor logits = hooked_logits(p, plain_linear(p.torch, hidden, head));
  p.torch.recorder().mark(Event::Kind::leave_module, kHeadUnit);
  if (is_stage) p.outputs.push_back(logits.detached());
  return loss_of(p, logits);
}

}  // namespace

}  // namespace titan

}  // namespace symbolic

const ModuleSet kTorchtitanDecoder{.name = "torchtitan-decoder",
                                   .before_layers = symbolic::titan::titan_embedding,
                                   .receive = symbolic::titan::receive_nothing,
                                   .layer = symbolic::titan::titan_layer,
                                   .after_layers = symbolic::titan::titan_final_norm,
                                   .head_and_loss = symbolic::titan::titan_head_and_loss,
                                   .without_masks = true,
                                   .fused_loss_brings = false,
                                   .receives_in_buffers = true,
                                   .shares_workspace = true,
                                   .checkpoints_around_layers = true,
                                   .recomputes_alternate_products = true};

}  // namespace zplan
