// Gemma 1, 2 and 3 (the text part). Source: transformers 5.23 configuration_gemma*.py, modeling_gemma*.py.
#include <nlohmann/json.hpp>

#include "models/architectures/decoder.h"
#include "models/architectures/families.h"

namespace zplan::architectures {

namespace {

Tensors four_norms(const ModelShape& shape) {
  return norms(shape, {"input_layernorm", "post_attention_layernorm", "pre_feedforward_layernorm",
                       "post_feedforward_layernorm"});
}

Tensors gemma_attention(const JsonReader& config, const ModelShape& shape) {
  const bool bias = config.boolean_or("attention_bias", false);
  return attention(shape, {.input = bias, .output = bias});
}

ModelShape gemma_shape(const JsonReader& config, const SizeRules& rules) {
  ModelShape shape = read_sizes(config, rules);
  shape.intermediate_size = intermediate_size(config);
  return shape;
}

Model gemma3_of(const JsonReader& config, bool default_tied) {
  // Files of Gemma 3 leave out whatever equals the defaults of Gemma3TextConfig, heads and vocabulary
  // included.
  ModelShape shape = gemma_shape(config, {.default_attention_heads = 8,
                                          .default_key_value_heads = 4,
                                          .default_head_size = 256,
                                          .default_vocabulary = 262'208,
                                          .default_tied = default_tied});
  shape.query_key_norm = shape.sandwich_norms = true;
  shape.logit_soft_cap = config.has("final_logit_softcapping");
  shape.sliding_window = sliding_window(config, 4096);
  shape.sliding_layers = count_sliding(config, shape, all_but_each_nth,
                                       config.integer_or("sliding_window_pattern", 6, 1, kMostLayers));
  return decoder(
      shape, join({gemma_attention(config, shape), head_norms(shape), dense_mlp(shape), four_norms(shape)}));
}

}  // namespace

Model gemma(const JsonReader& config) {
  const ModelShape shape =
      gemma_shape(config, {.default_key_value_heads = 16, .default_head_size = 256, .default_tied = true});
  return kept_whole(
      decoder(shape, join({gemma_attention(config, shape), dense_mlp(shape), usual_norms(shape)})),
      {TensorRole::token_embedding});
}

Model gemma2(const JsonReader& config) {
  ModelShape shape =
      gemma_shape(config, {.default_key_value_heads = 4, .default_head_size = 256, .default_tied = true});
  shape.sandwich_norms = true;
  // Left out it is 30, so only null switches it off.
  shape.logit_soft_cap =
      !config.raw().contains("final_logit_softcapping") || config.has("final_logit_softcapping");
  shape.sliding_window = sliding_window(config, 4096);
  shape.sliding_layers = count_sliding(config, shape, all_but_each_nth, 2);
  return kept_whole(
      decoder(shape, join({gemma_attention(config, shape), dense_mlp(shape), four_norms(shape)})),
      {TensorRole::token_embedding});
}

Model gemma3_text(const JsonReader& config) { return gemma3_of(config, true); }

Model gemma3(const JsonReader& config) {
  return gemma3_of(config.at("text_config"), config.boolean_or("tie_word_embeddings", true));
}

}  // namespace zplan::architectures
