// Decoders with routed experts. Source: transformers 5.23 configuration_<family>.py, modeling_<family>.py.
#include "models/architectures/mixtures.h"

#include <fmt/format.h>

#include <algorithm>

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

}  // namespace zplan::architectures
