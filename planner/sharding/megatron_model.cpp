#include "planner/sharding/megatron_model.h"

#include <algorithm>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "planner/sharding/own_tensors.h"

namespace zplan {

namespace {

constexpr std::int64_t kVocabularyMultiple = 128;

/// True of the weight that gates a layer's shared experts.
bool is_shared_gate(const Tensor& tensor) {
  return tensor.name.find("shared_expert_gate") != std::string::npos;
}

/// Makes the tensors of one kind of layer.
class LayerOf {
 public:
  LayerOf(const ModelShape& shape, const LayerKind& kind, const ParallelLayout& layout)
      : shape_(shape), kind_(kind), layout_(layout) {}

  LayerKind take() {
    const bool biased_norm = has_tensor(kind_.tensors, TensorRole::norm, ".bias");
    if (has_tensor(kind_.tensors, TensorRole::attention, "A_log"))
      add_delta_net();
    else if (shape_.latent_attention)
      add_latent_attention();
    else
      add_attention(biased_norm);
    if (has_tensor(kind_.tensors, TensorRole::expert, "")) {
      add_mixture();
      return std::move(made_);
    }
    add_norm("mlp.linear_fc1.layer_norm", shape_.hidden_size, biased_norm);
    add_feed_forward("mlp.", TensorRole::mlp, shape_.intermediate_size, dense_biases());
    if (!shape_.modules.norm_behind_feed_forward.empty())
      add_norm("mlp.post_mlp_layernorm.", shape_.hidden_size, false);
    return std::move(made_);
  }

