#pragma once
// Layers that torchtitan's decoders are made of: norms, projections, attention over documents, and the
// exchanges of tensor and sequence parallelism.

#include <string>

#include "planner/model_trace/operators.h"
#include "planner/model_trace/program.h"

namespace zplan::symbolic::titan {

[[nodiscard]] inline const TitanOptions& options(const Program& p) { return *p.strategy.torchtitan; }
[[nodiscard]] inline bool divides_tokens(const Program& p) { return p.sizes.u > 1; }
[[nodiscard]] inline bool divides_tensors(const Program& p) { return p.strategy.layout.tensor > 1; }
/// Returns a sum of ranks' x in new memory.
[[nodiscard]] Tensor summed(Program& p, const Tensor& x, TensorCall call);
/// Returns every rank's tokens of x in new memory.
[[nodiscard]] Tensor gathered(Program& p, const Tensor& x);
/// Returns what a column-parallel layer reads: with sequence parallelism the tokens of all ranks. Its
/// gradient is summed.
[[nodiscard]] Tensor column_input(Program& p, const Tensor& x);
/// Returns the sum of ranks' parts, with sequence parallelism of this rank's tokens alone.
[[nodiscard]] Tensor row_output(Program& p, const Tensor& partial, TensorCall call);

/// Records the linear layer whose weight stands under `module`.
[[nodiscard]] Tensor project(Program& p, const Parameters& of, const std::string& module, const Tensor& x);
/// Records the norm whose weight stands under `module`: one kernel, which keeps its input and the reciprocal
/// root of each row.
[[nodiscard]] Tensor rms_norm(Program& p, const Parameters& of, const std::string& module, const Tensor& x);
/// Returns pairs of the features of each head [b, s, heads, d] as complex numbers, times those of a layer's
/// table of rotations.
[[nodiscard]] Tensors rotated_by_complex_numbers(Program& p, const Tensors& heads);
/// Records the attention that the model is built with, over queries [b, s, a, d], keys and values.
[[nodiscard]] Tensor attend_to_documents(Program& p, const Tensor& q, const Tensor& k, const Tensor& v);
/// Records a gated feed-forward whose weights stand under `path`; without the sum of ranks' parts.
[[nodiscard]] Tensor gated_parts(Program& p, const Parameters& of, const std::string& path, const Tensor& x);

/// Records multi-head latent attention on normed hidden states. Source: torchtitan 0.3.0
/// models/deepseek_v3/{model,sharding}.py.
[[nodiscard]] Tensor latent_attention(Program& p, const Parameters& of, const Tensor& normed);
/// Records a mixture of experts on normed hidden states.
[[nodiscard]] Tensor mixture(Program& p, const Parameters& of, const Tensor& normed);

}  // namespace zplan::symbolic::titan
