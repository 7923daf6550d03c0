// Dense decoders with RMS norms. Defaults are those of transformers 5.23 configuration_<family>.py, layouts
// those of modeling_<family>.py; tests/reference/named_parameters holds each against the library.
#include <utility>

#include "models/architectures/descriptor.h"
#include "models/architectures/parts.h"

namespace zplan::architectures {

namespace {

/// One weight for queries, keys and values, which stands behind the output projection.
Model phi3(const JsonReader& config, const Descriptor& about) {
  const ModelShape shape = shape_of(config, about);
  Tensors attention = fused_attention(shape, {}, "self_attn.qkv_proj", "self_attn.o_proj");
  std::swap(attention[0], attention[1]);
  return decoder(about, shape,
                 join({attention, block_feed_forward(config, about, shape), block_norms(about, shape)}));
}

/// Qwen 2 and 3: the layers from max_window_layers on slide, where use_sliding_window says so at all.
constexpr WindowRule kLateWindow{.size = 4096,
                                 .layers = WindowRule::Layers::from_nth,
                                 .key = "max_window_layers",
                                 .n = 28,
                                 .on = {"use_sliding_window"}};

}  // namespace

Descriptors decoders() {
  // OLMo 2 and 3, EXAONE 4.
  constexpr Modules norms_behind{.norm_before_attention = {},
                                 .norm_behind_attention = "post_attention_layernorm",
                                 .norm_before_feed_forward = {},
                                 .norm_behind_feed_forward = "post_feedforward_layernorm"};
  return {
      {.model_type = "llama",
       .causal_lm_class = "LlamaForCausalLM",
       .block = {.mlp_bias = {"mlp_bias"}},
       .operators = {.measured = true}},
      {.model_type = "granite",
       .causal_lm_class = "GraniteForCausalLM",
       .block = {.mlp_bias = {"mlp_bias"}},
       .operators = {.scales_residual = true, .scales_logits = true, .measured = true}},
      {.model_type = "smollm3",
       .causal_lm_class = "SmolLM3ForCausalLM",
       .sizes = {.default_key_value_heads = 4, .default_tied = true},
       .window = WindowRule{.layers = WindowRule::Layers::each_nth,
                            .key = "no_rope_layer_interval",
                            .n = 4,
                            .on = {"use_sliding_window"}},
       .block = {.mlp_bias = {"mlp_bias"}},
       .operators = {.rotated_layers = RotatedLayers::all_but_each_fourth, .measured = true}},
      {.model_type = "mistral",
       .causal_lm_class = "MistralForCausalLM",
       .sizes = {.default_key_value_heads = 8},
       .window = WindowRule{.size = 4096},
       .block = {.input_bias = {}, .output_bias = {}},
       .operators = {.masks = Masks::one, .measured = true}},
      {.model_type = "ministral3",  // queries are scaled by their positions
       .causal_lm_class = "Ministral3ForCausalLM",
       .sizes = {.default_key_value_heads = 8},
       .block = {.input_bias = {}, .output_bias = {}},
       .operators = {.scales_queries = true, .masks = Masks::one}},
      {.model_type = "qwen2",
       .causal_lm_class = "Qwen2ForCausalLM",
       .sizes = {.default_key_value_heads = 32},
       .window = kLateWindow,
       .block = {.input_bias = {.otherwise = true}, .output_bias = {}},
       .operators = {.full_attention_every = 0, .measured = true}},
      {.model_type = "qwen3",
       .causal_lm_class = "Qwen3ForCausalLM",
       .sizes = {.default_key_value_heads = 32, .default_head_size = 128},
       .window = kLateWindow,
       .block = {.query_key_norm = QueryKeyNorm::of_heads},
       .operators = {.full_attention_every = 0, .measured = true}},
      {.model_type = "phi3",
       .causal_lm_class = "Phi3ForCausalLM",
       .read = phi3,
       .feed_forward = FeedForward::fused_gated,
       .fused_query_key_value = true,
       .dropout = {"resid_pdrop"},
       .rotary = {.share = "partial_rotary_factor"},
       .window = WindowRule{},
       .block = {.up = "mlp.gate_up_proj", .down = "mlp.down_proj"},
       .operators =
           {.joint_heads = JointHeads::sliced, .rotary = Rotary::phi3, .masks = Masks::one, .measured = true},
       .libraries = {.autotp_refuses = true}},
      {.model_type = "olmo",
       .causal_lm_class = "OlmoForCausalLM",
       .operators = {.norm = NormForm::layer,
                     .norms_span_heads = true,
                     .bare_norms = true,
                     .views = HeadViews::all_last,
                     .rotary = Rotary::olmo,
                     .measured = true}},
      {.model_type = "olmo2",
       .causal_lm_class = "Olmo2ForCausalLM",
       .block = {.query_key_norm = QueryKeyNorm::of_width},
       .modules = norms_behind,
       .operators = {.norm = NormForm::wide,
                     .norms_span_heads = true,
                     .views = HeadViews::all_last,
                     .rotary = Rotary::olmo,
                     .measured = true},
       .libraries = {.autotp_refuses = true}},
      {.model_type = "olmo3",
       .causal_lm_class = "Olmo3ForCausalLM",
       .window = WindowRule{.size = 4096, .layers = WindowRule::Layers::all_but_each_nth, .n = 4},
       .block = {.query_key_norm = QueryKeyNorm::of_width},
       .modules = norms_behind,
       .operators = {.norm = NormForm::wide,
                     .norms_span_heads = true,
                     .views = HeadViews::all_last,
                     .rotary = Rotary::olmo,
                     .full_attention_every = 4,
                     .tables_of_both_kinds = true,
                     .measured = true}},
      // The pattern was once written as a word of L and G; transformers reads a number.
      {.model_type = "exaone4",
       .causal_lm_class = "Exaone4ForCausalLM",
       .sizes = {.default_key_value_heads = 32},
       .window = WindowRule{.size = 4096,
                            .layers = WindowRule::Layers::all_but_each_nth,
                            .key = "sliding_window_pattern",
                            .n = 4},
       .block = {.input_bias = {}, .output_bias = {}, .query_key_norm = QueryKeyNorm::of_heads},
       .modules = norms_behind,
       .operators = {.views = HeadViews::norms_last,
                     .rotated_layers = RotatedLayers::sliding,
                     .full_attention_every = 4,
                     .measured = true}},
      {.model_type = "seed_oss",
       .causal_lm_class = "SeedOssForCausalLM",
       .sizes = {.default_key_value_heads = 8, .default_head_size = 128},
       .dropout = {"residual_dropout", 0.1},
       .attention_dropout = DropoutRule{"attention_dropout", 0.1},
       .block = {.input_bias = {"attention_bias", true},
                 .output_bias = {"attention_out_bias"},
                 .mlp_bias = {"mlp_bias"}},
       .operators = {.attention_dropout = true, .drops_inside = true, .measured = true}},
      {.model_type = "ernie4_5",
       .causal_lm_class = "Ernie4_5ForCausalLM",
       .sizes = {.default_key_value_heads = 2, .default_head_size = 128, .default_tied = true},
       .block = {.input_bias = {"use_bias"}, .output_bias = {"use_bias"}, .mlp_bias = {"use_bias"}},
       .operators = {.rotary = Rotary::ernie, .measured = true}},
      {.model_type = "arcee",
       .causal_lm_class = "ArceeForCausalLM",
       .feed_forward = FeedForward::plain,
       .block = {.mlp_bias = {"mlp_bias"}},
       .operators = {.activation = Activation::relu_squared, .measured = true}},
  };
}

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

namespace {

Model gemma3(const JsonReader& config, const Descriptor& about) {
  Descriptor text = about;
  text.sizes.default_tied = config.boolean_or("tie_word_embeddings", true);
  return read_decoder(config.at("text_config"), text);
}

}  // namespace

Descriptors google() {
  constexpr Modules four_norms{.norm_behind_attention = "post_attention_layernorm",
                               .norm_before_feed_forward = "pre_feedforward_layernorm",
                               .norm_behind_feed_forward = "post_feedforward_layernorm"};
  // Files of Gemma 3 leave out whatever equals the defaults of Gemma3TextConfig, heads and vocabulary
  // included.
  const Descriptor gemma3_text{.model_type = "gemma3_text",
                               .causal_lm_class = "Gemma3ForCausalLM",
                               .sizes = {.default_attention_heads = 8,
                                         .default_key_value_heads = 4,
                                         .default_head_size = 256,
                                         .default_vocabulary = 262'208,
                                         .default_tied = true},
                               .window = WindowRule{.size = 4096,
                                                    .layers = WindowRule::Layers::all_but_each_nth,
                                                    .key = "sliding_window_pattern",
                                                    .n = 6},
                               .soft_cap = SoftCap::where_given,
                               .block = {.query_key_norm = QueryKeyNorm::of_heads},
                               .modules = four_norms,
                               .operators = {.norm = NormForm::one_more,
                                             .activation = Activation::gelu,
                                             .views = HeadViews::norms_last,
                                             .full_attention_every = 6,
                                             .tables_of_both_kinds = true,
                                             .scales_embedding = true,
                                             .measured = true}};
  Descriptor gemma3_whole = gemma3_text;
  gemma3_whole.model_type = "gemma3";
  gemma3_whole.causal_lm_class = "Gemma3ForConditionalGeneration";
  gemma3_whole.read = gemma3;
  gemma3_whole.operators.measured = false;
  return {
      {.model_type = "gemma",
       .causal_lm_class = "GemmaForCausalLM",
       .sizes = {.default_key_value_heads = 16, .default_head_size = 256, .default_tied = true},
       .left_whole = {TensorRole::token_embedding},
       .operators = {.norm = NormForm::one_more,
                     .activation = Activation::gelu,
                     .scales_embedding = true,
                     .measured = true}},
      {.model_type = "gemma2",
       .causal_lm_class = "Gemma2ForCausalLM",
       .sizes = {.default_key_value_heads = 4, .default_head_size = 256, .default_tied = true},
       .window = WindowRule{.size = 4096, .layers = WindowRule::Layers::all_but_each_nth, .n = 2},
       .soft_cap = SoftCap::unless_null,
       .modules = four_norms,
       .left_whole = {TensorRole::token_embedding},
       .operators = {.norm = NormForm::one_more,
                     .activation = Activation::gelu,
                     .kernels = AttentionKernels::no_sdpa,
                     .caps_scores = true,
                     .scales_embedding = true,
                     .measured = true}},
      gemma3_text,
      gemma3_whole,
  };
}

}  // namespace zplan::architectures
