// Decoders of 2022 and 2023 with query, key and value in one weight: NeoX, Falcon, BLOOM, MPT.
// Source: transformers 5.23 configuration_<family>.py, modeling_<family>.py.
#include <fmt/format.h>

#include "models/architectures/descriptor.h"
#include "models/architectures/parts.h"

namespace zplan::architectures {

namespace {

/// The MLP of BLOOM, Falcon and NeoX.
Tensors h_to_4h(const ModelShape& shape, bool bias) {
  return mlp(shape, {.up = "mlp.dense_h_to_4h",
                     .down = "mlp.dense_4h_to_h",
                     .width = shape.intermediate_size,
                     .bias = bias});
}

Tensors norm_of(const ModelShape& shape, const std::string& path) {
  return norm(path, shape.hidden_size, true);
}

/// Key-value heads as Falcon's three generations have them: num_kv_heads (40B, 180B), one (7B), or all (RW).
std::int64_t falcon_key_value_heads(const JsonReader& config, const ModelShape& shape) {
  if (config.boolean_or("new_decoder_architecture", false)) {
    const Keys keys{"num_kv_heads", "n_head_kv"};
    const std::int64_t given = size_or(config, keys, shape.attention_heads, kMostHeads);
    if (shape.attention_heads % given != 0)
      fail_at(config, keys,
              fmt::format("{} key-value heads for {} attention heads", given, shape.attention_heads),
              "accepted: a divisor of the attention heads");
    return given;
  }
  return config.boolean_or("multi_query", true) ? 1 : shape.attention_heads;
}

Tensors falcon_norms(const JsonReader& config, ModelShape& shape) {
  if (!shape.parallel_attention)
    return join({norm_of(shape, "post_attention_layernorm"), norm_of(shape, "input_layernorm")});
  Modules& modules = shape.modules;
  modules.norm_before_feed_forward = {};
  const std::int64_t usual = config.boolean_or("new_decoder_architecture", false) ? 2 : 1;
  if (config.integer_or("num_ln_in_parallel_attn", usual, 1, 2) == 1)
    return norm_of(shape, "input_layernorm");
  modules.norm_before_attention = "ln_attn";
  modules.norm_before_feed_forward = "ln_mlp";
  return join({norm_of(shape, "ln_attn"), norm_of(shape, "ln_mlp")});
}

/// AutoTP reads num_kv_heads, which transformers fills with the attention heads where a file leaves it out;
/// so heads are dealt out even where there is one key-value head. Source: transformers 5.23
/// configuration_falcon.py.
Tensors falcon_attention(const JsonReader& config, const ModelShape& shape, bool bias) {
  Tensors tensors = fused_attention(shape, {.input = bias, .output = bias}, "self_attention.query_key_value",
                                    "self_attention.dense");
  ModelShape seen = shape;
  seen.key_value_heads = size_or(config, {"num_kv_heads", "n_head_kv"}, shape.attention_heads, kMostHeads);
  for (Tensor& tensor : tensors) {
    if (tensor.split == TensorParallelSplit::replicated) continue;
    const bool row = tensor.split == TensorParallelSplit::row;
    tensor.split_units = attention_units(seen, row ? tensor.shape[1] : tensor.shape[0]);
  }
  return tensors;
}

Model gpt_neox(const JsonReader& config, const Descriptor& about) {
  const ModelShape shape = shape_of(config, about);
  const bool bias = config.boolean_or("attention_bias", true);
  const Tensors layer = join({norm_of(shape, "input_layernorm"), norm_of(shape, "post_attention_layernorm"),
                              fused_attention(shape, {.input = bias, .output = bias},
                                              "attention.query_key_value", "attention.dense"),
                              h_to_4h(shape, true)});
  return assemble(shape, {.prefix = "gpt_neox.layers.{}.",
                          .before = token_embedding(shape, "gpt_neox.embed_in"),
                          .kinds = {{"decoder", layer}},
                          .layers = all_alike(shape),
                          .after = join({norm_of(shape, "gpt_neox.final_layer_norm"), head(shape)})});
}

Model falcon(const JsonReader& config, const Descriptor& about) {
  ModelShape shape = shape_of(config, about);
  shape.key_value_heads = falcon_key_value_heads(config, shape);
  const bool bias = config.boolean_or("bias", false);
  const Tensors layer =
      join({falcon_attention(config, shape, bias), h_to_4h(shape, bias), falcon_norms(config, shape)});
  return assemble(shape, {.prefix = "transformer.h.{}.",
                          .before = token_embedding(shape, "transformer.word_embeddings"),
                          .kinds = {{"decoder", layer}},
                          .layers = all_alike(shape),
                          .after = join({norm_of(shape, "transformer.ln_f"), head(shape)})});
}

Model bloom(const JsonReader& config, const Descriptor& about) {
  const ModelShape shape = shape_of(config, about);
  const Tensors layer = join({norm_of(shape, "input_layernorm"),
                              fused_attention(shape, {.input = true, .output = true},
                                              "self_attention.query_key_value", "self_attention.dense"),
                              norm_of(shape, "post_attention_layernorm"), h_to_4h(shape, true)});
  return assemble(shape, {.prefix = "transformer.h.{}.",
                          .before = join({token_embedding(shape, "transformer.word_embeddings"),
                                          norm_of(shape, "transformer.word_embeddings_layernorm")}),
                          .kinds = {{"decoder", layer}},
                          .layers = all_alike(shape),
                          .after = join({norm_of(shape, "transformer.ln_f"), head(shape)})});
}

Model mpt(const JsonReader& config, const Descriptor& about) {
  const ModelShape shape = shape_of(config, about);
  const TwoLayers layers{.up = "ffn.up_proj", .down = "ffn.down_proj", .width = shape.intermediate_size};
  const Tensors layer =
      join({norm("norm_1", shape.hidden_size), fused_attention(shape, {}, "attn.Wqkv", "attn.out_proj"),
            norm("norm_2", shape.hidden_size), mlp(shape, layers)});
  return assemble(shape, {.prefix = "transformer.blocks.{}.",
                          .before = token_embedding(shape, "transformer.wte"),
                          .kinds = {{"decoder", layer}},
                          .layers = all_alike(shape),
                          .after = join({norm("transformer.norm_f", shape.hidden_size), head(shape)})});
}

}  // namespace

Descriptors fused_decoders() {
  return {
      {.model_type = "gpt_neox",
       .causal_lm_class = "GPTNeoXForCausalLM",
       .read = gpt_neox,
       .sizes = {.key_value_heads = {}, .head_size = {}},
       .feed_forward = FeedForward::plain,
       .fused_query_key_value = true,
       .parallel = {"use_parallel_residual", true},
       .dropout = {"hidden_dropout"},
       .rotary = {.share = "rotary_pct"},
       .modules = {.final_norm = "final_layer_norm", .attention_output = "dense"},
       .operators = {.norm = NormForm::layer,
                     .activation = Activation::gelu,
                     .joint_heads = JointHeads::each_head,
                     .rotary = Rotary::neox,
                     .rotary_share = 0.25,
                     .names_branches = true,
                     .measured = true}},
      {.model_type = "falcon",
       .causal_lm_class = "FalconForCausalLM",
       .read = falcon,
       .sizes = {.layers = {"num_hidden_layers", "n_layer"},
                 .attention_heads = {"num_attention_heads", "n_head"},
                 .key_value_heads = {},
                 .head_size = {},
                 .intermediate = {"ffn_hidden_size"},
                 .default_intermediate = 4,
                 .default_tied = true},
       .feed_forward = FeedForward::plain,
       .fused_query_key_value = true,
       .parallel = {"parallel_attn", true},
       .dropout = {"hidden_dropout"},
       .modules = {.final_norm = "ln_f", .attention_output = "dense"},
       .left_whole = {TensorRole::token_embedding},
       .operators = {.norm = NormForm::layer,
                     .norm_life = NormLife::layer,
                     .linear = LinearForm::bias_apart,
                     .activation = Activation::gelu,
                     .attention = AttentionForm::falcon,
                     .sum = ParallelSum::in_place,
                     .names_branches = true,
                     .measured = true}},
      {.model_type = "bloom",
       .causal_lm_class = "BloomForCausalLM",
       .read = bloom,
       .sizes = {.layers = {"n_layer", "num_hidden_layers"},
                 .hidden_size = {"n_embed", "hidden_size"},
                 .attention_heads = {"n_head", "num_attention_heads"},
                 .key_value_heads = {},
                 .head_size = {},
                 .positions = {"seq_length"},
                 .intermediate = {},
                 .default_intermediate = 4,
                 .default_tied = true},
       .feed_forward = FeedForward::plain,
       .fused_query_key_value = true,
       .dropout = {"hidden_dropout"},
       .modules = {.embedding_norm = "word_embeddings_layernorm",
                   .final_norm = "ln_f",
                   .attention_output = "dense"},
       .left_whole = {TensorRole::token_embedding},
       .operators = {.norm = NormForm::layer,
                     .norm_life = NormLife::next_norm,
                     .activation = Activation::gelu_bloom,
                     .attention = AttentionForm::bloom,
                     .kernels = AttentionKernels::eager_only,
                     .rotary = Rotary::none,
                     .measured = true}},
      {.model_type = "mpt",
       .causal_lm_class = "MptForCausalLM",
       .read = mpt,
       .sizes = {.layers = {"n_layers", "num_hidden_layers"},
                 .hidden_size = {"d_model", "hidden_size"},
                 .attention_heads = {"n_heads", "num_attention_heads"},
                 .key_value_heads = {},
                 .head_size = {},
                 .positions = {"max_seq_len"},
                 .intermediate = {},  // MptMLP does not look at expansion_ratio
                 .default_intermediate = 4,
                 .default_tied = true},
       .feed_forward = FeedForward::plain,
       .fused_query_key_value = true,
       .dropout = {"resid_pdrop"},
       .modules = {.norm_before_attention = "norm_1",
                   .norm_before_feed_forward = "norm_2",
                   .final_norm = "norm_f",
                   .attention_output = "out_proj"},
       .left_whole = {TensorRole::token_embedding},
       .operators = {.norm = NormForm::layer,
                     .norm_life = NormLife::next_norm,
                     .activation = Activation::gelu,
                     .attention = AttentionForm::mpt,
                     .kernels = AttentionKernels::eager_only,
                     .rotary = Rotary::none,
                     .names_branches = true,
                     .measured = true}},
  };
}

}  // namespace zplan::architectures
