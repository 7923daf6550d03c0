// The gated delta net as transformers computes it where causal-conv1d is not installed, with PyTorch's
// operators. Source: transformers 5.23 models/{qwen3_next,qwen3_5}/modeling_*.py (causal_conv1d_fn,
// torch_chunk_gated_delta_rule, RMSNormGated).

#include <algorithm>
#include <array>
#include <string>
#include <utility>

#include "planner/model_trace/attention.h"
#include "planner/model_trace/operators.h"

namespace zplan::symbolic {

namespace {

/// Most steps of the scan over a long sample's chunks that are recorded one by one. Beyond, neighbouring
/// steps are recorded as one, with blocks of the sum of their sizes.
constexpr std::int64_t kMostSteps = 128;

/// Locals holds the local variables of the layer's forward.
struct Locals {
  Tensor queries_to_gates, scalars;  ///< of joint projections
  Tensor query, key, value, gate, beta_input, decay_input, mixed, beta, decay;
};

Tensor projected(Program& p, const Parameters& of, const char* name, const Tensor& x) {
  return linear_layer(p, of, of.get(std::string("linear_attn.") + name + ".weight"), x);
}

// ---- projections ------------------------------------------------------------------------------------------

/// Records Qwen3.5's separate projections.
void project_apart(Program& p, const Parameters& of, const Tensor& x, Locals& own) {
  const DeltaNet& net = *p.shape().delta_net;
  own.mixed = transpose(p.torch, projected(p, of, "in_proj_qkv", x), 1, 2);
  own.gate = view(p.torch, projected(p, of, "in_proj_z", x),
                  {p.sizes.b, p.sizes.s, net.value_heads, net.value_head_size});
  own.beta_input = projected(p, of, "in_proj_b", x);
  own.decay_input = projected(p, of, "in_proj_a", x);
}

/// Records Qwen3-Next's projection: each key head's query, key, values and gates are adjacent.
void project_jointly(Program& p, const Parameters& of, const Tensor& x, Locals& own) {
  Autograd& torch = p.torch;
  const DeltaNet& net = *p.shape().delta_net;
  const std::int64_t b = p.sizes.b, s = p.sizes.s, heads = net.key_heads, shared = net.value_heads / heads;
  const std::int64_t keys = net.key_head_size, values = shared * net.value_head_size;
  own.queries_to_gates = projected(p, of, "in_proj_qkvz", x);
  own.scalars = projected(p, of, "in_proj_ba", x);
  {
    const Tensors parts = split(torch, view(torch, own.queries_to_gates, {b, s, heads, 2 * (keys + values)}),
                                3, {keys, keys, values, values});
    const Tensors scalars =
        split(torch, view(torch, own.scalars, {b, s, heads, 2 * shared}), 3, {shared, shared});
    own.value = reshape(torch, parts[2], {b, s, net.value_heads, net.value_head_size});
    own.gate = reshape(torch, parts[3], {b, s, net.value_heads, net.value_head_size});
    own.beta_input = reshape(torch, scalars[0], {b, s, net.value_heads});
    own.decay_input = reshape(torch, scalars[1], {b, s, net.value_heads});
    own.query = reshape(torch, parts[0], {b, s, net.key_width()});
    own.key = reshape(torch, parts[1], {b, s, net.key_width()});
    own.value = view(torch, own.value, {b, s, net.value_width()});
  }
  own.mixed = transpose(torch, cat(torch, {own.query, own.key, own.value}, 2), 1, 2);
}

/// Records the convolution of queries, keys and values over a few earlier tokens, then SiLU.
void convolve(Program& p, const Parameters& of, Locals& own) {
  Autograd& torch = p.torch;
  const DeltaNet& net = *p.shape().delta_net;
  const Tensor& weight = of.get("linear_attn.conv1d.weight").tensor;
  const DType type = own.mixed.type;
  {
    Tensor seen;
    {
      const Tensor input = to(torch, own.mixed, weight.type);
      const Tensor whole = depthwise_convolution(torch, input, weight);
      seen = part(torch, whole, 2, p.sizes.s);
    }
    seen = silu(torch, seen);
    own.mixed = transpose(torch, to(torch, seen, type), 1, 2);
  }
  const Tensors parts = split(torch, own.mixed, 2, {net.key_width(), net.key_width(), net.value_width()});
  const auto by_head = [&](const Tensor& x, std::int64_t heads, std::int64_t size) {
    return view(torch, x, {p.sizes.b, p.sizes.s, heads, size});
  };
  own.query = by_head(parts[0], net.key_heads, net.key_head_size);
  own.key = by_head(parts[1], net.key_heads, net.key_head_size);
  own.value = by_head(parts[2], net.value_heads, net.value_head_size);
}

/// −exp(A_log) · softplus(a + dt_bias), in fp32.
Tensor log_decay(Program& p, const Parameters& of, const Tensor& input) {
  Autograd& torch = p.torch;
  Tensor rate;
  {
    Tensor power;
    {
      const Tensor wide = to(torch, of.get("linear_attn.A_log").tensor, DType::fp32);
      power = exp(torch, wide);
    }
    rate = neg(torch, power);
  }
  Tensor step;
  {
    const Tensor wide = to(torch, input, DType::fp32);
    step = add(torch, wide, of.get("linear_attn.dt_bias").tensor);
  }
  step = softplus(torch, step);
  return mul(torch, rate, step);
}

// ---- the delta rule ---------------------------------------------------------------------------------------

/// x / ‖x‖ along the last dimension.
Tensor unit(Autograd& torch, const Tensor& x) {
  Tensor root;
  {
    Tensor shifted;
    {
      Tensor total;
      {
        const Tensor squares = mul(torch, x, x);
        total = sum(torch, squares, x.layout.rank() - 1, true);
      }
      shifted = add_number(torch, total);
    }
    root = rsqrt(torch, shifted);
  }
  return mul(torch, x, root);
}

/// Rows holds queries, keys, values [b, heads, s, d] and scalars [b, heads, s] in fp32, padded to whole
/// chunks. Tensors that were fp32 before keep transposed strides: `to` with a memory format makes no copy
/// then.
struct Rows {
  Tensor query, key, value, beta, decay;
};

Rows wide_rows(Program& p, const Locals& own) {
  Autograd& torch = p.torch;
  const DeltaNet& net = *p.shape().delta_net;
  const std::int64_t times = net.value_heads / net.key_heads;
  Tensor key = own.key, query = own.query;
  if (times > 1) {
    query = repeat_interleave(torch, query, 2, times);
    key = repeat_interleave(torch, key, 2, times);
  }
  const auto wide = [&](const Tensor& x) {
    return to_contiguous(torch, transpose(torch, x, 1, 2), DType::fp32);
  };
  Rows rows;
  rows.query = wide(query), rows.key = wide(key), rows.value = wide(own.value);
  rows.beta = wide(own.beta), rows.decay = wide(own.decay);
  return rows;
}

void normalise_rows(Autograd& torch, Rows& rows) {
  rows.query = unit(torch, rows.query);
  rows.key = unit(torch, rows.key);
  rows.query = scale(torch, rows.query);
}

void pad_rows(Autograd& torch, Rows& rows, std::int64_t more) {
  Tensor query = pad(torch, rows.query, 2, more), key = pad(torch, rows.key, 2, more);
  Tensor value = pad(torch, rows.value, 2, more);
  rows.query = std::move(query), rows.key = std::move(key), rows.value = std::move(value);
  Tensor beta = pad(torch, rows.beta, 2, more), decay = pad(torch, rows.decay, 2, more);
  rows.beta = std::move(beta), rows.decay = std::move(decay);
}

/// Chunks holds the products within chunks: keys with keys (`system`), queries with keys (`scores`), and
/// values and keys once the system is solved.
struct Chunks {
  Tensor query, key, values_by_beta, keys_by_beta, mask, sums, decays, system, scores, decayed, values,
      seen_keys;
};

Tensor by_chunk(Autograd& torch, const Tensor& x) {
  return reshape(torch, x, {x.size(0), x.size(1), x.size(2) / kDeltaChunk, kDeltaChunk, x.size(3)});
}

/// Returns a mask of the tokens after each token of a chunk.
Tensor upper_mask(Autograd& torch) {
  const Tensor ones = numbers(torch, {kDeltaChunk, kDeltaChunk}, DType::boolean);
  return numbers(torch, {kDeltaChunk, kDeltaChunk}, DType::boolean);
}

/// Records exp(sums of decays up to a token − those up to an earlier token).
Tensor pairwise_decays(Autograd& torch, const Tensor& sums, const Tensor& mask) {
  Tensor decays = sub(torch, unsqueeze(torch, sums, 4), unsqueeze(torch, sums, 3));
  decays = masked_fill(torch, decays, mask);
  decays = exp(torch, decays);
  return decays;
}

/// x · exp(sums), row by row.
Tensor decayed_rows(Autograd& torch, const Tensor& x, const Tensor& sums) {
  const Tensor factors = exp(torch, sums);
  return mul(torch, x, unsqueeze(torch, factors, 4));
}

Tensor decayed_scores(Autograd& torch, const Tensor& rows, const Tensor& keys, const Tensor& decays) {
  const Tensor scores = batched_matmul(torch, rows, transpose(torch, keys, 3, 4));
  return mul(torch, scores, decays);
}

Chunks within_chunks(Autograd& torch, Rows& rows) {
  Chunks c;
  c.values_by_beta = mul(torch, rows.value, unsqueeze(torch, rows.beta, 3));
  c.keys_by_beta = mul(torch, rows.key, unsqueeze(torch, rows.beta, 3));
  c.query = by_chunk(torch, std::exchange(rows.query, {}));
  c.key = by_chunk(torch, std::exchange(rows.key, {}));
  c.keys_by_beta = by_chunk(torch, c.keys_by_beta), c.values_by_beta = by_chunk(torch, c.values_by_beta);
  const Tensor& decay = rows.decay;
  const Tensor decays =
      reshape(torch, decay, {decay.size(0), decay.size(1), decay.size(2) / kDeltaChunk, kDeltaChunk});
  c.mask = upper_mask(torch);
  c.sums = running_sum(torch, decays);
  c.decays = pairwise_decays(torch, c.sums, c.mask);
  c.system = decayed_scores(torch, c.keys_by_beta, c.key, c.decays);
  c.scores = decayed_scores(torch, c.query, c.key, c.decays);
  c.decayed = decayed_rows(torch, c.keys_by_beta, c.sums);
  c.values = solve_triangular(torch, c.system, c.values_by_beta);
  c.seen_keys = solve_triangular(torch, c.system, c.decayed);
  return c;
}

/// Scan holds the operands and results of the scan over chunks.
struct Scan {
  Tensor state, output, decay, value, from_state;
};

/// keys · exp(the chunk's last sum − sums).
Tensor keys_to_the_end(Autograd& torch, const Chunks& c) {
  Tensor factors;
  {
    const Tensor rest = sub(torch, part(torch, c.sums, 3, 1), c.sums);
    factors = exp(torch, rest);
  }
  return mul(torch, c.key, unsqueeze(torch, factors, 4));
}

/// Records one step over `count` chunks of each tensor.
void scan_step(Autograd& torch, const Chunks& c, std::int64_t count, Scan& scan) {
  const auto own = [&](const Tensor& x) { return part(torch, x, 2, count); };
  {
    const Tensor values = own(c.values), keys = own(c.seen_keys);
    const Tensor known = batched_matmul(torch, keys, scan.state);
    scan.value = sub(torch, values, known);
  }
  scan.from_state = batched_matmul(torch, own(c.query), scan.state);
  {
    const Tensor within = batched_matmul(torch, own(c.scores), scan.value);
    Tensor sum = add(torch, scan.from_state, within);
    assign(torch, scan.output, sum);
  }
  const Tensor decayed = mul(torch, scan.state, own(scan.decay));
  const Tensor update = batched_matmul(torch, transpose(torch, own(c.key), 3, 4), scan.value);
  scan.state = add(torch, decayed, update);
}

void scan_chunks(Autograd& torch, Chunks& c, Scan& scan) {
  const std::int64_t b = c.key.size(0), heads = c.key.size(1), chunks = c.key.size(2);
  const std::int64_t each = divide_up(chunks, kMostSteps);
  scan.state = fresh(torch, {b, heads, each, c.key.size(4), c.values.size(4)}, DType::fp32);
  scan.output = like(torch, c.values);
  c.query = decayed_rows(torch, c.query, c.sums);
  c.key = keys_to_the_end(torch, c);
  {
    const Tensor last = exp(torch, view(torch, part(torch, c.sums, 3, 1), {b, heads, chunks}));
    scan.decay = view(torch, last, {b, heads, chunks, 1, 1});
  }
  for (std::int64_t done = 0; done < chunks; done += each) {
    const std::int64_t count = std::min(each, chunks - done);
    if (count < each) scan.state = part(torch, scan.state, 2, count);
    scan_step(torch, c, count, scan);
  }
  scan.state.reset();
}

/// Records the delta rule. Returns [b, s, value heads, d] in the type of the queries.
Tensor delta_rule(Program& p, const Locals& own) {
  Autograd& torch = p.torch;
  const DType type = own.query.type;
  const std::int64_t more = divide_up(p.sizes.s, kDeltaChunk) * kDeltaChunk - p.sizes.s;
  Rows rows = wide_rows(p, own);
  normalise_rows(torch, rows);
  pad_rows(torch, rows, more);
  Chunks c = within_chunks(torch, rows);
  Scan scan;
  scan_chunks(torch, c, scan);
  Tensor output = std::exchange(scan.output, {});
  output =
      reshape(torch, output, {output.size(0), output.size(1), output.size(2) * kDeltaChunk, output.size(4)});
  if (more > 0) output = part(torch, output, 2, p.sizes.s);
  return to_contiguous(torch, transpose(torch, output, 1, 2), type);
}

// ---- the output -------------------------------------------------------------------------------------------

/// weight · normalised in the input's type · silu(gate) in fp32.
Tensor gated_norm(Program& p, const Tensor& weight, const Tensor& x, const Tensor& gate) {
  Autograd& torch = p.torch;
  Tensor variance, hidden = to(torch, x, DType::fp32);
  variance = mean_square(p, hidden);
  {
    const Tensor root = reciprocal_root(p, variance);
    hidden = mul(torch, hidden, root);
  }
  {
    const Tensor narrow = to(torch, hidden, x.type);
    hidden = mul(torch, weight, narrow);
  }
  {
    Tensor share;
    {
      const Tensor wide = to(torch, gate, DType::fp32);
      share = silu(torch, wide);
    }
    hidden = mul(torch, hidden, share);
  }
  return to(torch, hidden, x.type);
}

Tensor gated_output(Program& p, const Parameters& of, Tensor output, const Tensor& gate) {
  const DeltaNet& net = *p.shape().delta_net;
  const Dimensions rows{p.sizes.tokens() * net.value_heads, net.value_head_size};
  output = reshape(p.torch, output, rows);
  const Tensor gates = reshape(p.torch, gate, rows);
  const Parameter& weight = of.get("linear_attn.norm.weight");
  output = hooked(p, {&weight}, output,
                  [&](const Tensor& input) { return gated_norm(p, weight.tensor, input, gates); });
  output = reshape(p.torch, output, {p.sizes.b, p.sizes.s, net.value_width()});
  return projected(p, of, "out_proj", output);
}

Tensor delta_net_forward(Program& p, const Parameters& of, const Tensor& x) {
  Locals own;
  (p.shape().delta_net->joint_projections ? project_jointly : project_apart)(p, of, x, own);
  convolve(p, of, own);
  own.beta = sigmoid(p.torch, own.beta_input);
  own.decay = log_decay(p, of, own.decay_input);
  const auto replaced = p.modules().kernels.delta_rule;
  Tensor output = replaced != nullptr ? replaced(p, {own.query, own.key, own.value, own.decay, own.beta})
                                      : delta_rule(p, own);
  return gated_output(p, of, std::move(output), own.gate);
}

}  // namespace

Tensor delta_net(Program& p, const Parameters& of, const Tensor& x) {
  // The convolution's module is not called: its weight is read by the module around it.
  const std::vector<const Parameter*> own{&of.get("linear_attn.dt_bias"), &of.get("linear_attn.A_log"),
                                          &of.get("linear_attn.conv1d.weight")};
  return hooked(p, own, x, [&](const Tensor& input) { return delta_net_forward(p, of, input); },
                {.name = "linear attention", .by_keyword = true});
}

}  // namespace zplan::symbolic
