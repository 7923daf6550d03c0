#include "models/architectures/decoder.h"

namespace zplan::architectures {

Model decoder(const ModelShape& shape, Tensors layer, bool norm_bias) {
  return assemble(shape, {.prefix = "model.layers.{}.",
                          .before = token_embedding(shape, "model.embed_tokens"),
                          .kinds = {{"decoder", std::move(layer)}},
                          .layers = all_alike(shape),
                          .after = join({norm("model.norm", shape.hidden_size, norm_bias), head(shape)})});
}

Model decoder(const ModelShape& shape, std::vector<LayerKind> kinds, std::vector<std::size_t> layers) {
  return assemble(shape, {.prefix = "model.layers.{}.",
                          .before = token_embedding(shape, "model.embed_tokens"),
                          .kinds = std::move(kinds),
                          .layers = std::move(layers),
                          .after = join({norm("model.norm", shape.hidden_size), head(shape)})});
}

Tensors norms(const ModelShape& shape, const std::vector<std::string>& paths, bool bias) {
  std::vector<Tensors> all;
  for (const std::string& path : paths) all.push_back(norm(path, shape.hidden_size, bias));
  return join(all);
}

Tensors usual_norms(const ModelShape& shape, bool bias) {
  return norms(shape, {"input_layernorm", "post_attention_layernorm"}, bias);
}

Tensors dense_mlp(const ModelShape& shape, bool bias) {
  return gated_mlp(shape, {.width = shape.intermediate_size, .bias = bias});
}

Tensors head_norms(const ModelShape& shape) {
  return join({norm("self_attn.q_norm", shape.head_size), norm("self_attn.k_norm", shape.head_size)});
}

Tensors width_norms(const ModelShape& shape) {
  return join({norm("self_attn.q_norm", shape.attention_heads * shape.head_size),
               norm("self_attn.k_norm", shape.key_value_heads * shape.head_size)});
}

}  // namespace zplan::architectures
