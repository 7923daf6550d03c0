// GLM-4 dense. Source: transformers 5.23 configuration_glm.py, modeling_glm.py, modeling_glm4.py.
#include "models/architectures/decoder.h"
#include "models/architectures/families.h"

namespace zplan::architectures {

namespace {

ModelShape glm_shape(const JsonReader& config) {
  ModelShape shape = read_sizes(config, {.default_key_value_heads = 2, .default_head_size = 128});
  shape.intermediate_size = intermediate_size(config);
  shape.fused_gate_up = true;
  return shape;
}

Tensors glm_layer(const JsonReader& config, const ModelShape& shape) {
  return join({attention(shape, {.input = config.boolean_or("attention_bias", true)}),
               fused_gated_mlp(shape, "mlp.gate_up_proj", "mlp.down_proj"), usual_norms(shape)});
}

}  // namespace

Model glm(const JsonReader& config) {
  const ModelShape shape = glm_shape(config);
  return decoder(shape, glm_layer(config, shape));
}

Model glm4(const JsonReader& config) {
  ModelShape shape = glm_shape(config);
  shape.sandwich_norms = true;
  return decoder(shape, join({glm_layer(config, shape),
                              norms(shape, {"post_self_attn_layernorm", "post_mlp_layernorm"})}));
}

}  // namespace zplan::architectures
