#pragma once
// What the parts of attention pass one another: projections, rotation, the latent form.

#include <cstdint>
#include <optional>
#include <vector>

#include "planner/model_trace/program.h"

namespace zplan::symbolic {

/// Queries [b, a, s, d], keys and values [b, k, s, d] as views or copies, in the layout their code leaves
/// them in.
struct Heads {
  Tensor query, key, value;
  Tensors locals{};  ///< what the attention's own variables keep until its output is projected
};

/// Turns queries and keys by their positions.
void rotate(Program& p, Heads& heads);
/// The same as transformers' modules write it.
void rotate_as_transformers(Program& p, Heads& heads);

/// Self-attention as transformers' modules write it.
[[nodiscard]] Tensor attention_of_transformers(Program& p, const Parameters& of, const Tensor& x,
                                               bool sliding);
/// Norms queries and keys by head, where the architecture has such norms.
void norm_queries_and_keys(Program& p, const Parameters& of, Heads& heads);
/// The weight of the projection onto queries ('q'), keys ('k') or values ('v').
[[nodiscard]] const Parameter& projection(const Parameters& of, char letter);

/// Keys and values pass through the cache, where the model fills one: it copies them.
void keep_in_cache(Program& p, Heads& heads, bool sliding);

/// Features of each head that turn.
[[nodiscard]] std::int64_t rotary_features(const Program& p);
/// x·cos + (−second half, first half)·sin.
[[nodiscard]] Tensor turned_halves(Program& p, const Tensor& x, const Tensor& cosines, const Tensor& sines);

/// (−second, first) of each pair of neighbours.
[[nodiscard]] Tensor rotate_neighbours(Program& p, const Tensor& x);

/// Features of which each of one half turns with one of the other.
struct Pairs {
  Tensor first, second;
};
/// (first·cos − second·sin, second·cos + first·sin), behind one another.
[[nodiscard]] Tensor turned_pairs(Program& p, const Pairs& x, const Tensor& cosines, const Tensor& sines);

/// The weight of the projection onto queries, keys and values, where one makes all three.
[[nodiscard]] const Parameter& attention_input(const Program& p, const Parameters& of);
/// The weight of the projection behind attention.
[[nodiscard]] const Parameter& attention_output(const Program& p, const Parameters& of);

/// The attention of architectures that share no implementation with others; nothing for all others.
[[nodiscard]] std::optional<Tensor> own_attention(Program& p, const Parameters& of, const Tensor& x,
                                                  bool sliding);

/// The gated delta net of a layer that has one instead of attention.
[[nodiscard]] Tensor delta_net(Program& p, const Parameters& of, const Tensor& x);

/// Whether scores are biased by position instead.
[[nodiscard]] bool uses_alibi(const ModelShape& shape);
/// Makes the biases.
void prepare_alibi(Program& p);
/// Falcon keeps biases and mask in one.
void bias_mask(Program& p);

/// Multi-head latent attention's heads (DeepSeek).
[[nodiscard]] Heads latent_heads(Program& p, const Parameters& of, const Tensor& x);

}  // namespace zplan::symbolic
