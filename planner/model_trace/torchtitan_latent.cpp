// Multi-head latent attention in torchtitan: queries and keys pass bottlenecks that every tensor-parallel
// rank holds whole. Source: torchtitan 0.3.0 models/deepseek_v3/{model,sharding}.py; compared with recorded
// steps (docs/torchtitan.md).

#include <utility>

#include "planner/model_trace/torchtitan_layers.h"

namespace zplan::symbolic::titan {

namespace {

/// Queries of this rank's heads.
Tensor latent_queries(Program& p, const Parameters& of, const Tensor& x) {
  if (p.shape().latent_attention->query_rank == 0) return project(p, of, "attention.wq", x);
  const Tensor narrow = project(p, of, "attention.wq_a", x);
  return project(p, of, "attention.wq_b", rms_norm(p, of, "attention.q_norm", narrow));
}

}  // namespace

Tensor latent_attention(Program& p, const Parameters& of, const Tensor& normed) {
  Autograd& torch = p.torch;
  const LatentAttention& latent = *p.shape().latent_attention;
  const Sizes& n = p.sizes;
  const std::int64_t nope = latent.nope_head_size, rope = latent.rope_head_size,
                     value = latent.value_head_size;
  const Tensor x = column_input(p, normed);
  Tensor query = view(torch, latent_queries(p, of, x), {n.b, n.s, n.a, nope + rope});
  Tensors queries = split(torch, query, 3, {nope, rope});
  Tensors narrow = split(torch, project(p, of, "attention.wkv_a", x), 2, {latent.key_value_rank, rope});
  Tensors turned = rotated_by_complex_numbers(p, {queries[1], unsqueeze(torch, narrow[1], 2)});
  query = cat(torch, {queries[0], turned[0]}, 3);
  const Tensor wide = project(p, of, "attention.wkv_b", rms_norm(p, of, "attention.kv_norm", narrow[0]));
  narrow.clear();
  const Tensors parts = split(torch, view(torch, wide, {n.b, n.s, n.a, nope + value}), 3, {nope, value});
  const Tensor key = cat(torch, {parts[0], expand(torch, turned[1], {n.b, n.s, n.a, rope})}, 3);
  const Tensor attended = contiguous(torch, attend_to_documents(p, query, key, parts[1]));
  const Tensor merged = view(torch, attended, {n.b, n.s, n.a * value});
  return row_output(p, project(p, of, "attention.wo", merged), TensorCall::row_output);
}

}  // namespace zplan::symbolic::titan
