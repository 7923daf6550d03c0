// Decoders most of whose layers have linear attention. Source: transformers 5.23 configuration_<family>.py,
// modeling_<family>.py.
#include <fmt/format.h>

#include <algorithm>

#include "models/architectures/parts.h"

namespace zplan::architectures {

namespace {

DeltaNet read_delta_net(const JsonReader& config, bool joint_projections) {
  DeltaNet net;
  net.key_heads = size_or(config, {"linear_num_key_heads"}, 16, kMostHeads);
  net.value_heads = size_or(config, {"linear_num_value_heads"}, 32, kMostHeads);
  net.key_head_size = size_or(config, {"linear_key_head_dim"}, 128, kWidestHead);
  net.value_head_size = size_or(config, {"linear_value_head_dim"}, 128, kWidestHead);
  constexpr std::int64_t kWidestKernel = 1024;
  net.kernel = size_or(config, {"linear_conv_kernel_dim"}, 4, kWidestKernel);
  net.joint_projections = joint_projections;
  if (net.value_heads % net.key_heads != 0)
    fail_at(config, {"linear_num_value_heads"},
            fmt::format("{} value heads of {} key heads", net.value_heads, net.key_heads),
            "accepted: a multiple of linear_num_key_heads");
  return net;
}

bool is_linear(const JsonReader& type) {
  const std::string given = type.text();
  if (given != "linear_attention" && given != "full_attention")
    type.fail(in_quotes(given), "accepted: linear_attention, full_attention");
  return given == "linear_attention";
}

/// Which layers have linear attention.
std::vector<bool> linear_layers(const JsonReader& config, const ModelShape& shape) {
  std::vector<bool> linear(static_cast<std::size_t>(shape.layers));
  const std::int64_t every = config.integer_or("full_attention_interval", 4, 1, kMostLayers);
  for (std::size_t i = 0; i < linear.size(); ++i) linear[i] = static_cast<std::int64_t>(i + 1) % every != 0;
  const auto types = config.find("layer_types");
  if (!types) return linear;
  const std::vector<JsonReader> listed = types->items();
  if (listed.size() < linear.size())
    types->fail(fmt::format("{} types of {} layers", listed.size(), linear.size()),
                "accepted: one for each layer");
  for (std::size_t i = 0; i < linear.size(); ++i) linear[i] = is_linear(listed[i]);
  return linear;
}

/// Without a gradient of its own product: no torch.nn.Linear.
Tensors convolution(const DeltaNet& net) {
  return {plain("linear_attn.conv1d.weight", {2 * net.key_width() + net.value_width(), 1, net.kernel},
                TensorRole::attention)};
}

Tensors projection(const ModelShape& shape, const std::string& name, std::int64_t out) {
  return linear(
      {.path = "linear_attn." + name, .in = shape.hidden_size, .out = out, .role = TensorRole::attention});
}

Tensors input_projections(const ModelShape& shape) {
  const DeltaNet& net = *shape.delta_net;
  const std::int64_t keys = net.key_width(), values = net.value_width(), heads = net.value_heads;
  if (net.joint_projections)
    return join({projection(shape, "in_proj_qkvz", 2 * keys + 2 * values),
                 projection(shape, "in_proj_ba", 2 * heads)});
  return join({projection(shape, "in_proj_qkv", 2 * keys + values), projection(shape, "in_proj_z", values),
               projection(shape, "in_proj_b", heads), projection(shape, "in_proj_a", heads)});
}

Tensors delta_net(const ModelShape& shape) {
  const DeltaNet& net = *shape.delta_net;
  const Tensors own{plain("linear_attn.dt_bias", {net.value_heads}, TensorRole::attention),
                    plain("linear_attn.A_log", {net.value_heads}, TensorRole::attention)};
  const Tensors behind =
      join({norm("linear_attn.norm", net.value_head_size), linear({.path = "linear_attn.out_proj",
                                                                   .in = net.value_width(),
                                                                   .out = shape.hidden_size,
                                                                   .role = TensorRole::attention})});
  const Tensors inputs = input_projections(shape);
  return net.joint_projections ? join({own, convolution(net), inputs, behind})
                               : join({own, convolution(net), behind, inputs});
}

/// Queries are projected together with a gate.
Tensors gated_attention(const JsonReader& config, const Descriptor& about, const ModelShape& shape) {
  Tensors tensors = block_attention(config, about, shape);
  for (Tensor& each : tensors)
    if (each.module == "q_proj") {
      each.shape[0] *= 2;
      if (each.linear) each.linear->out_features *= 2;
    }
  return tensors;
}

/// Layers by their attention and by their feed-forward: linear and dense, linear and routed, full and dense,
/// full and routed.
Model hybrid(const JsonReader& config, const Descriptor& about, ModelShape shape,
             const std::vector<bool>& routed) {
  const std::vector<bool> linear = linear_layers(config, shape);
  shape.delta_net->layers = std::count(linear.begin(), linear.end(), true);
  std::vector<std::size_t> layers;
  for (std::size_t i = 0; i < linear.size(); ++i)
    layers.push_back((linear[i] ? 0U : 2U) + (routed[i] ? 1U : 0U));
  const Tensors full = gated_attention(config, about, shape), norms = block_norms(about, shape);
  const Tensors nets = delta_net(shape);
  const Tensors dense = shape.intermediate_size > 0 ? block_feed_forward(config, about, shape) : Tensors{};
  const Tensors experts = shape.experts ? qwen2_experts(shape) : Tensors{};
  return decoder(about, shape,
                 {{"linear_attention", join({nets, dense, norms})},
                  {"linear_attention_mixture", join({nets, experts, norms})},
                  {"decoder", join({full, dense, norms})},
                  {"mixture_of_experts", join({full, experts, norms})}},
                 layers);
}

void read_shared_expert(const JsonReader& config, ModelShape& shape) {
  shape.experts->shared_intermediate_size =
      size_or(config, {"shared_expert_intermediate_size"}, 512, kWidestMlp);
}

Model qwen3_next(const JsonReader& config, const Descriptor& about) {
  ModelShape shape = shape_of(config, about);
  shape.delta_net = read_delta_net(config, true);
  read_shared_expert(config, shape);
  shape.operators.divides_weights = config.boolean_or("norm_topk_prob", true);
  const std::vector<bool> routed = qwen_routed(config, shape);
  (void)set_layers(shape, routed);
  return hybrid(config, about, shape, routed);
}

Model qwen3_5(const JsonReader& config, const Descriptor& about) {
  ModelShape shape = shape_of(config, about);
  shape.delta_net = read_delta_net(config, false);
  const bool routed = shape.experts.has_value();
  if (routed) read_shared_expert(config, shape);
  return hybrid(config, about, shape, std::vector<bool>(static_cast<std::size_t>(shape.layers), routed));
}

constexpr Operators kOperators{.norm = NormForm::one_more,
                               .attention = AttentionForm::gated,
                               .rotary = Rotary::neox,
                               .rotary_share = 0.25,
                               .divides_weights = true,
                               .measured = true};

Operators of_three_axes() {
  Operators operators = kOperators;
  operators.three_axes = true;
  return operators;
}

Block block() { return {.query_key_norm = QueryKeyNorm::of_heads}; }

}  // namespace

Descriptors linear_attention() {
  return {
      {.model_type = "qwen3_next",
       .causal_lm_class = "Qwen3NextForCausalLM",
       .read = qwen3_next,
       .sizes = {.default_key_value_heads = 2, .default_head_size = 256},
       .mixture = {.experts = {"num_experts", "num_local_experts"},
                   .default_experts = 512,
                   .default_per_token = 10,
                   .default_width = 512},
       .block = block(),
       .operators = kOperators,
       .libraries = {.expert_modules = {"gate_proj", "up_proj", "down_proj"}, .autotp_refuses = true}},
      {.model_type = "qwen3_5_text",
       .causal_lm_class = "Qwen3_5ForCausalLM",
       .read = qwen3_5,
       .sizes = {.default_key_value_heads = 4, .default_head_size = 256},
       .block = block(),
       .operators = of_three_axes(),
       .libraries = {.autotp_refuses = true}},
      {.model_type = "qwen3_5_moe_text",
       .causal_lm_class = "Qwen3_5MoeForCausalLM",
       .read = qwen3_5,
       .sizes = {.intermediate = {},
                 .default_key_value_heads = 2,
                 .default_head_size = 256,
                 .default_intermediate = 4},
       .mixture = {.experts = {"num_experts", "num_local_experts"},
                   .default_experts = 256,
                   .default_per_token = 8,
                   .default_width = 512},
       .block = block(),
       .operators = of_three_axes(),
       .libraries = {.autotp_refuses = true}},
  };
}

}  // namespace zplan::architectures
