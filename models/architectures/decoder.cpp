#include "models/architectures/decoder.h"

namespace zplan::architectures {

namespace {

Tensors query_key_norms(const Descriptor& about, const ModelShape& shape) {
  const QueryKeyNorm kind = about.block.query_key_norm;
  const std::int64_t heads = shape.attention_heads, key_value_heads = shape.key_value_heads;
  const bool whole = kind == QueryKeyNorm::of_width;
  const auto norm_of = [&](std::string_view name, std::int64_t count) {
    Tensors made = norm("self_attn." + std::string(name), whole ? count * shape.head_size : shape.head_size,
                        about.block.norm_bias);
    if (kind == QueryKeyNorm::of_each_head) made[0].shape = {count, shape.head_size};
    return made;
  };
  return join({norm_of(shape.modules.query_norm, heads), norm_of(shape.modules.key_norm, key_value_heads)});
}

Tensors width_norms(const Descriptor& about, const ModelShape& shape,
                    const std::vector<std::string_view>& paths) {
  std::vector<Tensors> all;
  for (const std::string_view path : paths)
    if (!path.empty() && !shape.operators.bare_norms)
      all.push_back(norm(std::string(path), shape.hidden_size, about.block.norm_bias));
  return join(all);
}

}  // namespace

Model decoder(const Descriptor& about, const ModelShape& shape, Tensors layer) {
  return decoder(about, shape, {{"decoder", std::move(layer)}}, all_alike(shape));
}

Model decoder(const Descriptor& about, const ModelShape& shape, std::vector<LayerKind> kinds,
              std::vector<std::size_t> layers) {
  const std::string final_norm = "model." + std::string(shape.modules.final_norm);
  return assemble(shape, {.prefix = "model.layers.{}.",
                          .before = token_embedding(shape, "model.embed_tokens"),
                          .kinds = std::move(kinds),
                          .layers = std::move(layers),
                          .after = join({width_norms(about, shape, {final_norm}),
                                         head(shape, "lm_head", about.block.head_bias)})});
}

Tensors block_attention(const JsonReader& config, const Descriptor& about, const ModelShape& shape) {
  const Block& block = about.block;
  const Tensors projections = attention(
      shape, {.input = is_on(config, block.input_bias), .output = is_on(config, block.output_bias)});
  const bool normed =
      block.query_key_norm != QueryKeyNorm::none && is_on(config, block.norms_queries_and_keys);
  return normed ? join({projections, query_key_norms(about, shape)}) : projections;
}

Tensors block_feed_forward(const JsonReader& config, const Descriptor& about, const ModelShape& shape) {
  const bool bias = is_on(config, about.block.mlp_bias);
  const std::string &up = about.block.up, &down = about.block.down;
  switch (about.feed_forward) {
    case FeedForward::gated: return gated_mlp(shape, {.width = shape.intermediate_size, .bias = bias});
    case FeedForward::fused_gated: return fused_gated_mlp(shape, up, down);
    case FeedForward::plain:
      return mlp(shape, {.up = up, .down = down, .width = shape.intermediate_size, .bias = bias});
  }
  return {};
}

Tensors block_norms(const Descriptor& about, const ModelShape& shape) {
  const Modules& names = shape.modules;
  if (about.block.behind_last)
    return width_norms(about, shape,
                       {names.norm_before_attention, names.norm_before_feed_forward,
                        names.norm_behind_attention, names.norm_behind_feed_forward});
  return width_norms(about, shape,
                     {names.norm_before_attention, names.norm_behind_attention,
                      names.norm_before_feed_forward, names.norm_behind_feed_forward});
}

Model read_decoder(const JsonReader& config, const Descriptor& about) {
  const ModelShape shape = shape_of(config, about);
  return decoder(about, shape,
                 join({block_attention(config, about, shape), block_feed_forward(config, about, shape),
                       block_norms(about, shape)}));
}

}  // namespace zplan::architectures
