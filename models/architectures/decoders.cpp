// Dense decoders with RMS norms. Defaults are those of transformers 5.23 configuration_<family>.py, layouts
// those of modeling_<family>.py; tests/reference/named_parameters holds each against the library.
#include "models/architectures/decoder.h"
#include "models/architectures/families.h"

namespace zplan::architectures {

namespace {

ModelShape dense_shape(const JsonReader& config, const SizeRules& rules = {}) {
  ModelShape shape = read_sizes(config, rules);
  shape.intermediate_size = intermediate_size(config);
  return shape;
}

bool from_layer(std::int64_t layer, std::int64_t first) { return layer >= first; }
bool each_nth(std::int64_t layer, std::int64_t n) { return (layer + 1) % n == 0; }

/// Qwen 2 and 3: the layers from max_window_layers on slide, where use_sliding_window says so at all.
void slide_late_layers(const JsonReader& config, ModelShape& shape) {
  if (!config.boolean_or("use_sliding_window", false)) return;
  shape.sliding_window = sliding_window(config, 4096);
  shape.sliding_layers =
      count_sliding(config, shape, from_layer, config.integer_or("max_window_layers", 28, 0, kMostLayers));
}

/// OLMo 2 and 3: queries and keys normalised over the whole width, norms behind attention and MLP only.
Tensors olmo2_layer(const JsonReader& config, const ModelShape& shape) {
  return join({attention(shape, both(config.boolean_or("attention_bias", false))), width_norms(shape),
               dense_mlp(shape), norms(shape, {"post_attention_layernorm", "post_feedforward_layernorm"})});
}

/// Llama and those that differ from it in defaults only: one switch for the biases of attention, one for the
/// MLP's.
Tensors llama_layer(const JsonReader& config, const ModelShape& shape) {
  return join({attention(shape, both(config.boolean_or("attention_bias", false))),
               dense_mlp(shape, config.boolean_or("mlp_bias", false)), usual_norms(shape)});
}

}  // namespace

Model llama(const JsonReader& config) {
  const ModelShape shape = dense_shape(config);
  return decoder(shape, llama_layer(config, shape));
}

Model granite(const JsonReader& config) { return llama(config); }

Model smollm3(const JsonReader& config) {
  ModelShape shape = dense_shape(config, {.default_key_value_heads = 4, .default_tied = true});
  if (config.boolean_or("use_sliding_window", false)) {
    shape.sliding_window = sliding_window(config, 0);
    shape.sliding_layers = count_sliding(config, shape, each_nth,
                                         config.integer_or("no_rope_layer_interval", 4, 1, kMostLayers));
  }
  return decoder(shape, llama_layer(config, shape));
}

Model mistral(const JsonReader& config) {
  ModelShape shape = dense_shape(config, {.default_key_value_heads = 8});
  slide_everywhere(shape, sliding_window(config, 4096));
  return decoder(shape, join({attention(shape), dense_mlp(shape), usual_norms(shape)}));
}

Model qwen2(const JsonReader& config) {
  ModelShape shape = dense_shape(config, {.default_key_value_heads = 32});
  slide_late_layers(config, shape);
  return decoder(shape, join({attention(shape, {.input = true}), dense_mlp(shape), usual_norms(shape)}));
}

Model qwen3(const JsonReader& config) {
  ModelShape shape = dense_shape(config, {.default_key_value_heads = 32, .default_head_size = 128});
  shape.query_key_norm = true;
  slide_late_layers(config, shape);
  return decoder(shape, join({attention(shape, both(config.boolean_or("attention_bias", false))),
                              head_norms(shape), dense_mlp(shape), usual_norms(shape)}));
}

Model phi3(const JsonReader& config) {
  ModelShape shape = dense_shape(config);
  shape.fused_query_key_value = shape.fused_gate_up = true;
  shape.dropout = dropout(config, "resid_pdrop");
  slide_everywhere(shape, sliding_window(config, 0));
  Tensors attention = fused_attention(shape, {}, "self_attn.qkv_proj", "self_attn.o_proj");
  std::swap(attention[0], attention[1]);
  return decoder(shape, join({attention, fused_gated_mlp(shape, "mlp.gate_up_proj", "mlp.down_proj"),
                              usual_norms(shape)}));
}

Model olmo(const JsonReader& config) {
  ModelShape shape = dense_shape(config);
  shape.norm = NormKind::layer;  // its norms have no parameters
  Model model = decoder(
      shape, join({attention(shape, both(config.boolean_or("attention_bias", false))), dense_mlp(shape)}));
  model.inventory.after = head(shape);
  return model;
}

Model olmo2(const JsonReader& config) {
  ModelShape shape = dense_shape(config);
  shape.query_key_norm = true;
  return decoder(shape, olmo2_layer(config, shape));
}

Model olmo3(const JsonReader& config) {
  ModelShape shape = dense_shape(config);
  shape.query_key_norm = true;
  shape.sliding_window = sliding_window(config, 4096);
  shape.sliding_layers = count_sliding(config, shape, all_but_each_nth, 4);
  return decoder(shape, olmo2_layer(config, shape));
}

Model exaone4(const JsonReader& config) {
  ModelShape shape = dense_shape(config, {.default_key_value_heads = 32});
  shape.query_key_norm = true;
  shape.sliding_window = sliding_window(config, 4096);
  if (shape.sliding_window > 0) {
    // The pattern was once written as a word of L and G; transformers reads a number.
    shape.sliding_layers = count_sliding(config, shape, all_but_each_nth,
                                         config.integer_or("sliding_window_pattern", 4, 1, kMostLayers));
  }
  return decoder(shape, join({attention(shape), head_norms(shape), dense_mlp(shape),
                              norms(shape, {"post_attention_layernorm", "post_feedforward_layernorm"})}));
}

Model seed_oss(const JsonReader& config) {
  ModelShape shape = dense_shape(config, {.default_key_value_heads = 8, .default_head_size = 128});
  shape.dropout = dropout(config, "residual_dropout", 0.1);
  const Biases biases{.input = config.boolean_or("attention_bias", true),
                      .output = config.boolean_or("attention_out_bias", false)};
  return decoder(shape, join({attention(shape, biases),
                              dense_mlp(shape, config.boolean_or("mlp_bias", false)), usual_norms(shape)}));
}

Model ernie4_5(const JsonReader& config) {
  const ModelShape shape =
      dense_shape(config, {.default_key_value_heads = 2, .default_head_size = 128, .default_tied = true});
  const bool bias = config.boolean_or("use_bias", false);
  return decoder(shape, join({attention(shape, both(bias)), dense_mlp(shape, bias), usual_norms(shape)}));
}

Model arcee(const JsonReader& config) {
  ModelShape shape = dense_shape(config);
  shape.gated_mlp = false;
  const TwoLayers layers{.up = "mlp.up_proj",
                         .down = "mlp.down_proj",
                         .width = shape.intermediate_size,
                         .bias = config.boolean_or("mlp_bias", false)};
  return decoder(shape, join({attention(shape, both(config.boolean_or("attention_bias", false))),
                              mlp(shape, layers), usual_norms(shape)}));
}

}  // namespace zplan::architectures
