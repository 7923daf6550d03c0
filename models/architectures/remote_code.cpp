// Models whose code lies beside their weights on the Hugging Face Hub, by the names in their published
// checkpoints: modeling_qwen.py (Qwen/Qwen-7B), modeling_chatglm.py (THUDM/chatglm3-6b, THUDM/glm-4-9b),
// modeling_baichuan.py (baichuan-inc/Baichuan2-7B-Base), modeling_internlm2.py (internlm/internlm2-7b).
#include <fmt/format.h>

#include "models/architectures/descriptor.h"
#include "models/architectures/parts.h"

namespace zplan::architectures {

namespace {

/// gate, then down, then up: the order in which Baichuan declares them, and the first LLaMA did.
Tensors baichuan_mlp(const ModelShape& shape) {
  const Tensors usual = gated_mlp(shape, {.width = shape.intermediate_size});
  return {usual[0], usual[2], usual[1]};
}

/// The three weights of a gated MLP under other names.
Tensors renamed_gated_mlp(const ModelShape& shape, const std::string& path,
                          const std::vector<std::string>& names) {
  Tensors tensors = gated_mlp(shape, {.path = path, .width = shape.intermediate_size});
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    tensors[i].name = path + "." + names[i] + ".weight";
    tensors[i].module = names[i];
  }
  return tensors;
}

/// Groups of ChatGLM's multi-query attention.
std::int64_t chatglm_key_value_heads(const JsonReader& config, const ModelShape& shape) {
  if (!config.boolean_or("multi_query_attention", false)) return shape.attention_heads;
  const Keys keys{"multi_query_group_num"};
  const std::int64_t groups = size_or(config, keys, 1, kMostHeads);
  if (shape.attention_heads % groups != 0)
    fail_at(config, keys,
            fmt::format("{} key-value heads for {} attention heads", groups, shape.attention_heads),
            "accepted: a divisor of the attention heads");
  return groups;
}

Tensors chatglm_norm(const ModelShape& shape, const std::string& path) {
  return norm(path, shape.hidden_size, shape.operators.norm == NormForm::layer);
}

/// dense_h_to_4h holds gate and up; with add_bias_linear both layers have biases.
Tensors chatglm_mlp(const ModelShape& shape, bool bias) {
  const LinearLayer up{.path = "mlp.dense_h_to_4h",
                       .in = shape.hidden_size,
                       .out = 2 * shape.intermediate_size,
                       .bias = bias,
                       .role = TensorRole::mlp,
                       .split = TensorParallelSplit::column,
                       .units = shape.intermediate_size};
  const LinearLayer down{.path = "mlp.dense_4h_to_h",
                         .in = shape.intermediate_size,
                         .out = shape.hidden_size,
                         .bias = bias,
                         .role = TensorRole::mlp,
                         .split = TensorParallelSplit::row,
                         .units = shape.intermediate_size};
  return join({linear(up), linear(down)});
}

Model qwen(const JsonReader& config, const Descriptor& about) {
  ModelShape shape = shape_of(config, about);
  // intermediate_size counts the gate's and the up projection's features together.
  shape.intermediate_size /= 2;
  if (shape.intermediate_size == 0)
    config.at("intermediate_size").fail("1 feature for two projections", "accepted: an even number from 2");
  // no_bias is about the output projection; query, key and value have biases all the same.
  const Biases biases{.input = true, .output = !config.boolean_or("no_bias", true)};
  const Tensors layer =
      join({norm("ln_1", shape.hidden_size), fused_attention(shape, biases, "attn.c_attn", "attn.c_proj"),
            norm("ln_2", shape.hidden_size), renamed_gated_mlp(shape, "mlp", {"w1", "w2", "c_proj"})});
  return assemble(shape, {.prefix = "transformer.h.{}.",
                          .before = token_embedding(shape, "transformer.wte"),
                          .kinds = {{"decoder", layer}},
                          .layers = all_alike(shape),
                          .after = join({norm("transformer.ln_f", shape.hidden_size), head(shape)})});
}

Model chatglm(const JsonReader& config, const Descriptor& about) {
  ModelShape shape = shape_of(config, about);
  shape.key_value_heads = chatglm_key_value_heads(config, shape);
  if (!config.boolean_or("rmsnorm", true)) shape.operators.norm = NormForm::layer;
  const bool bias = config.boolean_or("add_bias_linear", false);
  const Biases biases{.input = bias || config.boolean_or("add_qkv_bias", false), .output = bias};
  const Tensors layer =
      join({chatglm_norm(shape, "input_layernorm"),
            fused_attention(shape, biases, "self_attention.query_key_value", "self_attention.dense"),
            chatglm_norm(shape, "post_attention_layernorm"), chatglm_mlp(shape, bias)});
  const bool final_norm = config.boolean_or("post_layer_norm", true);
  return assemble(
      shape,
      {.prefix = "transformer.encoder.layers.{}.",
       .before = token_embedding(shape, "transformer.embedding.word_embeddings"),
       .kinds = {{"decoder", layer}},
       .layers = all_alike(shape),
       .after = join({final_norm ? chatglm_norm(shape, "transformer.encoder.final_layernorm") : Tensors{},
                      head(shape, "transformer.output_layer")})});
}

Model baichuan(const JsonReader& config, const Descriptor& about) {
  ModelShape shape = shape_of(config, about);
  // The first generation, whose vocabulary has 64,000 words, has a head like any other's.
  constexpr std::int64_t kSecondVocabulary = 125696;
  shape.operators.normalises_head = shape.vocabulary_size == kSecondVocabulary;
  const Tensors layer =
      join({fused_attention(shape, {}, "self_attn.W_pack", "self_attn.o_proj"), baichuan_mlp(shape),
            norm("input_layernorm", shape.hidden_size), norm("post_attention_layernorm", shape.hidden_size)});
  return assemble(shape, {.prefix = "model.layers.{}.",
                          .before = token_embedding(shape, "model.embed_tokens"),
                          .kinds = {{"decoder", layer}},
                          .layers = all_alike(shape),
                          .after = join({norm("model.norm", shape.hidden_size), head(shape)})});
}

Model internlm2(const JsonReader& config, const Descriptor& about) {
  const ModelShape shape = shape_of(config, about);
  const bool bias = config.boolean_or("bias", true);
  const Tensors layer =
      join({fused_attention(shape, {.input = bias, .output = bias}, "attention.wqkv", "attention.wo"),
            renamed_gated_mlp(shape, "feed_forward", {"w1", "w3", "w2"}),
            norm("attention_norm", shape.hidden_size), norm("ffn_norm", shape.hidden_size)});
  return assemble(shape, {.prefix = "model.layers.{}.",
                          .before = token_embedding(shape, "model.tok_embeddings"),
                          .kinds = {{"decoder", layer}},
                          .layers = all_alike(shape),
                          .after = join({norm("model.norm", shape.hidden_size), head(shape, "output")})});
}

}  // namespace

