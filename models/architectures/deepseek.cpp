// DeepSeek V2 and V3: latent attention, routed and shared experts.
// Source: transformers 5.23 configuration_deepseek_v*.py, modeling_deepseek_v*.py.
#include <nlohmann/json.hpp>

#include "models/architectures/mixtures.h"

namespace zplan::architectures {

namespace {

/// q_lora_rank left out is 1536; null means that queries are projected directly.
std::int64_t query_rank(const JsonReader& config) {
  if (config.raw().contains("q_lora_rank") && !config.has("q_lora_rank")) return 0;
  return size_or(config, {"q_lora_rank"}, 1536, kWidestHead);
}

LatentAttention read_latent_attention(const JsonReader& config) {
  return {.query_rank = query_rank(config),
          .key_value_rank = size_or(config, {"kv_lora_rank"}, 512, kWidestHead),
          .nope_head_size = size_or(config, {"qk_nope_head_dim"}, 128, kWidestHead),
          .rope_head_size = size_or(config, {"qk_rope_head_dim"}, 64, kWidestHead),
          .value_head_size = size_or(config, {"v_head_dim"}, 128, kWidestHead)};
}

/// A projection onto or out of the heads, which AutoTP deals out by heads.
LinearLayer by_heads(const ModelShape& shape, const std::string& path, std::int64_t in,
                     std::int64_t head_size) {
  return {.path = path,
          .in = in,
          .out = shape.attention_heads * head_size,
          .role = TensorRole::attention,
          .split = TensorParallelSplit::column,
          .units = shape.key_value_heads};
}

/// A projection onto a bottleneck, which AutoTP leaves whole on every rank.
LinearLayer onto_latent(const ModelShape& shape, const std::string& path, std::int64_t width, bool bias) {
  return {.path = path, .in = shape.hidden_size, .out = width, .bias = bias, .role = TensorRole::attention};
}

Tensors latent_queries(const ModelShape& shape, bool bias) {
  const LatentAttention& latent = *shape.latent_attention;
  if (latent.query_rank == 0)
    return linear(by_heads(shape, "self_attn.q_proj", shape.hidden_size, shape.head_size));
  return join({linear(onto_latent(shape, "self_attn.q_a_proj", latent.query_rank, bias)),
               norm("self_attn.q_a_layernorm", latent.query_rank),
               linear(by_heads(shape, "self_attn.q_b_proj", latent.query_rank, shape.head_size))});
}

Tensors latent_output(const ModelShape& shape, bool bias) {
  LinearLayer output =
      by_heads(shape, "self_attn.o_proj", shape.hidden_size, shape.latent_attention->value_head_size);
  std::swap(output.in, output.out);
  output.bias = bias;
  output.split = TensorParallelSplit::row;
  return linear(output);
}

Tensors latent_attention(const ModelShape& shape, bool bias) {
  const LatentAttention& latent = *shape.latent_attention;
  return join({latent_queries(shape, bias),
               linear(onto_latent(shape, "self_attn.kv_a_proj_with_mqa",
                                  latent.key_value_rank + latent.rope_head_size, bias)),
               norm("self_attn.kv_a_layernorm", latent.key_value_rank),
               linear(by_heads(shape, "self_attn.kv_b_proj", latent.key_value_rank,
                               latent.nope_head_size + latent.value_head_size)),
               latent_output(shape, bias)});
}

Model deepseek_model(const JsonReader& config, const Descriptor& about) {
  ModelShape shape = shape_of(config, about);
  shape.latent_attention = read_latent_attention(config);
  shape.head_size = shape.latent_attention->nope_head_size + shape.latent_attention->rope_head_size;
  return dense_then_routed(config, about, shape,
                           latent_attention(shape, config.boolean_or("attention_bias", false)));
}

}  // namespace

Descriptors deepseek() {
  const Descriptor v3{
      .model_type = "deepseek_v3",
      .causal_lm_class = "DeepseekV3ForCausalLM",
      .read = deepseek_model,
      // The heads have sizes of their own, so the hidden size need not be a multiple of them.
      .sizes = {.head_size = {}, .default_head_size = 1},
      .mixture = {.experts = {"n_routed_experts", "num_local_experts"},
                  .default_experts = 256,
                  .default_per_token = 8,
                  .default_width = 2048,
                  .default_shared = 1,
                  .default_dense = 3},
      .operators = {.rotary = Rotary::deepseek_v3, .router = RouterForm::deepseek_v3},
      .libraries = {.expert_modules = {"gate_proj", "up_proj", "down_proj"}, .autotp_refuses = true}};
  Descriptor v2 = v3;
  v2.model_type = "deepseek_v2";
  v2.causal_lm_class = "DeepseekV2ForCausalLM";
  v2.mixture.default_experts = 64;
  v2.mixture.default_per_token = std::nullopt;
  v2.mixture.default_width = 1407;
  v2.mixture.default_shared = 2;
  v2.mixture.default_dense = 0;
  v2.block.mlp_bias = {"mlp_bias"};
  v2.operators.rotary = Rotary::deepseek_v2;
  v2.operators.router = RouterForm::deepseek_v2;
  v2.operators.chosen_expert_groups = 3;
  return {v2, v3};
}

}  // namespace zplan::architectures
