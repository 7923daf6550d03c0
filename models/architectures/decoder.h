#pragma once
// The layout that most decoders share: model.embed_tokens, model.layers.{}, model.norm, lm_head.

#include "models/architectures/parts.h"
#include "models/architectures/sizes.h"

namespace zplan::architectures {

/// A decoder of equal layers; `norm_bias` is for the final norm.
[[nodiscard]] Model decoder(const ModelShape& shape, Tensors layer, bool norm_bias = false);
/// A decoder of several kinds of layers.
[[nodiscard]] Model decoder(const ModelShape& shape, std::vector<LayerKind> kinds,
                            std::vector<std::size_t> layers);

/// Norms of the width of the model, one per path.
[[nodiscard]] Tensors norms(const ModelShape& shape, const std::vector<std::string>& paths,
                            bool bias = false);
/// input_layernorm and post_attention_layernorm.
[[nodiscard]] Tensors usual_norms(const ModelShape& shape, bool bias = false);
/// gate_proj, up_proj and down_proj of the dense feed-forward.
[[nodiscard]] Tensors dense_mlp(const ModelShape& shape, bool bias = false);
/// q_norm and k_norm over each head.
[[nodiscard]] Tensors head_norms(const ModelShape& shape);
/// q_norm and k_norm over all heads at once.
[[nodiscard]] Tensors width_norms(const ModelShape& shape);

}  // namespace zplan::architectures
