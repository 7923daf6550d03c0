// Dense decoders with layer norms and separate query, key and value.
// Source: transformers 5.23 configuration_<family>.py, modeling_<family>.py.
#include "models/architectures/parts.h"

namespace zplan::architectures {

namespace {

/// StableLM keeps one module per head.
Tensors stablelm_head_norms(const ModelShape& shape) {
  std::vector<Tensors> all;
  for (std::int64_t head = 0; head < shape.attention_heads; ++head)
    all.push_back(norm("self_attn.q_layernorm.norms." + std::to_string(head), shape.head_size));
  for (std::int64_t head = 0; head < shape.key_value_heads; ++head)
    all.push_back(norm("self_attn.k_layernorm.norms." + std::to_string(head), shape.head_size));
  return join(all);
}

Model stablelm(const JsonReader& config, const Descriptor& about) {
  ModelShape shape = shape_of(config, about);
  if (shape.parallel_attention) shape.modules.norm_before_feed_forward = {};
  Tensors layer = block_attention(config, about, shape);
  if (config.boolean_or("qk_layernorm", false)) layer = join({layer, stablelm_head_norms(shape)});
  return decoder(about, shape,
                 join({layer, block_feed_forward(config, about, shape), block_norms(about, shape)}));
}

}  // namespace

Descriptors layer_norm_decoders() {
  // Command R: attention and MLP read one norm, which has no bias.
  const Descriptor cohere{
      .model_type = "cohere",
      .causal_lm_class = "CohereForCausalLM",
      .sizes = {.default_tied = true},
      .parallel = {.otherwise = true},
      .block = {.query_key_norm = QueryKeyNorm::of_each_head, .norms_queries_and_keys = {"use_qk_norm"}},
      .modules = {.norm_before_feed_forward = {}},
      .operators = {.norm = NormForm::layer_by_parts,
                    .norm_life = NormLife::layer,
                    .views = HeadViews::transposes_last,
                    .rotary = Rotary::cohere,
                    .sum = ParallelSum::input_first,
                    .names_branches = true,
                    .scales_logits = true,
                    .measured = true}};
  Descriptor cohere2 = cohere;
  cohere2.model_type = "cohere2";
  cohere2.causal_lm_class = "Cohere2ForCausalLM";
  cohere2.window = WindowRule{
      .size = 4096, .layers = WindowRule::Layers::all_but_each_nth, .key = "sliding_window_pattern", .n = 4};
  cohere2.block.query_key_norm = QueryKeyNorm::none;
  cohere2.operators.rotated_layers = RotatedLayers::sliding;
  cohere2.operators.full_attention_every = 4;
  return {
      cohere,
      cohere2,
      {.model_type = "phi",
       .causal_lm_class = "PhiForCausalLM",
       .sizes = {.head_size = {}},
       .feed_forward = FeedForward::plain,
       .parallel = {.otherwise = true},
       .dropout = {"resid_pdrop"},
       .embedding_dropout = DropoutRule{"embd_pdrop"},
       .rotary = {.share = "partial_rotary_factor"},
       .block = {.input_bias = {.otherwise = true},
                 .output_bias = {.otherwise = true},
                 .mlp_bias = {.otherwise = true},
                 .query_key_norm = QueryKeyNorm::of_heads,
                 .norms_queries_and_keys = {"qk_layernorm"},
                 .up = "mlp.fc1",
                 .down = "mlp.fc2",
                 .norm_bias = true,
                 .head_bias = true},
       .modules = {.norm_before_feed_forward = {},
                   .final_norm = "final_layernorm",
                   .query_norm = "q_layernorm",
                   .key_norm = "k_layernorm",
                   .attention_output = "dense"},
       .operators = {.norm = NormForm::layer,
                     .norm_life = NormLife::layer,
                     .activation = Activation::gelu_by_parts,
                     .views = HeadViews::norms_last,
                     .rotary = Rotary::phi,
                     .rotary_share = 0.5,
                     .names_branches = true,
                     .embedding_dropout = true,
                     .measured = true}},
      {.model_type = "stablelm",
       .causal_lm_class = "StableLmForCausalLM",
       .read = stablelm,
       .sizes = {.head_size = {}, .default_key_value_heads = 32},
       .parallel = {"use_parallel_residual"},
       .dropout = {"hidden_dropout"},
       .rotary = {.share = "partial_rotary_factor"},
       .block = {.input_bias = {"use_qkv_bias"}, .output_bias = {}, .norm_bias = true},
       .modules = {.query_norm = "q_layernorm", .key_norm = "k_layernorm"},
       .left_whole = {TensorRole::token_embedding, TensorRole::head},
       .operators = {.norm = NormForm::layer,
                     .norm_life = NormLife::first_in_layer,
                     .views = HeadViews::all_last,
                     .rotary = Rotary::phi,
                     .rotary_share = 0.25,
                     .sum = ParallelSum::input_first,
                     .names_branches = true,
                     .measured = true}},
      {.model_type = "starcoder2",
       .causal_lm_class = "Starcoder2ForCausalLM",
       .sizes = {.default_key_value_heads = 2, .default_tied = true},
       .feed_forward = FeedForward::plain,
       .dropout = {"residual_dropout"},
       .embedding_dropout = DropoutRule{"embedding_dropout"},
       .attention_dropout = DropoutRule{"attention_dropout"},
       .window = WindowRule{},
       .block = {.input_bias = {"use_bias", true},
                 .output_bias = {"use_bias", true},
                 .mlp_bias = {"use_bias", true},
                 .up = "mlp.c_fc",
                 .down = "mlp.c_proj",
                 .norm_bias = true},
       .operators = {.norm = NormForm::layer,
                     .activation = Activation::gelu,
                     .attention_dropout = true,
                     .masks = Masks::one,
                     .embedding_dropout = true,
                     .drops_inside = true,
                     .measured = true}},
      {.model_type = "nemotron",
       .causal_lm_class = "NemotronForCausalLM",
       .feed_forward = FeedForward::plain,
       .rotary = {.share = "partial_rotary_factor"},
       .block = {.mlp_bias = {"mlp_bias"}, .norm_bias = true},
       .operators = {.norm = NormForm::layer_one_more,
                     .activation = Activation::relu_squared,
                     .rotary = Rotary::nemotron,
                     .rotary_share = 0.5,
                     .measured = true}},
  };
}

}  // namespace zplan::architectures
