// GLM-4 dense. Source: transformers 5.23 configuration_glm.py, modeling_glm.py, modeling_glm4.py.
#include "models/architectures/descriptor.h"

namespace zplan::architectures {

Descriptors glm() {
  const Descriptor glm{.model_type = "glm",
                       .causal_lm_class = "GlmForCausalLM",
                       .sizes = {.default_key_value_heads = 2, .default_head_size = 128},
                       .feed_forward = FeedForward::fused_gated,
                       .rotary = {.share = "partial_rotary_factor"},
                       .block = {.input_bias = {"attention_bias", true},
                                 .output_bias = {},
                                 .up = "mlp.gate_up_proj",
                                 .down = "mlp.down_proj"},
                       .operators = {.rotary = Rotary::glm, .rotary_share = 0.5, .measured = true},
                       .libraries = {.autotp_refuses = true}};
  Descriptor glm4 = glm;
  glm4.model_type = "glm4";
  glm4.causal_lm_class = "Glm4ForCausalLM";
  glm4.block.behind_last = true;
  glm4.modules.norm_behind_attention = "post_self_attn_layernorm";
  glm4.modules.norm_behind_feed_forward = "post_mlp_layernorm";
  return {glm, glm4};
}

}  // namespace zplan::architectures