 private:
  void add_attention(bool biased_norm) {
    const std::int64_t h = shape_.hidden_size, d = shape_.head_size, a = shape_.attention_heads,
                       k = shape_.key_value_heads;
    // Ranks that share a key-value head have equal parts of its queries, key and value.
    const bool shares = k < layout_.tensor;
    add_linear("self_attention.linear_proj", TensorRole::attention, h, a * d, TensorParallelSplit::row,
               shares ? a : k,
               has_tensor(kind_.tensors, TensorRole::attention, "o_proj.bias") || dense_biases());
    // Gates of attention's output stand beside the queries.
    const bool gates = shape_.operators.attention == AttentionForm::gated;
    const std::int64_t width = (gates ? 2 * a + 2 * k : a + 2 * k) * d;
    add_norm("self_attention.linear_qkv.layer_norm", h, biased_norm);
    add_linear("self_attention.linear_qkv", TensorRole::attention, width, h, TensorParallelSplit::column,
               shares ? width : k, query_bias() || dense_biases());
    if (has_tensor(kind_.tensors, TensorRole::norm, "q_norm.weight")) {
      add_norm("self_attention.q_layernorm.", d, false);
      add_norm("self_attention.k_layernorm.", d, false);
    }
    if (!shape_.modules.norm_behind_attention.empty())
      add_norm("self_attention.post_self_attn_layernorm.", h, false);
  }
  /// GatedDeltaNet: the module's own parameters, then those of its layers. Source: Megatron-Core 0.19.2
  /// core/ssm/gated_delta_net/common.py.
  void add_delta_net() {
    const DeltaNet& net = *shape_.delta_net;
    const std::int64_t h = shape_.hidden_size, mixed = 2 * net.key_width() + net.value_width();
    constexpr TensorParallelSplit kColumn = TensorParallelSplit::column;
    add("self_attention.dt_bias", {net.value_heads}, TensorRole::attention, kColumn, net.value_heads);
    add("self_attention.A_log", {net.value_heads}, TensorRole::attention, kColumn, net.value_heads);
    add_norm("self_attention.in_proj.layer_norm", h, false);
    add_linear("self_attention.in_proj", TensorRole::attention,
               mixed + net.value_width() + 2 * net.value_heads, h, kColumn, net.key_heads, false);
    add("self_attention.conv1d.weight", {mixed, 1, net.kernel}, TensorRole::attention, kColumn,
        net.key_heads);
    add_norm("self_attention.out_norm.", net.value_head_size, false);
    add_linear("self_attention.out_proj", TensorRole::attention, h, net.value_width(),
               TensorParallelSplit::row, net.value_heads, false);
  }
  /// Projections onto the bottlenecks are whole on every rank; the norms behind them are inside the
  /// projections out of them. Without a bottleneck queries pass a norm, too.
  void add_latent_attention() {
    const LatentAttention& latent = *shape_.latent_attention;
    const std::int64_t h = shape_.hidden_size, a = shape_.attention_heads,
                       d = latent.nope_head_size + latent.rope_head_size;
    add_norm("input_layernorm.", h, false);
    add_projection("linear_proj", h, a * latent.value_head_size, TensorParallelSplit::row);
    if (latent.query_rank > 0)
      add_projection("linear_q_down_proj", latent.query_rank, h, TensorParallelSplit::replicated);
    const std::string queries = latent.query_rank > 0 ? "linear_q_up_proj" : "linear_q_proj";
    const std::int64_t width = latent.query_rank > 0 ? latent.query_rank : h;
    add_norm("self_attention." + queries + ".layer_norm", width, false);
    add_projection(queries, a * d, width, TensorParallelSplit::column);
    add_projection("linear_kv_down_proj", latent.key_value_rank + latent.rope_head_size, h,
                   TensorParallelSplit::replicated);
    add_norm("self_attention.linear_kv_up_proj.layer_norm", latent.key_value_rank, false);
    add_projection("linear_kv_up_proj", a * (latent.nope_head_size + latent.value_head_size),
                   latent.key_value_rank, TensorParallelSplit::column);
  }
  void add_projection(const std::string& module, std::int64_t out, std::int64_t in,
                      TensorParallelSplit split) {
    const bool is_whole = split == TensorParallelSplit::replicated;
    add_linear("self_attention." + module, TensorRole::attention, out, in, split,
               is_whole ? 1 : shape_.attention_heads, false);
  }
  [[nodiscard]] bool query_bias() const {
    return has_tensor(kind_.tensors, TensorRole::attention, "q_proj.bias") ||
           has_tensor(kind_.tensors, TensorRole::attention, "c_attn.bias");
  }
  [[nodiscard]] bool dense_biases() const { return has_tensor(kind_.tensors, TensorRole::mlp, ".bias"); }

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
  void add_feed_forward(const std::string& path, TensorRole role, std::int64_t width, bool biased) {
    const std::int64_t h = shape_.hidden_size;
    add_linear(path + "linear_fc1", role, (shape_.gated_mlp ? 2 : 1) * width, h, TensorParallelSplit::column,
               width, biased);
    add_linear(path + "linear_fc2", role, h, width, TensorParallelSplit::row, width, biased);
  }
  /// A norm of its own, which router and experts read, the router, the rank's own experts, shared experts.
  void add_mixture() {
    const MixtureOfExperts& about = *shape_.experts;
    const std::int64_t h = shape_.hidden_size, width = about.intermediate_size / layout_.expert_tensor;
    add_norm("pre_mlp_layernorm.", h, false);
    add("mlp.router.weight", {about.experts, h}, TensorRole::router, TensorParallelSplit::replicated, 1);
    add_experts("linear_fc1", 2 * width, h);
    add_experts("linear_fc2", h, width);
    // The module's own parameter stands in front of its layers'.
    if (std::ranges::any_of(kind_.tensors, is_shared_gate))
      add("mlp.shared_experts.gate_weight", {1, h}, TensorRole::other, TensorParallelSplit::replicated, 1);
    if (about.shared_intermediate_size > 0)
      add_feed_forward("mlp.shared_experts.", TensorRole::shared_expert, about.shared_intermediate_size,
                       false);
  }
  /// Weights of one rank's experts, of which Megatron-Core has a parameter each, in one stack.
  void add_experts(const std::string& module, std::int64_t out, std::int64_t in) {
    const std::int64_t own = shape_.experts->experts / layout_.expert;
    add("mlp.experts." + module + ".weight", {own, out, in}, TensorRole::expert,
        TensorParallelSplit::replicated, 1);
    made_.tensors.back().linear = Linear{.in_features = in, .out_features = out, .copies = own};
    made_.tensors.back().module = module;
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
  const ParallelLayout& layout_;
  LayerKind made_{.name = kind_.name, .tensors = {}};
};

}  // namespace

std::int64_t padded_vocabulary(std::int64_t vocabulary, std::int64_t tensor_parallel) {
  const std::int64_t multiple = kVocabularyMultiple * tensor_parallel;
  return divide_up(vocabulary, multiple) * multiple;
}

namespace {

/// Adds a layer that predicts a further token: what joins embedding and hidden states, then a layer as the
/// decoder's last is, and a norm.
void add_prediction(const Inventory& inventory, std::int64_t depth, std::int64_t hidden,
                    std::vector<Tensor>& after) {
  const std::string path = "mtp.layers." + std::to_string(depth) + ".";
  for (const char* each : {"enorm.weight", "hnorm.weight"})
    after.push_back(tensor_of(path + each, {hidden}, TensorRole::norm));
  Tensor joining = tensor_of(path + "eh_proj.weight", {hidden, 2 * hidden}, TensorRole::other);
  joining.split = TensorParallelSplit::column, joining.split_units = hidden;
  joining.linear = Linear{.in_features = 2 * hidden, .out_features = hidden};
  after.push_back(std::move(joining));
  constexpr std::string_view kLayers = "decoder.layers.{}.";
  for (Tensor each : inventory.kinds[inventory.layers.back()].tensors) {
    each.name = path + "mtp_model_layer." + each.name.substr(kLayers.size());
    after.push_back(std::move(each));
  }
  after.push_back(tensor_of(path + "final_layernorm.weight", {hidden}, TensorRole::norm));
}

/// The head of a reward model, which every tensor-parallel rank has whole. Source: mcore-bridge 1.6.5
/// model/gpt_model.py OutputLayerLinear.
Tensor score_of(std::int64_t hidden) {
  Tensor score = tensor_of("output_layer.weight", {1, hidden}, TensorRole::head);
  score.module = "output_layer";
  score.linear = Linear{.in_features = hidden, .out_features = 1};
  return score;
}

/// True of a tensor of what reads images, or of what hands its output to the language model.
bool is_of_tower(const Model& model, const Tensor& tensor) {
  if (tensor.idle) return true;
  if (!model.vision) return false;
  const TowerNames& names = model.vision->names;
  return tensor.name.find(names.tower + ".") != std::string::npos ||
         tensor.name.find(names.projector + ".") != std::string::npos;
}

/// Takes the tower out of the model: transformers' modules, which every tensor-parallel rank of the first
/// stage has whole and no adapter reaches. Source: mcore-bridge 1.6.5 model/mm_gpt_model.py
/// MultimodalGPTModel, model/mm_gpts/utils.py HuggingFaceVit; ms-swift 4.6
/// swift/megatron/arguments/megatron_args.py freeze_vit.
std::vector<Tensor> take_tower(Model& model) {
  std::vector<Tensor> tower;
  for (std::vector<Tensor>* each : {&model.inventory.before, &model.inventory.after}) {
    for (Tensor tensor : *each)
      if (is_of_tower(model, tensor)) {
        tensor.split = TensorParallelSplit::replicated, tensor.split_units = 1;
        tensor.linear.reset();
        tower.push_back(std::move(tensor));
      }
    std::erase_if(*each, [&](const Tensor& tensor) { return is_of_tower(model, tensor); });
  }
  return tower;
}

}  // namespace

Model megatron_model(const Model& model, const ParallelLayout& layout, std::int64_t predictions) {
  Model made = model;
  ModelShape& shape = made.shape;
  shape.vocabulary_size = padded_vocabulary(shape.vocabulary_size, layout.tensor);
  const std::int64_t h = shape.hidden_size;
  Inventory& inventory = made.inventory;
  const std::vector<Tensor> tower = take_tower(made);
  // Positions of models that read images are those in time, rows and columns.
  shape.operators.three_axes = shape.operators.three_axes || !tower.empty();
  const auto positions = std::ranges::find(inventory.before, TensorRole::position_embedding, &Tensor::role);
  const std::int64_t learned = positions != inventory.before.end() ? positions->shape.front() : 0;
  const bool biased_norm = has_tensor(inventory.after, TensorRole::norm, ".bias"),
             scores = has_tensor(inventory.after, TensorRole::head, "score.weight");
  inventory.before = {
      table_of("embedding.word_embeddings.weight", shape.vocabulary_size, h, TensorRole::token_embedding)};
  if (learned > 0)
    inventory.before.push_back(
        table_of("embedding.position_embeddings.weight", learned, h, TensorRole::position_embedding));
  inventory.before.insert(inventory.before.end(), tower.begin(), tower.end());
  for (LayerKind& each : inventory.kinds) each = LayerOf(shape, each, layout).take();
  inventory.after = {tensor_of("decoder.final_layernorm.weight", {h}, TensorRole::norm)};
  if (biased_norm)
    inventory.after.push_back(tensor_of("decoder.final_layernorm.bias", {h}, TensorRole::norm));
  for (std::int64_t depth = 0; depth < predictions; ++depth)
    add_prediction(inventory, depth, h, inventory.after);
  if (scores)
    inventory.after.push_back(score_of(h));
  else if (!shape.tied_embeddings)
    inventory.after.push_back(table_of("output_layer.weight", shape.vocabulary_size, h, TensorRole::head));
  inventory.buffers = {};
  return made;
}

namespace {

/// Layers of the whole of stage `stage`, where the first or the last has a number of its own.
std::int64_t uneven_layers(std::int64_t layers, std::int64_t stages, std::int64_t stage,
                           const MegatronOptions& options) {
  const std::int64_t first = options.first_stage_layers, last = options.last_stage_layers;
  if (stage == 0 && first > 0) return first;
  if (stage + 1 == stages && last > 0) return last;
  const std::int64_t between = stages - (first > 0 ? 1 : 0) - (last > 0 ? 1 : 0);
  return (layers - first - last) / std::max<std::int64_t>(between, 1);
}

/// Layers of chunk `place` of all chunks of the model, in order.
std::int64_t chunk_size(std::int64_t layers, const ParallelLayout& layout, std::int64_t place,
                        const MegatronOptions& options) {
  const std::int64_t stages = layout.pipeline, chunks = stages * layout.virtual_stages;
  const std::vector<std::int64_t>& given = options.layers_of_chunks;
  if (!given.empty()) return place < std::ssize(given) ? given[static_cast<std::size_t>(place)] : 0;
  if (options.first_stage_layers > 0 || options.last_stage_layers > 0)
    return uneven_layers(layers, stages, place % stages, options) / layout.virtual_stages;
  const std::int64_t all = layers + (options.counts_embedding ? 1 : 0) + (options.counts_loss ? 1 : 0);
  return all / chunks - (place == 0 && options.counts_embedding ? 1 : 0) -
         (place + 1 == chunks && options.counts_loss ? 1 : 0);
}

}  // namespace

LayerRange megatron_layers(std::int64_t layers, const ParallelLayout& layout, std::int64_t stage,
                           std::int64_t chunk, const MegatronOptions& options) {
  const std::int64_t place = chunk * layout.pipeline + stage;
  std::int64_t first = 0;
  for (std::int64_t each = 0; each < place; ++each) first += chunk_size(layers, layout, each, options);
  return {first, std::min(first + chunk_size(layers, layout, place, options), layers)};
}

}  // namespace zplan
