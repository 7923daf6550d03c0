// Gemma 1, 2 and 3 (the text part). Source: transformers 5.23 configuration_gemma*.py, modeling_gemma*.py.
#include "models/architectures/decoder.h"

namespace zplan::architectures {

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
