#pragma once
// Routed experts, shared by the architectures that have them.

#include <vector>

#include "models/architectures/decoder.h"

namespace zplan::architectures {

/// shape.experts; every layer is routed until `set_layers` says otherwise. InputError where more experts are
/// chosen than there are.
void read_mixture(const JsonReader& config, ModelShape& shape, const MixtureRules& rules);

/// Kinds "dense" (0) and "mixture_of_experts" (1): which one each layer is, also noted in shape.experts.
[[nodiscard]] std::vector<std::size_t> set_layers(ModelShape& shape, const std::vector<bool>& routed);

/// Layers that Qwen's mlp_only_layers and decoder_sparse_step leave routed.
[[nodiscard]] std::vector<bool> qwen_routed(const JsonReader& config, const ModelShape& shape);

/// Router, stacks and a shared expert with a gate of its own (Qwen 2).
[[nodiscard]] Tensors qwen2_experts(const ModelShape& shape);

/// The first `first_k_dense_replace` layers are dense, the others routed, with shared experts. The two kinds
/// differ in the feed-forward only.
[[nodiscard]] Model dense_then_routed(const JsonReader& config, const Descriptor& about, ModelShape shape,
                                      const Tensors& attention);

}  // namespace zplan::architectures
