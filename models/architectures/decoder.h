#pragma once
// The layout that most decoders share: model.embed_tokens, model.layers.{}, model.norm, lm_head.

#include "models/architectures/descriptor.h"
#include "models/architectures/parts.h"

namespace zplan::architectures {

/// A decoder of equal layers.
[[nodiscard]] Model decoder(const Descriptor& about, const ModelShape& shape, Tensors layer);
/// A decoder of several kinds of layers.
[[nodiscard]] Model decoder(const Descriptor& about, const ModelShape& shape, std::vector<LayerKind> kinds,
                            std::vector<std::size_t> layers);

/// Queries, keys, values and the output projection of the descriptor's block, with its norms of queries and
/// keys.
[[nodiscard]] Tensors block_attention(const JsonReader& config, const Descriptor& about,
                                      const ModelShape& shape);
/// The block's dense feed-forward.
[[nodiscard]] Tensors block_feed_forward(const JsonReader& config, const Descriptor& about,
                                         const ModelShape& shape);
/// The norms of the width of the model that the shape's modules name.
[[nodiscard]] Tensors block_norms(const Descriptor& about, const ModelShape& shape);

}  // namespace zplan::architectures
