#include "planner/sharding/megatron_model.h"

#include <algorithm>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace zplan {

namespace {

constexpr std::int64_t kVocabularyMultiple = 128;

bool has(const std::vector<Tensor>& tensors, TensorRole role, std::string_view ending) {
  return std::ranges::any_of(
      tensors, [&](const Tensor& each) { return each.role == role && each.name.ends_with(ending); });
}

Tensor tensor_of(std::string name, std::vector<std::int64_t> shape, TensorRole role) {
  Tensor tensor;
  tensor.name = std::move(name), tensor.shape = std::move(shape), tensor.role = role;
  return tensor;
}

/// Makes the tensors of one kind of layer.
class LayerOf {
 public:
  LayerOf(const ModelShape& shape, const LayerKind& kind, std::int64_t ranks)
      : shape_(shape), kind_(kind), ranks_(ranks) {}

  LayerKind take() {
    const std::int64_t h = shape_.hidden_size, d = shape_.head_size, a = shape_.attention_heads,
                       k = shape_.key_value_heads, f = shape_.intermediate_size;
    const bool biased_norm = has(kind_.tensors, TensorRole::norm, ".bias");
    // Ranks that share a key-value head have equal parts of its queries, key and value.
    const bool shares = k < ranks_;
    add_linear("self_attention.linear_proj", TensorRole::attention, h, a * d, TensorParallelSplit::row,
               shares ? a : k, has(kind_.tensors, TensorRole::attention, "o_proj.bias") || dense_biases());
    add_norm("self_attention.linear_qkv.layer_norm", h, biased_norm);
    add_linear("self_attention.linear_qkv", TensorRole::attention, (a + 2 * k) * d, h,
               TensorParallelSplit::column, shares ? (a + 2 * k) * d : k, query_bias() || dense_biases());
    if (has(kind_.tensors, TensorRole::norm, "q_norm.weight")) {
      add_norm("self_attention.q_layernorm.", d, false);
      add_norm("self_attention.k_layernorm.", d, false);
    }
    add_norm("mlp.linear_fc1.layer_norm", h, biased_norm);
    const bool biased = dense_biases();
    add_linear("mlp.linear_fc1", TensorRole::mlp, (shape_.gated_mlp ? 2 : 1) * f, h,
               TensorParallelSplit::column, f, biased);
    add_linear("mlp.linear_fc2", TensorRole::mlp, h, f, TensorParallelSplit::row, f, biased);
    return std::move(made_);
  }

 private:
  [[nodiscard]] bool query_bias() const {
    return has(kind_.tensors, TensorRole::attention, "q_proj.bias") ||
           has(kind_.tensors, TensorRole::attention, "c_attn.bias");
  }
  [[nodiscard]] bool dense_biases() const { return has(kind_.tensors, TensorRole::mlp, ".bias"); }

  void add(std::string name, std::vector<std::int64_t> shape, TensorRole role, TensorParallelSplit split,
           std::int64_t units) {
    Tensor tensor = tensor_of("decoder.layers.{}." + std::move(name), std::move(shape), role);
    tensor.split = split, tensor.split_units = units;
    made_.tensors.push_back(std::move(tensor));
  }
  void add_norm(const std::string& module, std::int64_t size, bool biased) {
    const std::string joint = module.ends_with('.') ? "" : "_";
    add(module + joint + "weight", {size}, TensorRole::norm, TensorParallelSplit::replicated, 1);
    if (biased) add(module + joint + "bias", {size}, TensorRole::norm, TensorParallelSplit::replicated, 1);
  }
  void add_linear(const std::string& module, TensorRole role, std::int64_t out, std::int64_t in,
                  TensorParallelSplit split, std::int64_t units, bool biased) {
    add(module + ".weight", {out, in}, role, split, units);
    Tensor& weight = made_.tensors.back();
    weight.linear = Linear{.in_features = in, .out_features = out};
    weight.module = module.substr(module.rfind('.') + 1);
    if (!biased) return;
    const bool by_rows = split == TensorParallelSplit::row;
    add(module + ".bias", {out}, role, by_rows ? TensorParallelSplit::replicated : split,
        by_rows ? 1 : units);
  }

  const ModelShape& shape_;
  const LayerKind& kind_;
  std::int64_t ranks_;  ///< tensor-parallel
  LayerKind made_{.name = kind_.name, .tensors = {}};
};

Tensor table(std::string name, std::int64_t rows, std::int64_t width, TensorRole role) {
  Tensor tensor = tensor_of(std::move(name), {rows, width}, role);
  if (role != TensorRole::position_embedding)
    tensor.split = TensorParallelSplit::vocabulary, tensor.split_units = rows;
  if (role == TensorRole::head) tensor.linear = Linear{.in_features = width, .out_features = rows};
  return tensor;
}

}  // namespace

std::int64_t padded_vocabulary(std::int64_t vocabulary, std::int64_t tensor_parallel) {
  const std::int64_t multiple = kVocabularyMultiple * tensor_parallel;
  return divide_up(vocabulary, multiple) * multiple;
}

Model megatron_model(const Model& model, std::int64_t tensor_parallel) {
  Model made = model;
  ModelShape& shape = made.shape;
  shape.vocabulary_size = padded_vocabulary(shape.vocabulary_size, tensor_parallel);
  const std::int64_t h = shape.hidden_size;
  Inventory& inventory = made.inventory;
  const auto positions = std::ranges::find(inventory.before, TensorRole::position_embedding, &Tensor::role);
  const std::int64_t learned = positions != inventory.before.end() ? positions->shape.front() : 0;
  const bool biased_norm = has(inventory.after, TensorRole::norm, ".bias");
  inventory.before = {
      table("embedding.word_embeddings.weight", shape.vocabulary_size, h, TensorRole::token_embedding)};
  if (learned > 0)
    inventory.before.push_back(
        table("embedding.position_embeddings.weight", learned, h, TensorRole::position_embedding));
  for (LayerKind& each : inventory.kinds) each = LayerOf(shape, each, tensor_parallel).take();
  inventory.after = {tensor_of("decoder.final_layernorm.weight", {h}, TensorRole::norm)};
  if (biased_norm)
    inventory.after.push_back(tensor_of("decoder.final_layernorm.bias", {h}, TensorRole::norm));
  if (!shape.tied_embeddings)
    inventory.after.push_back(table("output_layer.weight", shape.vocabulary_size, h, TensorRole::head));
  inventory.buffers = {};
  return made;
}

LayerRange megatron_stage_layers(std::int64_t layers, std::int64_t stages, std::int64_t stage,
                                 const MegatronOptions& options) {
  const std::int64_t first = options.first_stage_layers, last = options.last_stage_layers;
  std::int64_t begin = 0, count = 0;
  for (std::int64_t each = 0; each <= stage; ++each) {
    begin += count;
    const bool is_first = each == 0, is_last = each + 1 == stages;
    if (first > 0 || last > 0) {
      const std::int64_t between = stages - (first > 0 ? 1 : 0) - (last > 0 ? 1 : 0);
      count = is_first && first > 0 ? first
              : is_last && last > 0 ? last
                                    : (layers - first - last) / std::max<std::int64_t>(between, 1);
      continue;
    }
    const std::int64_t slots =
        (layers + (options.counts_embedding ? 1 : 0) + (options.counts_loss ? 1 : 0)) / stages;
    count = slots - (is_first && options.counts_embedding ? 1 : 0) - (is_last && options.counts_loss ? 1 : 0);
  }
  return {begin, std::min(begin + count, layers)};
}

}  // namespace zplan
