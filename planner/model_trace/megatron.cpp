// Megatron-Core's GPTModel under Transformer Engine's layers: fused norms and linear layers, whose products
// add weights' gradients to the framework's sums.
// Source: Megatron-Core 0.19.2 core/models/gpt/gpt_model.py, core/transformer/{transformer_layer,attention,
// mlp}.py, core/tensor_parallel/{layers,cross_entropy}.py; Transformer Engine 2.20.2
// pytorch/module/{layernorm_linear,linear}.py, pytorch/attention/dot_product_attention; compared with
// recorded steps (docs/megatron.md).

#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "planner/model_trace/attention.h"
#include "planner/model_trace/megatron_context.h"
#include "planner/model_trace/megatron_layers.h"

namespace zplan {

namespace symbolic {

namespace megatron {

Dimensions of_tokens(const Program& p, std::int64_t features) { return {p.sizes.b, p.sizes.s, features}; }
Dimensions hidden_sizes(const Program& p) { return {p.sizes.b, p.sizes.s / p.sizes.u, p.sizes.h}; }

Tensor gather(Program& p, const Tensor& x, TensorCall call) {
  Tensor all = fresh(p.torch, of_tokens(p, x.layout.sizes.back()), x.type);
  p.torch.drop_kernel();
  p.torch.recorder().communicate(call, all.bytes());
  return all;
}

Tensor scatter(Program& p, const Tensor& x, TensorCall call) {
  Tensor own = fresh(p.torch, with_last(hidden_sizes(p), x.layout.sizes.back()), x.type);
  p.torch.drop_kernel();
  p.torch.recorder().communicate(call, x.bytes());
  return own;
}

namespace {

bool is_layer_norm(const Parameters& of, std::string_view name) {
  return of.find(std::string(name) + "bias") != nullptr;
}

/// Makes the statistics that a norm keeps of each row beside its input: reciprocal deviations, and means in
/// LayerNorm.
Tensor statistics_of(Program& p, const Tensor& x, bool centred) {
  const std::int64_t rows = x.elements() / x.layout.sizes.back();
  return fresh(p.torch, {centred ? 2 : 1, rows}, DType::fp32);
}

}  // namespace

Tensor norm(Program& p, const Parameters& of, const std::string& name, const Tensor& given) {
  Autograd& torch = p.torch;
  const Tensor x = contiguous(torch, given);
  const Parameter& weight = of.get(name + "weight");
  const bool centred = is_layer_norm(of, name);
  const Tensor none;
  const Tensor& bias = centred ? of.get(name + "bias").tensor : none;
  const auto node = torch.node({&x, &weight.tensor, &bias});
  Tensor result = fresh(torch, x.layout.sizes, x.type);
  Tensor statistics = statistics_of(p, x, centred);
  torch.end_kernel(1);
  if (!node) return result;
  node->backward = [&torch, kept = torch.save(x), sums = torch.save(statistics),
                    size = weight.tensor.layout.sizes, centred](Tensors& gradients) {
    const Tensor held = kept.get(), held_sums = sums.get();
    Tensors outputs(3);
    outputs[0] = fresh(torch, held.layout.sizes, gradients[0].type);
    outputs[1] = fresh(torch, size, gradients[0].type);
    if (centred) outputs[2] = fresh(torch, size, gradients[0].type);
    return outputs;
  };
  return Autograd::connected(result, node);
}

}  // namespace megatron

namespace {

using namespace megatron;

/// The cosines or sines of all positions in 16 bits, which each rotation that is not fused makes of the
/// model's angles in fp32. Positions in time, rows and columns differ by sample.
Tensor rotation_table(Program& p, std::int64_t features) {
  const Layout layout =
      Layout::contiguous({p.operators().three_axes ? p.sizes.b : 1, p.sizes.s, 1, features});
  const Tensor wide = p.torch.operate({}, layout, DType::fp32);
  const Tensor scaled = p.torch.operate({&wide}, layout, DType::fp32);
  return p.torch.operate({&scaled}, layout, DType::bf16);
}

}  // namespace

Tensor megatron::rotate_unfused(Program& p, const Tensor& x) {
  Autograd& torch = p.torch;
  const std::int64_t features = x.layout.sizes.back();
  const Tensor rest = slice(torch, x, 3, 0);
  const Tensor cosines = rotation_table(p, features), sines = rotation_table(p, features);
  const Tensor turned = turned_halves(p, x, cosines, sines);
  return cat(torch, {turned, rest}, 3);
}

namespace {

/// TE's fused rotation of queries or keys, which keeps the table that the model caches.
Tensor rotate(Program& p, const Tensor& x) {
  if (!options(p).fuses_rotation || p.operators().three_axes) return rotate_unfused(p, x);
  Autograd& torch = p.torch;
  const auto node = torch.node({&x});
  Tensor result = fresh(torch, x.layout.sizes, x.type);
  if (!node) return result;
  node->backward = [&torch, sizes = x.layout.sizes](Tensors& gradients) {
    return Tensors{fresh(torch, sizes, gradients[0].type)};
  };
  return Autograd::connected(result, node);
}

/// Records cuDNN's fused attention, or FlashAttention: it keeps its operands, the output and the statistics
/// of each row's softmax. Ranks of a ring pass keys and values on.
Tensor ring_or_own_attention(Program& p, const Tensor& q, const Tensor& k, const Tensor& v) {
  Autograd& torch = p.torch;
  const std::int64_t ranks = p.strategy.layout.context;
  const auto node = torch.node({&q, &k, &v});
  // Queries and keys that were rotated or normed lie by themselves: values are copied out of the three's
  // product.
  const Tensor value = q.storage != v.storage ? contiguous(torch, v) : v;
  const Dimensions sizes = with_last(q.layout.sizes, v.layout.sizes.back());
  Tensor result = fresh(torch, sizes, q.type);
  Tensor statistics = fresh(torch, {p.sizes.b, p.sizes.a, p.sizes.s}, DType::fp32);
  const Flops work = attention_work(p, q.layout.sizes.back() + v.layout.sizes.back());
  torch.attend(work, false);
  pass_forward(p, ranks);
  // FlashAttention takes samples first and is given tokens first: with several samples its output is
  // transposed in new memory, and both stay.
  const bool transposes = options(p).attention == AttentionBackend::flash && p.sizes.b > 1;
  const Tensor by_token = transposes ? fresh(torch, sizes, q.type) : result;
  if (!node) return by_token;
  node->backward = [&p, &torch, ranks, kept_q = torch.save(q), kept_k = torch.save(k),
                    kept_v = torch.save(value), kept = torch.save(result), sums = torch.save(statistics),
                    work](Tensors& gradients) {
    const Tensor query = kept_q.get(), key = kept_k.get(), held_v = kept_v.get(), held = kept.get(),
                 held_sums = sums.get();
    Tensors outputs(3);
    outputs[0] = fresh(torch, query.layout.sizes, gradients[0].type);
    outputs[1] = fresh(torch, key.layout.sizes, gradients[0].type);
    outputs[2] = fresh(torch, held_v.layout.sizes, gradients[0].type);
    torch.attend(work * 2.5, true);
    pass_backward(p, ranks);
    return outputs;
  };
  return Autograd::connected(by_token, node);
}

/// The scores of all heads in one batched product, which keeps queries and keys.
Tensor attention_scores(Program& p, const Tensor& q, const Tensor& k) {
  Autograd& torch = p.torch;
  const std::int64_t heads = p.sizes.b * p.sizes.a, s = p.sizes.s, d = q.layout.sizes.back();
  const auto node = torch.node({&q, &k});
  Tensor scores = fresh(torch, {heads, s, s}, q.type);
  torch.compute(product_of(s, d, s, q.type, heads));
  if (!node) return scores;
  node->backward = [&torch, kept_q = torch.save(q), kept_k = torch.save(k), heads, s, d](Tensors& gradients) {
    const Tensor query = kept_q.get(), key = kept_k.get();
    Tensors outputs(2);
    outputs[0] = fresh(torch, query.layout.sizes, gradients[0].type);
    torch.compute(product_of(s, s, d, query.type, heads));
    outputs[1] = fresh(torch, key.layout.sizes, gradients[0].type);
    torch.compute(product_of(s, s, d, query.type, heads));
    return outputs;
  };
  return Autograd::connected(scores, node);
}

/// The scaled and masked softmax in one kernel, whose backward writes over the gradient of its result.
Tensor masked_softmax(Program& p, const Tensor& scores) {
  Autograd& torch = p.torch;
  const auto node = torch.node({&scores});
  Tensor result = torch.operate({&scores}, scores.layout, scores.type);
  if (!node) return result;
  node->backward = [&torch, kept = torch.save(result)](Tensors& gradients) {
    const Tensor held = kept.get();
    torch.change(gradients[0], &held);
    Tensor gradient = gradients[0];
    gradient.gradient = {};
    return Tensors{gradient};
  };
  return Autograd::connected(result, node);
}

/// The products of probabilities and values, which are copied to the order of tokens.
Tensor attended_values(Program& p, const Tensor& probabilities, const Tensor& v, const Dimensions& sizes) {
  Autograd& torch = p.torch;
  const std::int64_t heads = p.sizes.b * p.sizes.a, s = p.sizes.s, d = sizes.back();
  const auto node = torch.node({&probabilities, &v});
  Tensor result;
  {
    const Tensor by_head = fresh(torch, sizes, v.type);
    torch.compute(product_of(s, s, d, v.type, heads));
    result = torch.operate({&by_head}, Layout::contiguous(sizes), v.type);
  }
  if (!node) return result;
  node->backward = [&torch, kept = torch.save(probabilities), kept_v = torch.save(v), heads, s, d](Tensors&) {
    const Tensor held = kept.get(), value = kept_v.get();
    Tensors outputs(2);
    outputs[0] = fresh(torch, held.layout.sizes, held.type);
    torch.compute(product_of(s, d, s, held.type, heads));
    outputs[1] = fresh(torch, value.layout.sizes, value.type);
    torch.compute(product_of(s, s, d, held.type, heads));
    return outputs;
  };
  return Autograd::connected(result, node);
}

/// TE's UnfusedDotProductAttention: scores of all pairs of tokens lie in memory. Source: Transformer Engine
/// 2.20.2 pytorch/attention/dot_product_attention/backends.py, softmax.py.
Tensor unfused_attention(Program& p, const Tensor& q, const Tensor& k, const Tensor& v) {
  Tensor probabilities = masked_softmax(p, attention_scores(p, q, k));
  if (p.shape().attention_dropout > 0) probabilities = dropout(p.torch, probabilities);
  return attended_values(p, probabilities, v, with_last(q.layout.sizes, v.layout.sizes.back()));
}

}  // namespace

Tensor megatron::fused_attention(Program& p, const Tensor& q, const Tensor& k, const Tensor& v) {
  if (options(p).attention == AttentionBackend::unfused) return unfused_attention(p, q, k, v);
  if (p.strategy.layout.context > 1) switch (context_exchange(p)) {
      case ContextExchange::p2p: break;
      case ContextExchange::a2a:
      case ContextExchange::a2a_p2p: return attention_with_all_heads(p, q, k, v);
      case ContextExchange::all_gather: return attention_with_all_keys(p, q, k, v);
    }
  return ring_or_own_attention(p, q, k, v);
}

namespace {

/// A tensor of `features` for each token, gathered of all ranks.
Tensor gather_wide(Program& p, std::int64_t features, DType type) {
  Tensor all = fresh(p.torch, of_tokens(p, features), type);
  p.torch.drop_kernel();
  p.torch.recorder().communicate(TensorCall::gathered_projection, all.bytes());
  return all;
}

/// True if several tensor-parallel ranks share a key-value head.
bool divides_key_heads(const Program& p) { return p.shape().key_value_heads < p.strategy.layout.tensor; }

/// The queries of a key-value head, its key and value, of which ranks have a part each of the product: they
/// gather all heads and take one. Source: Megatron-Core 0.19.2 core/transformer/attention.py
/// SelfAttention.get_query_key_value_tensors, core/tensor_parallel/mappings.py _gather_along_last_dim.
Tensor whole_group(Program& p, const Tensor& own) {
  Autograd& torch = p.torch;
  const std::int64_t all = own.layout.sizes.back() * p.strategy.layout.tensor;
  const auto node = torch.node({&own});
  Tensor joined;
  {
    const Tensor gathered = gather_wide(p, all, own.type);
    joined = torch.operate({&gathered}, Layout::contiguous(of_tokens(p, all)), own.type);
  }
  if (node)
    node->backward = [&torch, sizes = own.layout.sizes](Tensors& gradients) {
      const Tensor ordered = torch.operate({&gradients[0]}, gradients[0].layout, gradients[0].type);
      Tensor gradient = fresh(torch, sizes, gradients[0].type);
      torch.drop_kernel();
      torch.recorder().communicate(TensorCall::scattered_projection, ordered.bytes());
      return Tensors{gradient};
    };
  joined = Autograd::connected(std::move(joined), node);
  return slice(torch, joined, 2, all / p.shape().key_value_heads);
}

Tensor self_attention(Program& p, const Parameters& of, const Tensor& x) {
  Autograd& torch = p.torch;
  const Sizes& n = p.sizes;
  const Tensor own = norm_and_linear(p, of, "self_attention.linear_qkv", x);
  const Tensor all = divides_key_heads(p) ? whole_group(p, own) : own;
  const std::int64_t each = all.layout.sizes.back() / (n.k * n.d) - 2;
  const Tensor grouped = view(torch, all, {n.b, n.s, n.k, (each + 2) * n.d});
  const Tensors parts = split(torch, grouped, 3, {each * n.d, n.d, n.d});
  Tensor query = reshape(torch, parts[0], {n.b, n.s, n.k * each, n.d}), gate;
  const bool gates = p.operators().attention == AttentionForm::gated;
  if (divides_key_heads(p)) query = slice(torch, query, 2, gates ? 2 * n.a : n.a);
  if (gates) {
    // Every second head is a gate.
    const Tensors halves = split(torch, query, 2, {n.a, n.a});
    query = halves[0], gate = halves[1];
  }
  Tensor key = parts[1];
  if (of.find("q_layernorm.weight") != nullptr) {
    query = norm(p, of, "q_layernorm.", query);
    key = norm(p, of, "k_layernorm.", key);
  }
  if (p.operators().rotary != Rotary::none) query = rotate(p, query), key = rotate(p, key);
  const bool again = recomputes(p, RecomputedModule::core_attn);
  const auto attend = [&p, key, value = parts[2]](const Tensor& q) {
    return fused_attention(p, q, key, value);
  };
  Tensor attended = again ? torch.checkpoint(attend, query, CheckpointMethod::full) : attend(query);
  if (gate.defined()) attended = gated_by(torch, attended, gate);
  const Tensor merged = view(torch, attended, of_tokens(p, n.a * n.d));
  return row_linear(p, of, "self_attention.linear_proj", merged);
}

/// SwiGLU by single operators: the gate and the other half, to which an offset of zero is added, are kept.
/// Source: Megatron-Core 0.19.2 core/transformer/mlp.py MLP.forward.
Tensor swiglu(Program& p, const Tensor& x) {
  const std::int64_t width = x.layout.sizes.back() / 2;
  const Tensors halves = split(p.torch, x, x.layout.rank() - 1, {width, width});
  const Tensor gate = silu(p.torch, halves[0]);
  const Tensor other = add_number(p.torch, halves[1]);
  return mul(p.torch, gate, other);
}

}  // namespace

Tensor megatron::gated_by(Autograd& torch, const Tensor& x, const Tensor& gate) {
  const auto node = torch.node({&x, &gate});
  Tensor result = fresh(torch, x.layout.sizes, x.type);
  if (!node) return result;
  node->backward = [&torch, kept = torch.save(x), kept_gate = torch.save(gate)](Tensors& gradients) {
    const Tensor held = kept.get(), held_gate = kept_gate.get();
    return Tensors{fresh(torch, held.layout.sizes, gradients[0].type),
                   fresh(torch, held_gate.layout.sizes, gradients[0].type)};
  };
  return Autograd::connected(result, node);
}

Tensor megatron::activation(Program& p, const Tensor& x) {
  Autograd& torch = p.torch;
  if (p.shape().gated_mlp && !options(p).fuses_swiglu) return swiglu(p, x);
  const std::int64_t width = x.layout.sizes.back() / (p.shape().gated_mlp ? 2 : 1);
  const auto node = torch.node({&x});
  Tensor result = fresh(torch, of_tokens(p, width), x.type);
  if (!node) return result;
  node->backward = [&torch, kept = torch.save(x)](Tensors& gradients) {
    const Tensor held = kept.get();
    return Tensors{fresh(torch, held.layout.sizes, gradients[0].type)};
  };
  return Autograd::connected(result, node);
}

namespace {

Tensor feed_forward_of_megatron(Program& p, const Parameters& of, const Tensor& x) {
  const auto run = [&p, &of](const Tensor& input) {
    const Tensor wide = norm_and_linear(p, of, "mlp.linear_fc1", input);
    const Tensor active = activation(p, wide);
    return row_linear(p, of, "mlp.linear_fc2", active);
  };
  const bool again = recomputes(p, RecomputedModule::mlp);
  return again ? p.torch.checkpoint(run, x, CheckpointMethod::reentrant) : run(x);
}

Tensor with_residual(Program& p, const Tensor& branch, const Tensor& residual) {
  const Tensor dropped = p.shape().dropout > 0 ? dropout(p.torch, branch) : branch;
  return add(p.torch, residual, dropped);
}

/// Records parts of the batch that a tensor-parallel group's first rank sends the others. Source:
/// Megatron-Core 0.19.2 training/utils.py get_batch_on_this_tp_rank.
void receive_batch(Program& p, std::initializer_list<TensorCall> parts) {
  if (!divides_tensors(p)) return;
  for (const TensorCall each : parts) {
    const bool is_number = each == TensorCall::batch_tokens;
    const std::int64_t tokens = p.sizes.tokens() * p.strategy.layout.context;
    p.torch.recorder().communicate(each, Bytes(is_number ? 8 : 4) * tokens);
  }
}
/// The first stage gets token numbers and positions; where there is but one, labels and the loss's weights,
/// too.
void receive_tokens(Program& p) {
  using enum TensorCall;
  if (p.strategy.layout.pipeline > 1) return receive_batch(p, {batch_tokens, batch_tokens});
  receive_batch(p, {batch_tokens, batch_tokens, batch_weights, batch_tokens});
}

/// The mask that the data loader makes, which fused attention does not read.
void make_mask(Program& p) {
  if (!options(p).makes_mask) return;
  p.cache.push_back(p.torch.make(Layout::contiguous({p.sizes.b, 1, p.sizes.s, p.sizes.s}), DType::boolean));
  p.torch.drop_kernel();
}

/// The angles of a micro-batch's tokens where positions have three axes: every forward makes them, and
/// recomputed layers read them again. Source: Megatron-Core 0.19.2
/// core/models/common/embeddings/rotary_pos_embedding.py MultimodalRotaryEmbedding.
void make_angles(Program& p) {
  if (!p.operators().three_axes) return;
  Tensor angles = p.torch.make(Layout::contiguous({p.sizes.b, p.sizes.s, 1, p.sizes.d}), DType::fp32);
  (p.is_reference ? p.locals : p.outputs).push_back(std::move(angles));
}

/// A last stage gets labels and the loss's weights.
void receive_at_later_stage(Program& p, bool is_last) {
  make_angles(p);
  if (!is_last) return;
  receive_batch(p, {TensorCall::batch_tokens, TensorCall::batch_weights});
  make_mask(p);
}

/// VocabParallelEmbedding over a divided table: rows of tokens that other ranks hold are zero.
Tensor divided_rows(Program& p, const Tensor& weight, const Tensor& ids) {
  Autograd& torch = p.torch;
  const Tensor mask = torch.operate({&ids}, Layout::contiguous(ids.layout.sizes), DType::boolean);
  const Tensor own = torch.operate({&ids}, Layout::contiguous(ids.layout.sizes), DType::int64);
  return embedding(torch, weight, own);
}

/// The tokens of this rank: ranks' partial rows are summed as they are scattered, or every rank has all rows
/// and keeps its own. The backward gathers.
Tensor own_tokens(Program& p, const Tensor& rows, bool are_summed) {
  const auto node = p.torch.node({&rows});
  const Tensor own = are_summed ? rows : scatter(p, rows, TensorCall::scattered_tokens);
  Tensor result = fresh(p.torch, hidden_sizes(p), rows.type);  // clone_scatter_output_in_embedding
  if (!node) return result;
  node->backward = [&p](Tensors& gradients) {
    return Tensors{gather(p, gradients[0], TensorCall::gathered_tokens)};
  };
  return Autograd::connected(result, node);
}

/// Every tensor-parallel rank runs the tower on all images. Its outputs live until they are in their places,
/// those that later layers add until these have run. Source: mcore-bridge 1.6.5 model/mm_gpt_model.py
/// _patch_word_embeddings, model/mm_gpts/utils.py _hf_get_inputs_embeds.
Tensor rows_with_images(Program& p, const Tensor& rows) {
  Tensor joined = with_images(p, rows);
  p.image_locals.clear();
  return joined;
}

}  // namespace

/// A module that is trained beside adapters is a copy of the model's own (modules_to_save).
const Parameter& trained_or_own(const Program& p, const Parameters& of, const Parameter& own) {
  const Parameter* copy = saved_copy(p, of, own);
  return copy != nullptr ? *copy : own;
}

Tensor megatron::embedded(Program& p, const Parameters& of, const Tensor& ids) {
  const Tensor& table = trained_or_own(p, of, of.get("word_embeddings.weight")).tensor;
  const Parameter* places = of.find("position_embeddings.weight");
  Tensor rows = divides_tensors(p) ? divided_rows(p, table, ids) : embedding(p.torch, table, ids);
  const bool reads_images = p.tower != nullptr;
  const bool are_summed = divides_tensors(p) && (places != nullptr || !divides_tokens(p) || reads_images);
  if (are_summed) p.torch.recorder().communicate(TensorCall::split_embedding, rows.bytes());
  if (places != nullptr) {
    const Tensor positions = embedding(p.torch, places->tensor, ids);
    rows = add(p.torch, rows, positions);
  }
  if (reads_images) rows = rows_with_images(p, rows);
  if (divides_tokens(p))
    rows = own_tokens(p, rows, are_summed);
  else if (p.sizes.b > 1)
    rows = clone(p.torch, rows);  // tokens come first: with several samples the transposed rows are copied
  // Recompute divides the memory of the layers' own view of the rows; the model holds the rows themselves.
  const bool is_view = p.sizes.b == 1 && p.shape().dropout == 0;
  if (options(p).divides_inputs && is_view) p.cache.push_back(rows.detached());
  return p.shape().dropout > 0 ? dropout(p.torch, rows) : rows;
}

namespace {

/// The rows of a frozen embedding require a gradient, so that a recomputed layer has one to pass on. Source:
/// mcore-bridge 1.6.5 model/gpt_model.py GPTModel._preprocess.
Tensor embed(Program& p, const Parameters& of) {
  // A forward that only scores runs on the policy's batch.
  if (!p.is_reference) receive_tokens(p), make_mask(p);
  make_angles(p);
  Tensor hidden = embedded(p, of, of_batch({p.sizes.b, p.sizes.s}, DType::int64));
  if (p.training.method != Method::full) Autograd::require_gradient(hidden);
  return hidden;
}

/// Returns the parameters of each layer that one part of the tape has: several where full recompute computes
/// them again together, whose adapters stand behind the weights of all of them. They live as long as the
/// program, whose backward reads them.
std::vector<const Parameters*> layers_of(Program& p, const Parameters& of) {
  std::vector<std::shared_ptr<Parameters>> layers;
  std::size_t next = 0;
  const std::string *first = nullptr, *first_added = nullptr;
  for (const Parameter& each : of.all()) {
    const std::string& name = each.about->name;
    const bool is_added = is_adapter(name);
    const std::string*& begins = is_added ? first_added : first;
    if (begins == nullptr) begins = &name, next = 0;
    if (name == *begins && ++next > layers.size()) layers.push_back(std::make_shared<Parameters>());
    layers[next - 1]->add(each);
  }
  if (layers.size() == 1) return {&of};
  std::vector<const Parameters*> listed;
  for (const std::shared_ptr<Parameters>& each : layers) {
    p.grouped.push_back(each);
    listed.push_back(each.get());
  }
  return listed;
}

/// A mixture of experts behind its norm. With "layernorm" recomputed the normed tokens are dropped once the
/// mixture has run, and computed again when the gradient of its output is there; they stay until the norm's
/// backward.
Tensor mixture_behind_norm(Program& p, const Parameters& of, const Tensor& x) {
  Autograd& torch = p.torch;
  if (!recomputes(p, RecomputedModule::layernorm))
    return mixture_of_experts(p, of, norm(p, of, "pre_mlp_layernorm.", x));
  const Tensor made = norm(p, of, "pre_mlp_layernorm.", x);
  const auto before = torch.node({&made});
  before->backward = [kept = made.detached()](Tensors& gradients) { return Tensors{gradients[0]}; };
  const Tensor normed = Autograd::connected(made.detached(), before);
  const Tensor output = mixture_of_experts(p, of, normed);
  const auto behind = torch.node({&output});
  behind->backward = [kept = normed.detached()](Tensors& gradients) {
    kept.storage->restore(kept.bytes());
    return Tensors{gradients[0]};
  };
  normed.storage->drop();
  return Autograd::connected(output.detached(), behind);
}

/// A branch behind a norm of its own, where the layer has one. Source: mcore-bridge 1.6.5 model/gpts/glm4.py.
Tensor normed_behind(Program& p, const Parameters& of, const std::string& name, const Tensor& branch) {
  return of.find(name + "weight") == nullptr ? branch : norm(p, of, name, branch);
}

Tensor attention_of_megatron(Program& p, const Parameters& of, const Tensor& hidden) {
  if (of.find("self_attention.in_proj.weight") != nullptr) return megatron::delta_net(p, of, hidden);
  if (!p.shape().latent_attention) return self_attention(p, of, hidden);
  return latent_attention(p, of, norm(p, of, "input_layernorm.", hidden));
}

}  // namespace

Tensor megatron::transformer_layer(Program& p, const Parameters& of, const Tensor& hidden) {
  // Branches are temporaries: nothing holds one once it is added.
  const Tensor middle = with_residual(
      p,
      normed_behind(p, of, "self_attention.post_self_attn_layernorm.", attention_of_megatron(p, of, hidden)),
      hidden);
  const bool is_mixture = of.find("router.weight") != nullptr;
  return with_residual(p,
                       normed_behind(p, of, "mlp.post_mlp_layernorm.",
                                     is_mixture ? mixture_behind_norm(p, of, middle)
                                                : feed_forward_of_megatron(p, of, middle)),
                       middle);
}

namespace {

Tensor decoder_layer_of_megatron(Program& p, const Parameters& of, const Tensor& given) {
  Tensor hidden = given;
  p.sublayer = 0;
  for (const Parameters* each : layers_of(p, of)) {
    hidden = transformer_layer(p, *each, hidden);
    ++p.sublayer;
  }
  return hidden;
}

Tensor final_norm(Program& p, const Parameters& of, const Tensor& hidden) {
  return norm(p, of, "final_layernorm.", hidden);
}

}  // namespace

namespace {

/// Returns every rank's tokens, for a layer that gathers by an operation of its own.
Tensor all_tokens(Program& p, const Tensor& x) {
  return moved(
      p.torch, x, [&p](const Tensor& own) { return gather(p, own, TensorCall::gathered_tokens); },
      [&p](const Tensor& gradient) { return scatter(p, gradient, TensorCall::scattered_gradients); });
}

/// LinearWithFrozenWeight, which keeps no input. Source: Megatron-Core 0.19.2 core/tensor_parallel/layers.py
/// linear_with_frozen_weight.
Tensor frozen_head(Program& p, const Parameter& weight, const Tensor& x) {
  Autograd& torch = p.torch;
  const Tensor all = divides_tokens(p) ? all_tokens(p, x) : x;
  const auto node = torch.node({&all});
  const std::int64_t in = p.sizes.h, out = weight.tensor.size(0), rows = p.sizes.tokens();
  Tensor result = fresh(torch, of_tokens(p, out), x.type);
  torch.multiply(false, product_of(rows, in, out, x.type));
  if (!node) return result;
  node->backward = [&p, &torch, in, out, rows](Tensors& gradients) {
    Tensor gradient = fresh(torch, of_tokens(p, in), gradients[0].type);
    torch.multiply(false, product_of(rows, out, in, gradient.type));
    if (divides_tensors(p) && !divides_tokens(p))
      torch.recorder().communicate(TensorCall::reduced_gradients, gradient.bytes());
    return Tensors{gradient};
  };
  return Autograd::connected(result, node);
}

}  // namespace

Tensor megatron::head(Program& p, const Parameter& weight, const Tensor& x) {
  if (!weight.tensor.requires_gradient) return frozen_head(p, weight, x);
  Autograd& torch = p.torch;
  const auto gather_again = [&p](TensorCall call) {
    if (divides_tokens(p)) p.torch.recorder().communicate(call, Bytes(2) * p.sizes.tokens() * p.sizes.h);
  };
  const auto node = torch.node({&x, &weight.tensor});
  gather_again(TensorCall::gathered_tokens);
  const std::int64_t in = p.sizes.h, out = weight.tensor.size(0), rows = p.sizes.tokens();
  Tensor result = fresh(torch, of_tokens(p, out), x.type);
  torch.multiply(false, product_of(rows, in, out, x.type));
  if (!node) return result;
  node->backward = [&p, &torch, gather_again, kept = torch.save(x), weight = weight.tensor.detached(), in,
                    out, rows](Tensors& gradients) {
    const Tensor held = kept.get();
    Tensors outputs(2);
    gather_again(TensorCall::gathered_again);
    Tensor gradient = fresh(torch, of_tokens(p, in), gradients[0].type);
    torch.multiply(false, product_of(rows, out, in, gradient.type));
    gradient = reduce_input_gradient(p, std::move(gradient));
    outputs[1] = weight_gradient(p, weight, weight.type);
    await_input_gradient(p);
    outputs[0] = std::move(gradient);
    return outputs;
  };
  return Autograd::connected(result, node);
}

namespace {

/// TE's parallel cross-entropy: its kernels write the gradient over the logits in the forward; ranks exchange
/// three numbers for each token. Source: Transformer Engine 2.20.2 pytorch/cross_entropy.py,
/// pytorch/triton/cross_entropy.py.
Tensor losses_by_te(Program& p, const Tensor& logits) {
  Autograd& torch = p.torch;
  const Dimensions tokens{p.sizes.b, p.sizes.s};
  const auto node = torch.node({&logits});
  const Tensor losses = numbers(torch, tokens, DType::fp32);
  {
    const Tensor sums = numbers(torch, {3, p.sizes.tokens()}, DType::fp32);
    torch.change(logits);
    if (divides_tensors(p)) torch.recorder().communicate(TensorCall::token_sums, sums.bytes());
  }
  torch.change(logits);
  if (!node) return losses;
  node->backward = [&torch, kept = torch.save(logits)](Tensors&) {
    Tensor held = kept.get();
    torch.change(held);
    held.gradient = {};
    return Tensors{held};
  };
  return Autograd::connected(losses, node);
}

}  // namespace

Tensor megatron::token_losses(Program& p, const Tensor& logits) {
  if (options(p).fused_cross_entropy && options(p).loss_fusion == LossFusion::te)
    return losses_by_te(p, logits);
  return token_losses(p, logits, options(p).fused_cross_entropy);
}

Tensor megatron::token_losses(Program& p, const Tensor& logits, bool fused) {
  Autograd& torch = p.torch;
  const Dimensions tokens{p.sizes.b, p.sizes.s};
  const Bytes numbers = Bytes(4) * p.sizes.tokens();
  Recorder& recorder = torch.recorder();
  const auto exchange = [&](TensorCall call, Bytes size) {
    if (divides_tensors(p)) recorder.communicate(call, size);
  };
  const auto node = torch.node({&logits});
  Tensor wide = fresh(torch, logits.layout.sizes, DType::fp32);
  torch.end_kernel();
  {
    const Tensor maxima = torch.operate({&wide}, Layout::contiguous(tokens), DType::fp32);
    exchange(TensorCall::token_maxima, numbers);
  }
  torch.change(wide);
  Tensor copy = fused ? fresh(torch, logits.layout.sizes, DType::fp32) : Tensor{};
  Tensor mask = torch.operate({}, Layout::contiguous(tokens), DType::boolean);
  Tensor targets = torch.operate({}, Layout::contiguous(tokens), DType::int64);
  const Tensor sums = torch.operate({&wide}, Layout::contiguous(tokens), DType::fp32);
  const Tensor predicted = torch.operate({}, Layout::contiguous(tokens), DType::fp32);
  torch.change(wide);
  if (fused) {
    exchange(TensorCall::token_sums, numbers * 2);
  } else {
    exchange(TensorCall::token_sums, numbers);
    exchange(TensorCall::token_sums, numbers);
  }
  wide = fused ? std::move(copy) : wide;
  Tensor losses = torch.operate({&sums, &predicted}, Layout::contiguous(tokens), DType::fp32);
  torch.change(wide);
  if (!node) return losses;
  node->backward = [&torch, softmax = torch.save(wide), kept_mask = torch.save(mask),
                    kept_targets = torch.save(targets), fused, sizes = logits.layout.sizes](Tensors&) {
    Tensor held = softmax.get();
    const Tensor held_mask = kept_mask.get(), held_targets = kept_targets.get();
    if (fused) return Tensors{fresh(torch, sizes, DType::fp32)};
    torch.change(held);
    held.gradient = {};
    return Tensors{held};
  };
  return Autograd::connected(losses, node);
}

namespace {

Tensor head_and_loss_of_megatron(Program& p, const Parameters& of, const Tensor& given) {
  Recorder& recorder = p.torch.recorder();
  if (p.training.objective == Objective::reward)
    return scores_and_loss(p, of.get("output_layer.weight"), given);
  const Parameter* own = of.find("output_layer.weight");
  const Parameter& weight = trained_or_own(p, of, own != nullptr ? *own : of.get("word_embeddings.weight"));
  const Tensor hidden = options(p).predictions > 0 ? with_predictions(p, of, weight, given) : given;
  recorder.take_for(Term::logits);
  Tensor logits = head(p, weight, hidden);
  recorder.take_for(Term::loss_temporaries);
  if (p.training.objective != Objective::sft) return loss_of_objective(p, std::move(logits));
  const Tensor losses = token_losses(p, logits);
  const Tensor weights = of_batch(losses.layout.sizes, DType::fp32);
  const Tensor weighed = mul(p.torch, losses, weights);
  const Tensor flat = view(p.torch, weighed, {p.sizes.tokens()});
  return sum(p.torch, flat, 0, false);
}

}  // namespace

}  // namespace symbolic

const ModuleSet kMegatron{.name = "megatron",
                          .before_layers = symbolic::embed,
                          .receive = symbolic::receive_at_later_stage,
                          .layer = symbolic::decoder_layer_of_megatron,
                          .after_layers = symbolic::final_norm,
                          .head_and_loss = symbolic::head_and_loss_of_megatron,
                          .without_masks = true,
                          .fused_loss_brings = false,
                          .attention_of_generation = true,
                          .frees_sent_hidden = true,
                          .makes_all_losses = true};

}  // namespace zplan
