#include "planner/sharding/torchtitan_model.h"

#include <algorithm>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "planner/sharding/own_tensors.h"

namespace zplan {

namespace {

/// Makes the tensors of one kind of layer.
class TitanLayer {
 public:
  TitanLayer(const ModelShape& shape, const LayerKind& kind, const ParallelLayout& layout)
      : shape_(shape), kind_(kind), layout_(layout) {}

  LayerKind take() {
    // DeepSeek's layers make their norms in front of the feed-forward.
    if (shape_.latent_attention)
      add_latent_attention(), add_norms(), add_second_half();
    else
      add_attention(), add_second_half(), add_norms();
    return std::move(made_);
  }

 private:
  void add_attention() {
    const std::int64_t h = shape_.hidden_size, d = shape_.head_size, a = shape_.attention_heads,
                       k = shape_.key_value_heads;
    add_linear("attention.qkv_linear.wqkv", TensorRole::attention, (a + 2 * k) * d, h,
               TensorParallelSplit::column, k);
    add_linear("attention.wo", TensorRole::attention, h, a * d, TensorParallelSplit::row, k);
    if (has_tensor(kind_.tensors, TensorRole::norm, "q_norm.weight"))
      add_norm("attention.q_norm", d), add_norm("attention.k_norm", d);
  }
  /// Every tensor-parallel rank holds the bottlenecks whole.
  void add_latent_attention() {
    const LatentAttention& latent = *shape_.latent_attention;
    const std::int64_t h = shape_.hidden_size, a = shape_.attention_heads;
    const std::int64_t of_query = latent.nope_head_size + latent.rope_head_size;
    const auto add_attention_linear = [&](const char* module, std::int64_t out, std::int64_t in,
                                          TensorParallelSplit split) {
      add_linear(std::string("attention.") + module, TensorRole::attention, out, in, split,
                 split == TensorParallelSplit::replicated ? 1 : a);
    };
    using enum TensorParallelSplit;
    if (latent.query_rank > 0) {
      add_attention_linear("wq_a", latent.query_rank, h, replicated);
      add_norm("attention.q_norm", latent.query_rank);
      add_attention_linear("wq_b", a * of_query, latent.query_rank, column);
    } else {
      add_attention_linear("wq", a * of_query, h, column);
    }
    add_attention_linear("wkv_a", latent.key_value_rank + latent.rope_head_size, h, replicated);
    add_norm("attention.kv_norm", latent.key_value_rank);
    add_attention_linear("wkv_b", a * (latent.nope_head_size + latent.value_head_size), latent.key_value_rank,
                         column);
    add_attention_linear("wo", h, a * latent.value_head_size, row);
  }
  void add_norms() {
    add_norm("attention_norm", shape_.hidden_size), add_norm("ffn_norm", shape_.hidden_size);
  }
  void add_second_half() {
    const bool is_routed = std::ranges::any_of(
        kind_.tensors, [](const Tensor& each) { return each.role == TensorRole::expert; });
    if (is_routed) return add_mixture();
    add_feed_forward("feed_forward", TensorRole::mlp, shape_.intermediate_size);
  }
  void add_feed_forward(const std::string& path, TensorRole role, std::int64_t width) {
    const std::int64_t h = shape_.hidden_size;
    add_linear(path + ".w1", role, width, h, TensorParallelSplit::column, width);
    add_linear(path + ".w2", role, h, width, TensorParallelSplit::row, width);
    add_linear(path + ".w3", role, width, h, TensorParallelSplit::column, width);
  }
  /// The rank's own experts, or without expert parallelism its part of each one's width.
  void add_mixture() {
    const MixtureOfExperts& about = *shape_.experts;
    const std::int64_t h = shape_.hidden_size, own = about.experts / layout_.expert;
    const std::int64_t width =
        layout_.expert > 1 ? about.intermediate_size : about.intermediate_size / layout_.tensor;
    add_experts("w1_EFD", own, width, h), add_experts("w2_EDF", own, h, width);
    add_experts("w3_EFD", own, width, h);
    add_linear("moe.router.gate", TensorRole::router, about.experts, h, TensorParallelSplit::replicated, 1);
    if (about.shared_intermediate_size > 0)
      add_feed_forward("moe.shared_experts", TensorRole::shared_expert, about.shared_intermediate_size);
  }
  void add_experts(const std::string& name, std::int64_t own, std::int64_t out, std::int64_t in) {
    Tensor stack =
        tensor_of("layers.{}.moe.routed_experts.inner_experts." + name, {own, out, in}, TensorRole::expert);
    stack.linear = Linear{.in_features = in, .out_features = out, .copies = own};
    stack.module = "experts";
    made_.tensors.push_back(std::move(stack));
  }
  void add(const std::string& module, std::vector<std::int64_t> shape, TensorRole role,
           TensorParallelSplit split, std::int64_t units) {
    Tensor tensor = tensor_of("layers.{}." + module + ".weight", std::move(shape), role);
    tensor.split = split, tensor.split_units = units;
    made_.tensors.push_back(std::move(tensor));
  }
  void add_norm(const std::string& module, std::int64_t size) {
    add(module, {size}, TensorRole::norm, TensorParallelSplit::replicated, 1);
  }
  void add_linear(const std::string& module, TensorRole role, std::int64_t out, std::int64_t in,
                  TensorParallelSplit split, std::int64_t units) {
    add(module, {out, in}, role, split, units);
    Tensor& weight = made_.tensors.back();
    weight.linear = Linear{.in_features = in, .out_features = out};
    weight.module = module.substr(module.rfind('.') + 1);
  }

  const ModelShape& shape_;
  const LayerKind& kind_;
  const ParallelLayout& layout_;
  LayerKind made_{.name = kind_.name, .tensors = {}};
};

}  // namespace

Model torchtitan_model(const Model& model, const ParallelLayout& layout) {
  Model made = model;
  const ModelShape& shape = made.shape;
  const std::int64_t h = shape.hidden_size, V = shape.vocabulary_size;
  Inventory& inventory = made.inventory;
  inventory.before = {table_of("tok_embeddings.weight", V, h, TensorRole::token_embedding)};
  for (LayerKind& each : inventory.kinds) each = TitanLayer(shape, each, layout).take();
  inventory.after = {tensor_of("norm.weight", {h}, TensorRole::norm)};
  if (!shape.tied_embeddings) inventory.after.push_back(table_of("lm_head.weight", V, h, TensorRole::head));
  inventory.buffers = {};
  return made;
}

LayerRange torchtitan_layers(std::int64_t layers, const ParallelLayout& layout, std::int64_t stage,
                             std::int64_t chunk, const TitanOptions& options) {
  const std::int64_t parts = layout.pipeline * layout.virtual_stages;
  const std::int64_t all = torchtitan_slots(layers, options);
  const auto slots_before = [&](std::int64_t part) {
    return part * (all / parts) + std::min(part, all % parts);
  };
  const auto layer_at = [&](std::int64_t slot) {
    return std::clamp<std::int64_t>(slot - options.first_stage_less, 0, layers);
  };
  const std::int64_t part = part_of_chunk(options, layout, stage, chunk);
  return {layer_at(slots_before(part)), layer_at(slots_before(part + 1))};
}

bool has_norms_of_heads(const Model& model) {
  bool found = false;
  for_each_tensor(model.inventory,
                  [&](const Tensor& each, int) { found |= each.name.ends_with("k_norm.weight"); });
  return found;
}

}  // namespace zplan
