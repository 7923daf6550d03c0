// Dense decoders with layer norms and separate query, key and value.
// Source: transformers 5.23 configuration_<family>.py, modeling_<family>.py.
#include "models/architectures/decoder.h"
#include "models/architectures/families.h"

namespace zplan::architectures {

namespace {

ModelShape layer_norm_shape(const JsonReader& config, const SizeRules& rules = {}) {
  ModelShape shape = read_sizes(config, rules);
  shape.intermediate_size = intermediate_size(config);
  shape.norm = NormKind::layer;
  return shape;
}

/// Command R: attention and MLP read one norm, which has no bias.
ModelShape cohere_shape(const JsonReader& config) {
  ModelShape shape = layer_norm_shape(config, {.default_tied = true});
  shape.parallel_attention = true;
  return shape;
}

/// A weight per head and feature.
Tensors norms_of_each_head(const ModelShape& shape) {
  Tensors tensors = head_norms(shape);
  tensors[0].shape.insert(tensors[0].shape.begin(), shape.attention_heads);
  tensors[1].shape.insert(tensors[1].shape.begin(), shape.key_value_heads);
  return tensors;
}

/// StableLM keeps one module per head.
Tensors stablelm_head_norms(const ModelShape& shape) {
  std::vector<Tensors> all;
  for (std::int64_t head = 0; head < shape.attention_heads; ++head)
    all.push_back(norm("self_attn.q_layernorm.norms." + std::to_string(head), shape.head_size));
  for (std::int64_t head = 0; head < shape.key_value_heads; ++head)
    all.push_back(norm("self_attn.k_layernorm.norms." + std::to_string(head), shape.head_size));
  return join(all);
}

}  // namespace

Model phi(const JsonReader& config) {
  ModelShape shape = layer_norm_shape(config, {.head_size = {}});
  shape.gated_mlp = false;
  shape.parallel_attention = true;
  shape.query_key_norm = config.boolean_or("qk_layernorm", false);
  shape.dropout = dropout(config, "resid_pdrop");
  Tensors layer = attention(shape, both(true), {.output = "dense"});
  if (shape.query_key_norm) {
    layer = join({layer, norm("self_attn.q_layernorm", shape.head_size, true),
                  norm("self_attn.k_layernorm", shape.head_size, true)});
  }
  const TwoLayers layers{.up = "mlp.fc1", .down = "mlp.fc2", .width = shape.intermediate_size, .bias = true};
  Model model = decoder(shape, join({layer, mlp(shape, layers), norms(shape, {"input_layernorm"}, true)}));
  model.inventory.after =
      join({norm("model.final_layernorm", shape.hidden_size, true), head(shape, "lm_head", true)});
  return model;
}

Model cohere(const JsonReader& config) {
  ModelShape shape = cohere_shape(config);
  shape.query_key_norm = config.boolean_or("use_qk_norm", false);
  Tensors layer = attention(shape, both(config.boolean_or("attention_bias", false)));
  if (shape.query_key_norm) layer = join({layer, norms_of_each_head(shape)});
  return decoder(shape, join({layer, dense_mlp(shape), norms(shape, {"input_layernorm"})}));
}

Model cohere2(const JsonReader& config) {
  ModelShape shape = cohere_shape(config);
  shape.sliding_window = sliding_window(config, 4096);
  shape.sliding_layers = count_sliding(config, shape, all_but_each_nth,
                                       config.integer_or("sliding_window_pattern", 4, 1, kMostLayers));
  return decoder(shape, join({attention(shape, both(config.boolean_or("attention_bias", false))),
                              dense_mlp(shape), norms(shape, {"input_layernorm"})}));
}

Model stablelm(const JsonReader& config) {
  ModelShape shape = layer_norm_shape(config, {.head_size = {}, .default_key_value_heads = 32});
  shape.parallel_attention = config.boolean_or("use_parallel_residual", false);
  shape.query_key_norm = config.boolean_or("qk_layernorm", false);
  shape.dropout = dropout(config, "hidden_dropout");
  Tensors layer = attention(shape, {.input = config.boolean_or("use_qkv_bias", false)});
  if (shape.query_key_norm) layer = join({layer, stablelm_head_norms(shape)});
  const Tensors block_norms =
      shape.parallel_attention ? norms(shape, {"input_layernorm"}, true) : usual_norms(shape, true);
  return kept_whole(decoder(shape, join({layer, dense_mlp(shape), block_norms}), true),
                    {TensorRole::token_embedding, TensorRole::head});
}

Model starcoder2(const JsonReader& config) {
  ModelShape shape = layer_norm_shape(config, {.default_key_value_heads = 2, .default_tied = true});
  shape.gated_mlp = false;
  shape.dropout = dropout(config, "residual_dropout");
  slide_everywhere(shape, sliding_window(config, 0));
  const bool bias = config.boolean_or("use_bias", true);
  const TwoLayers layers{
      .up = "mlp.c_fc", .down = "mlp.c_proj", .width = shape.intermediate_size, .bias = bias};
  return decoder(shape, join({attention(shape, both(bias)), mlp(shape, layers), usual_norms(shape, true)}),
                 true);
}

Model nemotron(const JsonReader& config) {
  ModelShape shape = layer_norm_shape(config);
  shape.gated_mlp = false;
  const TwoLayers layers{.up = "mlp.up_proj",
                         .down = "mlp.down_proj",
                         .width = shape.intermediate_size,
                         .bias = config.boolean_or("mlp_bias", false)};
  return decoder(shape,
                 join({attention(shape, both(config.boolean_or("attention_bias", false))), mlp(shape, layers),
                       usual_norms(shape, true)}),
                 true);
}

}  // namespace zplan::architectures
