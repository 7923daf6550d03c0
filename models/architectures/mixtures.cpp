// Decoders with routed experts. Source: transformers 5.23 configuration_<family>.py, modeling_<family>.py.
#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "models/architectures/parts.h"

namespace zplan::architectures {

namespace {

std::int64_t needed_or(const JsonReader& config, const Keys& keys, std::optional<std::int64_t> fallback,
                       std::int64_t high) {
  return fallback ? size_or(config, keys, *fallback, high) : size(config, keys, high);
}

/// The gate that weighs Qwen 2's shared expert: a torch.nn.Linear that AutoTP leaves alone.
Tensors shared_expert_gate(const ModelShape& shape) {
  return linear({.path = "mlp.shared_expert_gate",
                 .in = shape.hidden_size,
                 .out = 1,
                 .role = TensorRole::shared_expert});
}

/// Two kinds of layers that differ in the feed-forward only.
std::vector<LayerKind> two_kinds(const JsonReader& config, const Descriptor& about, const ModelShape& shape,
                                 const Tensors& attention, const Tensors& experts) {
  const Tensors norms = block_norms(about, shape);
  return {{"dense", join({attention, block_feed_forward(config, about, shape), norms})},
          {"mixture_of_experts", join({attention, experts, norms})}};
}

/// gpt-oss keeps its stacks as [experts, in, out], with biases behind each.
Tensors gpt_oss_experts(const ModelShape& shape) {
  Tensors all;
  for (Tensor& stack : expert_stacks(shape)) {
    std::swap(stack.shape[1], stack.shape[2]);
    Tensor bias = plain(stack.name + "_bias", {stack.shape[0], stack.shape[2]}, TensorRole::expert);
    bias.module = stack.module;
    if (stack.split == TensorParallelSplit::column) {
      bias.split = stack.split;
      bias.split_units = stack.split_units;
    }
    all.push_back(std::move(stack));
    all.push_back(std::move(bias));
  }
  return all;
}

/// Mixtral, MiniMax, OLMoE: all layers are routed.
Model all_routed(const JsonReader& config, const Descriptor& about) {
  const ModelShape shape = shape_of(config, about);
  return decoder(about, shape,
                 join({block_attention(config, about, shape), router(shape), expert_stacks(shape),
                       block_norms(about, shape)}));
}

Model qwen2_moe(const JsonReader& config, const Descriptor& about) {
  ModelShape shape = shape_of(config, about);
  shape.experts->shared_intermediate_size =
      size_or(config, {"shared_expert_intermediate_size"}, 5632, kWidestMlp);
  const std::vector<std::size_t> layers = set_layers(shape, qwen_routed(config, shape));
  return decoder(about, shape,
                 two_kinds(config, about, shape, block_attention(config, about, shape), qwen2_experts(shape)),
                 layers);
}

Model qwen3_moe(const JsonReader& config, const Descriptor& about) {
  ModelShape shape = shape_of(config, about);
  const std::vector<std::size_t> layers = set_layers(shape, qwen_routed(config, shape));
  return decoder(about, shape,
                 two_kinds(config, about, shape, block_attention(config, about, shape),
                           join({expert_stacks(shape), router(shape)})),
                 layers);
}

Model glm4_moe(const JsonReader& config, const Descriptor& about) {
  const ModelShape shape = shape_of(config, about);
  return dense_then_routed(config, about, shape, block_attention(config, about, shape));
}

Model gpt_oss(const JsonReader& config, const Descriptor& about) {
  const ModelShape shape = shape_of(config, about);
  const Tensor sinks = plain("self_attn.sinks", {shape.attention_heads}, TensorRole::attention);
  return decoder(about, shape,
                 join({{sinks},
                       block_attention(config, about, shape),
                       router(shape, true),
                       gpt_oss_experts(shape),
                       block_norms(about, shape)}));
}

}  // namespace

std::vector<bool> qwen_routed(const JsonReader& config, const ModelShape& shape) {
  std::vector<bool> routed(static_cast<std::size_t>(shape.layers));
  const std::int64_t step = config.integer_or("decoder_sparse_step", 1, 1, kMostLayers);
  for (std::size_t layer = 0; layer < routed.size(); ++layer)
    routed[layer] = static_cast<std::int64_t>(layer + 1) % step == 0;
  if (const auto dense = config.find("mlp_only_layers"))
    for (const JsonReader& item : dense->items()) {
      const auto layer = static_cast<std::size_t>(item.integer(0, kMostLayers));
      if (layer < routed.size()) routed[layer] = false;
    }
  return routed;
}

Tensors qwen2_experts(const ModelShape& shape) {
  return join({router(shape), expert_stacks(shape),
               gated_mlp(shape, {.path = "mlp.shared_expert",
                                 .width = shape.experts->shared_intermediate_size,
                                 .role = TensorRole::shared_expert}),
               shared_expert_gate(shape)});
}

void read_mixture(const JsonReader& config, ModelShape& shape, const MixtureRules& rules) {
  MixtureOfExperts experts;
  experts.experts = needed_or(config, rules.experts, rules.default_experts, kMostExperts);
  const Keys chosen{"num_experts_per_tok"};
  experts.experts_per_token = needed_or(config, chosen, rules.default_per_token, kMostExperts);
  if (experts.experts_per_token > experts.experts)
    fail_at(config, chosen,
            fmt::format("{} experts per token of {}", experts.experts_per_token, experts.experts),
            "accepted: at most as many as there are experts");
  experts.intermediate_size = needed_or(config, rules.width, rules.default_width, kWidestMlp);
  if (rules.default_shared > 0)
    experts.shared_intermediate_size =
        experts.intermediate_size * size_or(config, {"n_shared_experts"}, rules.default_shared, kMostExperts);
  experts.layers = shape.layers;
  shape.experts = experts;
}

std::vector<std::size_t> set_layers(ModelShape& shape, const std::vector<bool>& routed) {
  shape.experts->layers = std::count(routed.begin(), routed.end(), true);
  return {routed.begin(), routed.end()};
}

Model dense_then_routed(const JsonReader& config, const Descriptor& about, ModelShape shape,
                        const Tensors& attention) {
  const std::int64_t dense =
      config.integer_or("first_k_dense_replace", about.mixture.default_dense, 0, kMostLayers);
  std::vector<bool> routed(static_cast<std::size_t>(shape.layers), true);
  std::fill_n(routed.begin(), std::min(dense, shape.layers), false);
  const std::vector<std::size_t> layers = set_layers(shape, routed);
  const GatedMlp shared{.path = "mlp.shared_experts",
                        .width = shape.experts->shared_intermediate_size,
                        .bias = is_on(config, about.block.mlp_bias),
                        .role = TensorRole::shared_expert};
  const Tensors experts = join({expert_stacks(shape), router(shape), gated_mlp(shape, shared)});
  return decoder(about, shape, two_kinds(config, about, shape, attention, experts), layers);
}

Descriptors mixtures() {
  return {
      {.model_type = "mixtral",
       .causal_lm_class = "MixtralForCausalLM",
       .read = all_routed,
       .sizes = {.default_key_value_heads = 8},
       .window = WindowRule{},
       .mixture = {.experts = {"num_local_experts", "num_experts"},
                   .default_experts = 8,
                   .default_per_token = 2,
                   .width = {"intermediate_size"}},
       .block = {.input_bias = {}, .output_bias = {}},
       .operators = {.masks = Masks::one, .router = RouterForm::mixtral, .measured = true},
       .libraries = {.expert_modules = {"w1", "w3", "w2"}, .autotp_refuses = true, .leaf_experts = true}},
      {.model_type = "minimax_m2",
       .causal_lm_class = "MiniMaxM2ForCausalLM",
       .read = all_routed,
       .sizes = {.default_key_value_heads = 8, .default_head_size = 128},
       .rotary = {.share = "partial_rotary_factor", .features = "rotary_dim"},
       .mixture = {.experts = {"num_local_experts", "num_experts"},
                   .default_experts = 256,
                   .default_per_token = 8,
                   .width = {"intermediate_size"}},
       .block = {.input_bias = {}, .output_bias = {}, .query_key_norm = QueryKeyNorm::of_width},
       .operators = {.views = HeadViews::all_last,
                     .rotary = Rotary::neox,
                     .rotary_share = 0.5,
                     .router = RouterForm::minimax,
                     .measured = true},
       .libraries = {.expert_modules = {"w1", "w3", "w2"}}},
      {.model_type = "olmoe",
       .causal_lm_class = "OlmoeForCausalLM",
       .read = all_routed,
       .sizes = {.head_size = {}},
       .mixture = {.experts = {"num_experts", "num_local_experts"},
                   .default_experts = 64,
                   .default_per_token = 8,
                   .width = {"intermediate_size"}},
       .block = {.query_key_norm = QueryKeyNorm::of_width},
       .operators = {.norms_span_heads = true, .views = HeadViews::all_last, .measured = true},
       .libraries = {.expert_modules = {"gate_proj", "up_proj", "down_proj"}}},
      {.model_type = "qwen2_moe",
       .causal_lm_class = "Qwen2MoeForCausalLM",
       .read = qwen2_moe,
       .sizes = {.default_key_value_heads = 16},
       .window = WindowRule{.size = 4096,
                            .layers = WindowRule::Layers::each_other_below_nth,
                            .key = "max_window_layers",
                            .n = 28,
                            .on = {"use_sliding_window"}},
       .mixture =
           {.experts = {"num_experts"}, .default_experts = 60, .default_per_token = 4, .default_width = 1408},
       .block = {.input_bias = {"qkv_bias", true}, .output_bias = {}},
       .operators = {.full_attention_every = 0, .masks = Masks::with_windows, .measured = true},
       .libraries = {.autotp_refuses = true, .leaf_experts = true}},
      {.model_type = "qwen3_moe",
       .causal_lm_class = "Qwen3MoeForCausalLM",
       .read = qwen3_moe,
       .sizes = {.default_key_value_heads = 4},
       .window = WindowRule{.size = 4096, .on = {"use_sliding_window"}},
       .mixture = {.experts = {"num_experts", "num_local_experts"},
                   .default_experts = 128,
                   .default_per_token = 8,
                   .default_width = 768},
       .block = {.query_key_norm = QueryKeyNorm::of_heads},
       .operators =
           {.full_attention_every = 0, .masks = Masks::one, .divides_weights = true, .measured = true},
       .libraries = {.expert_modules = {"gate_proj", "up_proj", "down_proj"},
                     .autotp_refuses = true,
                     .leaf_experts = true}},
      {.model_type = "glm4_moe",
       .causal_lm_class = "Glm4MoeForCausalLM",
       .read = glm4_moe,
       .sizes = {.default_key_value_heads = 8},
       .rotary = {.share = "partial_rotary_factor"},
       .mixture = {.experts = {"n_routed_experts"},
                   .default_experts = 128,
                   .default_per_token = 8,
                   .default_width = 1408,
                   .default_shared = 1,
                   .default_dense = 1},
       .block = {.output_bias = {},
                 .query_key_norm = QueryKeyNorm::of_heads,
                 .norms_queries_and_keys = {"use_qk_norm"}},
       .operators = {.views = HeadViews::transposes_last,
                     .rotary = Rotary::neox,
                     .rotary_share = 0.5,
                     .router = RouterForm::deepseek_v3,
                     .expert_groups = 1,
                     .measured = true},
       .libraries = {.expert_modules = {"gate_proj", "up_proj", "down_proj"}}},
      {.model_type = "gpt_oss",
       .causal_lm_class = "GptOssForCausalLM",
       .read = gpt_oss,
       .sizes = {.default_key_value_heads = 8, .default_head_size = 64},
       .feed_forward = FeedForward::fused_gated,
       .window = WindowRule{.size = 128, .layers = WindowRule::Layers::all_but_each_nth, .n = 2},
       .mixture = {.experts = {"num_local_experts", "num_experts"},
                   .default_experts = 128,
                   .default_per_token = 4,
                   .width = {"intermediate_size"}},
       .block = {.input_bias = {"attention_bias", true}, .output_bias = {"attention_bias", true}},
       .modules = {.router = "mlp.router"},
       .left_whole = {TensorRole::attention, TensorRole::expert},
       .operators = {.norm = NormForm::wide,
                     .kernels = AttentionKernels::no_sdpa,
                     .softmax = Softmax::with_sinks,
                     .rotary = Rotary::gpt_oss,
                     .router = RouterForm::gpt_oss,
                     .interleaves_experts = true}},
  };
}

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
