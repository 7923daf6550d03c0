#pragma once
// Functions that attention shares between its files: projections, rotation, latent attention, ALiBi.

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "planner/model_trace/program.h"

namespace zplan::symbolic {

/// Heads are queries [b, a, s, d], keys and values [b, k, s, d], as views or copies in the layout that the
/// architecture's code leaves.
struct Heads {
  Tensor query, key, value;
  Tensors locals{};  ///< local variables of the attention's forward, until its output is projected
};

/// Rotates queries and keys by their positions.
void rotate(Program& p, Heads& heads);
/// Rotates queries and keys as transformers writes it.
void rotate_as_transformers(Program& p, Heads& heads);
/// Rotates queries and keys into new memory, in a kernel each that keeps nothing; `backward` turns their
/// gradients.
void rotate_in_one_kernel(Program& p, Heads& heads, std::function<Tensors(Tensors&)> backward);

/// Records self-attention as transformers writes it.
[[nodiscard]] Tensor attention_of_transformers(Program& p, const Parameters& of, const Tensor& x,
                                               bool sliding);
/// Normalises queries and keys of each head, where the architecture has such norms.
void norm_queries_and_keys(Program& p, const Parameters& of, Heads& heads);
/// Returns the heads of one projection: torch.split into all queries, all keys, all values.
[[nodiscard]] Heads split_whole(Program& p, const Tensor& both);
/// Returns the weight of the projection onto queries ('q'), keys ('k') or values ('v').
[[nodiscard]] const Parameter& projection(const Parameters& of, char letter);

/// Passes keys and values through the cache, which copies them, where the model fills one.
void keep_in_cache(Program& p, Heads& heads, bool sliding);

/// Returns how many features of each head are rotated.
[[nodiscard]] std::int64_t rotary_features(const Program& p);
/// Returns x·cos + (−second half, first half)·sin.
[[nodiscard]] Tensor turned_halves(Program& p, const Tensor& x, const Tensor& cosines, const Tensor& sines);

/// Returns (−second, first) of each pair of neighbouring features.
[[nodiscard]] Tensor rotate_neighbours(Program& p, const Tensor& x);

/// Pairs holds two halves of the features; each feature of one half is rotated with one of the other.
struct Pairs {
  Tensor first, second;
};
/// Returns the concatenation of first·cos − second·sin and second·cos + first·sin.
[[nodiscard]] Tensor turned_pairs(Program& p, const Pairs& x, const Tensor& cosines, const Tensor& sines);

/// Returns the weight of the one projection onto queries, keys and values.
[[nodiscard]] const Parameter& attention_input(const Program& p, const Parameters& of);
/// Returns the weight of the output projection.
[[nodiscard]] const Parameter& attention_output(const Program& p, const Parameters& of);

/// Records the attention of an architecture that shares its implementation with no other; empty for all
/// others.
[[nodiscard]] std::optional<Tensor> own_attention(Program& p, const Parameters& of, const Tensor& x,
                                                  bool sliding);

/// Records the gated delta net that some layers have instead of attention.
[[nodiscard]] Tensor delta_net(Program& p, const Parameters& of, const Tensor& x);

/// True if attention scores are biased by position (ALiBi).
[[nodiscard]] bool uses_alibi(const ModelShape& shape);
/// Records the biases.
void prepare_alibi(Program& p);
/// Records Falcon's sum of biases and mask.
void bias_mask(Program& p);

/// Multi-head latent attention's heads (DeepSeek).
[[nodiscard]] Heads latent_heads(Program& p, const Parameters& of, const Tensor& x);

}  // namespace zplan::symbolic
