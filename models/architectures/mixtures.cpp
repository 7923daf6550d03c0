// Decoders with routed experts. Source: transformers 5.23 configuration_<family>.py, modeling_<family>.py.
#include "models/architectures/mixtures.h"

#include <fmt/format.h>

#include <algorithm>

#include "models/architectures/families.h"

namespace zplan::architectures {

namespace {

std::int64_t needed_or(const JsonReader& config, const Keys& keys, std::optional<std::int64_t> fallback,
                       std::int64_t high) {
  return fallback ? size_or(config, keys, *fallback, high) : size(config, keys, high);
}

bool each_other_from_first(std::int64_t layer, std::int64_t) { return layer % 2 == 0; }
bool each_other_below(std::int64_t layer, std::int64_t end) { return layer % 2 == 0 && layer < end; }

/// Layers that Qwen's mlp_only_layers and decoder_sparse_step leave routed.
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

/// The gate that weighs Qwen 2's shared expert: a torch.nn.Linear that AutoTP leaves alone.
Tensors shared_expert_gate(const ModelShape& shape) {
  return linear({.path = "mlp.shared_expert_gate",
                 .in = shape.hidden_size,
                 .out = 1,
                 .role = TensorRole::shared_expert});
}

Tensors qwen2_experts(const ModelShape& shape) {
  return join({router(shape), expert_stacks(shape),
               gated_mlp(shape, {.path = "mlp.shared_expert",
                                 .width = shape.experts->shared_intermediate_size,
                                 .role = TensorRole::shared_expert}),
               shared_expert_gate(shape)});
}

/// Two kinds of layers that differ in the feed-forward only.
std::vector<LayerKind> two_kinds(const ModelShape& shape, const Tensors& attention, const Tensors& experts) {
  return {{"dense", join({attention, dense_mlp(shape), usual_norms(shape)})},
          {"mixture_of_experts", join({attention, experts, usual_norms(shape)})}};
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

Tensors gpt_oss_router(const ModelShape& shape) {
  return linear({.path = "mlp.router",
                 .in = shape.hidden_size,
                 .out = shape.experts->experts,
                 .bias = true,
                 .role = TensorRole::router});
}

}  // namespace

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
  experts.layers = shape.layers;
  shape.experts = experts;
}

std::vector<std::size_t> set_layers(ModelShape& shape, const std::vector<bool>& routed) {
  shape.experts->layers = std::count(routed.begin(), routed.end(), true);
  return {routed.begin(), routed.end()};
}

std::vector<std::size_t> dense_then_routed(const JsonReader& config, ModelShape& shape,
                                           std::int64_t default_dense) {
  const std::int64_t dense = config.integer_or("first_k_dense_replace", default_dense, 0, kMostLayers);
  std::vector<bool> routed(static_cast<std::size_t>(shape.layers), true);
  std::fill_n(routed.begin(), std::min(dense, shape.layers), false);
  return set_layers(shape, routed);
}

Model mixtral(const JsonReader& config) {
  ModelShape shape = read_sizes(config, {.default_key_value_heads = 8});
  shape.intermediate_size = intermediate_size(config);
  read_mixture(config, shape,
               {.experts = {"num_local_experts", "num_experts"},
                .default_experts = 8,
                .default_per_token = 2,
                .width = {"intermediate_size"},
                .default_width = {}});
  slide_everywhere(shape, sliding_window(config, 0));
  return decoder(shape, join({attention(shape), router(shape), expert_stacks(shape), usual_norms(shape)}));
}

Model minimax_m2(const JsonReader& config) {
  ModelShape shape = read_sizes(config, {.default_key_value_heads = 8, .default_head_size = 128});
  shape.intermediate_size = intermediate_size(config);
  shape.query_key_norm = true;
  read_mixture(config, shape,
               {.experts = {"num_local_experts", "num_experts"},
                .default_experts = 256,
                .default_per_token = 8,
                .width = {"intermediate_size"},
                .default_width = {}});
  return decoder(shape, join({attention(shape), width_norms(shape), router(shape), expert_stacks(shape),
                              usual_norms(shape)}));
}

Model olmoe(const JsonReader& config) {
  ModelShape shape = read_sizes(config, {.head_size = {}});
  shape.intermediate_size = intermediate_size(config);
  shape.query_key_norm = true;
  read_mixture(config, shape,
               {.experts = {"num_experts", "num_local_experts"},
                .default_experts = 64,
                .default_per_token = 8,
                .width = {"intermediate_size"},
                .default_width = {}});
  return decoder(shape, join({attention(shape, both(config.boolean_or("attention_bias", false))),
                              width_norms(shape), router(shape), expert_stacks(shape), usual_norms(shape)}));
}

Model qwen2_moe(const JsonReader& config) {
  ModelShape shape = read_sizes(config, {.default_key_value_heads = 16});
  shape.intermediate_size = intermediate_size(config);
  read_mixture(config, shape,
               {.experts = {"num_experts"},
                .default_experts = 60,
                .default_per_token = 4,
                .width = {"moe_intermediate_size"},
                .default_width = 1408});
  shape.experts->shared_intermediate_size =
      size_or(config, {"shared_expert_intermediate_size"}, 5632, kWidestMlp);
  if (config.boolean_or("use_sliding_window", false)) {
    shape.sliding_window = sliding_window(config, 4096);
    shape.sliding_layers = count_sliding(config, shape, each_other_below,
                                         config.integer_or("max_window_layers", 28, 0, kMostLayers));
  }
  const std::vector<std::size_t> layers = set_layers(shape, qwen_routed(config, shape));
  const Tensors block = attention(shape, {.input = config.boolean_or("qkv_bias", true)});
  return decoder(shape, two_kinds(shape, block, qwen2_experts(shape)), layers);
}

Model qwen3_moe(const JsonReader& config) {
  ModelShape shape = read_sizes(config, {.default_key_value_heads = 4});
  shape.intermediate_size = intermediate_size(config);
  shape.query_key_norm = true;
  read_mixture(config, shape,
               {.experts = {"num_experts", "num_local_experts"},
                .default_experts = 128,
                .default_per_token = 8,
                .width = {"moe_intermediate_size"},
                .default_width = 768});
  if (config.boolean_or("use_sliding_window", false)) slide_everywhere(shape, sliding_window(config, 4096));
  const std::vector<std::size_t> layers = set_layers(shape, qwen_routed(config, shape));
  const Tensors block =
      join({attention(shape, both(config.boolean_or("attention_bias", false))), head_norms(shape)});
  return decoder(shape, two_kinds(shape, block, join({expert_stacks(shape), router(shape)})), layers);
}

Model glm4_moe(const JsonReader& config) {
  ModelShape shape = read_sizes(config, {.default_key_value_heads = 8});
  shape.intermediate_size = intermediate_size(config);
  shape.query_key_norm = config.boolean_or("use_qk_norm", false);
  read_mixture(config, shape,
               {.experts = {"n_routed_experts"},
                .default_experts = 128,
                .default_per_token = 8,
                .width = {"moe_intermediate_size"},
                .default_width = 1408});
  shape.experts->shared_intermediate_size =
      shape.experts->intermediate_size * size_or(config, {"n_shared_experts"}, 1, kMostExperts);
  const std::vector<std::size_t> layers = dense_then_routed(config, shape, 1);
  Tensors block = attention(shape, {.input = config.boolean_or("attention_bias", false)});
  if (shape.query_key_norm) block = join({block, head_norms(shape)});
  const Tensors experts = join({expert_stacks(shape), router(shape),
                                gated_mlp(shape, {.path = "mlp.shared_experts",
                                                  .width = shape.experts->shared_intermediate_size,
                                                  .role = TensorRole::shared_expert})});
  return decoder(shape, two_kinds(shape, block, experts), layers);
}

Model gpt_oss(const JsonReader& config) {
  ModelShape shape = read_sizes(config, {.default_key_value_heads = 8, .default_head_size = 64});
  shape.intermediate_size = intermediate_size(config);
  shape.fused_gate_up = true;
  read_mixture(config, shape,
               {.experts = {"num_local_experts", "num_experts"},
                .default_experts = 128,
                .default_per_token = 4,
                .width = {"intermediate_size"},
                .default_width = {}});
  shape.sliding_window = sliding_window(config, 128);
  shape.sliding_layers = count_sliding(config, shape, each_other_from_first, 2);
  const Tensor sinks = plain("self_attn.sinks", {shape.attention_heads}, TensorRole::attention);
  return kept_whole(decoder(shape, join({{sinks},
                                         attention(shape, both(config.boolean_or("attention_bias", true))),
                                         gpt_oss_router(shape),
                                         gpt_oss_experts(shape),
                                         usual_norms(shape)})),
                    {TensorRole::attention, TensorRole::expert});
}

}  // namespace zplan::architectures
