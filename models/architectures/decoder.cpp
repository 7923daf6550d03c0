#include "models/architectures/decoder.h"

namespace zplan::architectures {

namespace {

Tensors query_key_norms(const ModelShape& shape, QueryKeyNorm kind) {
  const std::int64_t heads = shape.attention_heads, key_value_heads = shape.key_value_heads;
  const bool whole = kind == QueryKeyNorm::of_width;
  Tensors query = norm("self_attn.q_norm", whole ? heads * shape.head_size : shape.head_size);
  Tensors key = norm("self_attn.k_norm", whole ? key_value_heads * shape.head_size : shape.head_size);
  if (kind == QueryKeyNorm::of_each_head) {
    query[0].shape = {heads, shape.head_size};
    key[0].shape = {key_value_heads, shape.head_size};
  }
  return join({query, key});
}

}  // namespace

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

Tensors block_attention(const JsonReader& config, const Descriptor& about, const ModelShape& shape) {
  const Block& block = about.block;
  const Tensors projections = attention(
      shape, {.input = is_on(config, block.input_bias), .output = is_on(config, block.output_bias)});
  const bool normed =
      block.query_key_norm != QueryKeyNorm::none && is_on(config, block.norms_queries_and_keys);
  return normed ? join({projections, query_key_norms(shape, block.query_key_norm)}) : projections;
}

Tensors block_feed_forward(const JsonReader& config, const Descriptor& about, const ModelShape& shape) {
  const bool bias = is_on(config, about.block.mlp_bias);
  const std::string up(about.block.up), down(about.block.down);
  switch (about.feed_forward) {
    case FeedForward::gated: return gated_mlp(shape, {.width = shape.intermediate_size, .bias = bias});
    case FeedForward::fused_gated: return fused_gated_mlp(shape, up, down);
    case FeedForward::plain:
      return mlp(shape, {.up = up, .down = down, .width = shape.intermediate_size, .bias = bias});
  }
  return {};
}

Tensors block_norms(const Descriptor& about, const ModelShape& shape) {
  std::vector<Tensors> all;
  for (const std::string& path : about.block.norms)
    all.push_back(norm(path, shape.hidden_size, about.block.norm_bias));
  return join(all);
}

Model read_decoder(const JsonReader& config, const Descriptor& about) {
  const ModelShape shape = shape_of(config, about);
  return decoder(shape,
                 join({block_attention(config, about, shape), block_feed_forward(config, about, shape),
                       block_norms(about, shape)}),
                 about.block.norm_bias);
}

}  // namespace zplan::architectures