Descriptors remote_code() {
  return {
      {.model_type = "qwen",
       .causal_lm_class = "QWenLMHeadModel",
       .read = qwen,
       .sizes = {.key_value_heads = {},
                 .head_size = {"kv_channels"},
                 .positions = {"max_position_embeddings", "seq_length"},
                 .default_head_size = 128},
       .fused_query_key_value = true,
       .modules = {.norm_before_attention = "ln_1",
                   .norm_before_feed_forward = "ln_2",
                   .final_norm = "ln_f",
                   .attention_output = "c_proj"},
       .operators = {.gates_by_second = true, .full_attention_every = 0}},
      {.model_type = "chatglm",
       .causal_lm_class = "ChatGLMModel",
       .read = chatglm,
       .sizes = {.layers = {"num_layers", "num_hidden_layers"},
                 .key_value_heads = {},
                 .head_size = {"kv_channels"},
                 .vocabulary = {"padded_vocab_size", "vocab_size"},
                 .positions = {"seq_length"},
                 .intermediate = {"ffn_hidden_size"},
                 .default_head_size = 128},
       .feed_forward = FeedForward::fused_gated,
       .fused_query_key_value = true,
       .dropout = {"hidden_dropout"},
       .modules = {.final_norm = "final_layernorm", .attention_output = "dense"},
       .operators = {.rotary = Rotary::chatglm, .rotary_share = 0.5}},
      {.model_type = "baichuan",
       .causal_lm_class = "BaichuanForCausalLM",
       .read = baichuan,
       .sizes = {.key_value_heads = {},
                 .head_size = {},
                 .positions = {"max_position_embeddings", "model_max_length"}},
       .fused_query_key_value = true,
       .operators = {.joint_heads = JointHeads::sliced}},
      {.model_type = "internlm2",
       .causal_lm_class = "InternLM2ForCausalLM",
       .read = internlm2,
       .sizes = {.head_size = {}},
       .fused_query_key_value = true,
       .modules = {.norm_before_attention = "attention_norm",
                   .norm_before_feed_forward = "ffn_norm",
                   .attention_output = "wo"}},
  };
}

}  // namespace zplan::architectures
