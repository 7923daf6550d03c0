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
  TitanLayer(const ModelShape& shape, const LayerKind& kind) : shape_(shape), kind_(kind) {}

  LayerKind take() {
    const std::int64_t h = shape_.hidden_size, d = shape_.head_size, a = shape_.attention_heads,
                       k = shape_.key_value_heads, f = shape_.intermediate_size;
    add_linear("attention.qkv_linear.wqkv", TensorRole::attention, (a + 2 * k) * d, h,
               TensorParallelSplit::column, k);
    add_linear("attention.wo", TensorRole::attention, h, a * d, TensorParallelSplit::row, k);
    if (has_tensor(kind_.tensors, TensorRole::norm, "q_norm.weight"))
      add_norm("attention.q_norm", d), add_norm("attention.k_norm", d);
    add_linear("feed_forward.w1", TensorRole::mlp, f, h, TensorParallelSplit::column, f);
    add_linear("feed_forward.w2", TensorRole::mlp, h, f, TensorParallelSplit::row, f);
    add_linear("feed_forward.w3", TensorRole::mlp, f, h, TensorParallelSplit::column, f);
    add_norm("attention_norm", h), add_norm("ffn_norm", h);
    return std::move(made_);
  }

 private:
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
  LayerKind made_{.name = kind_.name, .tensors = {}};
};

}  // namespace

Model torchtitan_model(const Model& model) {
  Model made = model;
  const ModelShape& shape = made.shape;
  const std::int64_t h = shape.hidden_size, V = shape.vocabulary_size;
  Inventory& inventory = made.inventory;
  inventory.before = {table_of("tok_embeddings.weight", V, h, TensorRole::token_embedding)};
  for (LayerKind& each : inventory.kinds) each = TitanLayer(shape, each).take();
  inventory.after = {tensor_of("norm.weight", {h}, TensorRole::norm)};
  if (!shape.tied_embeddings) inventory.after.push_back(table_of("lm_head.weight", V, h, TensorRole::head));
  inventory.buffers = {};
  return made;
}

LayerRange torchtitan_layers(std::int64_t layers, const ParallelLayout& layout, std::int64_t stage,
                             std::int64_t chunk, const TitanOptions& options) {
  const std::int64_t parts = layout.pipeline * layout.virtual_stages;
  const std::int64_t all = layers + options.first_stage_less + options.last_stage_less;
  const auto slots_before = [&](std::int64_t part) {
    return part * (all / parts) + std::min(part, all % parts);
  };
  const auto layer_at = [&](std::int64_t slot) {
    return std::clamp<std::int64_t>(slot - options.first_stage_less, 0, layers);
  };
  const std::int64_t part = chunk * layout.pipeline + stage;
  return {layer_at(slots_before(part)), layer_at(slots_before(part + 1))};
}

bool has_norms_of_heads(const Model& model) {
  bool found = false;
  for_each_tensor(model.inventory,
                  [&](const Tensor& each, int) { found |= each.name.ends_with("q_norm.weight"); });
  return found;
}

}  // namespace zplan
