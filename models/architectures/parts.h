#pragma once
// The parts that decoders are made of, as tensors in the order of named_parameters(). Paths are relative to
// the layer; `Stack` below puts the layer's prefix in front.

#include <string>
#include <vector>

#include "models/architectures/descriptor.h"
#include "models/model.h"

namespace zplan::architectures {

using Tensors = std::vector<Tensor>;

/// One torch.nn.Linear, and how AutoTP splits it.
struct LinearLayer {
  std::string path;  ///< "self_attn.q_proj"
  std::int64_t in{}, out{};
  bool bias{};
  TensorRole role{TensorRole::other};
  TensorParallelSplit split{TensorParallelSplit::replicated};
  std::int64_t units{1};
};

/// Returns weight, then bias. The bias of a column is split as its weight, that of a row is whole on every
/// rank (DeepSpeed 0.19.8 module_inject/layers.py: LinearLayer, LinearAllreduce).
[[nodiscard]] Tensors linear(const LinearLayer& layer);

/// Returns the weight of a normalisation, and its bias if it has one.
[[nodiscard]] Tensors norm(const std::string& path, std::int64_t size, bool bias = false);
/// Returns a tensor that no matrix product uses.
[[nodiscard]] Tensor plain(const std::string& name, std::vector<std::int64_t> shape, TensorRole role);

/// Names and biases of an attention with separate projections, in the order in which they are listed.
struct AttentionNames {
  std::string path{"self_attn"};
  std::vector<std::string> inputs{"q_proj", "k_proj",
                                  "v_proj"};  ///< the one that starts with q is the query's
};
struct Biases {
  bool input{}, output{};
};
/// Returns query, key and value (columns) and the output projection (a row). Key-value heads are the units.
[[nodiscard]] Tensors attention(const ModelShape& shape, Biases biases = {},
                                const AttentionNames& names = {});
/// Returns an attention with query, key and value in one weight.
[[nodiscard]] Tensors fused_attention(const ModelShape& shape, Biases biases, const std::string& input,
                                      const std::string& output);
/// Returns the units in which AutoTP splits `features` of an attention: key-value heads, or single features
/// where those do not divide them. Source: DeepSpeed 0.19.8 module_inject/tp_shard.py get_shard_size.
[[nodiscard]] std::int64_t attention_units(const ModelShape& shape, std::int64_t features);

/// Two linear layers, `in` → `width` → `in`.
struct TwoLayers {
  std::string up, down;
  std::int64_t width{};
  bool bias{};
};
[[nodiscard]] Tensors mlp(const ModelShape& shape, const TwoLayers& layers);

/// gate_proj, up_proj and down_proj under `path`.
struct GatedMlp {
  std::string path{"mlp"};
  std::int64_t width{};
  bool bias{};
  TensorRole role{TensorRole::mlp};
};
[[nodiscard]] Tensors gated_mlp(const ModelShape& shape, const GatedMlp& mlp);
/// Returns gate and up in one weight, then down.
[[nodiscard]] Tensors fused_gated_mlp(const ModelShape& shape, const std::string& gate_up,
                                      const std::string& down);

/// Returns gate and up of all routed experts in one tensor, down in another.
[[nodiscard]] Tensors expert_stacks(const ModelShape& shape, const std::string& path = "mlp.experts");
/// Returns the linear layer that scores the experts. transformers has a module of its own for it, no
/// torch.nn.Linear.
[[nodiscard]] Tensors router(const ModelShape& shape, bool bias = false);

[[nodiscard]] Tensors join(const std::vector<Tensors>& parts);

/// Returns the token embedding. If it is tied, AutoTP splits its vocabulary together with the head's.
[[nodiscard]] Tensors token_embedding(const ModelShape& shape, const std::string& path);
/// Returns the head, nothing if it is the embedding's weight.
[[nodiscard]] Tensors head(const ModelShape& shape, const std::string& path = "lm_head", bool bias = false);

/// The parts of a model in the order of named_parameters().
struct Stack {
  std::string prefix;  ///< "model.layers.{}."
  Tensors before;
  std::vector<LayerKind> kinds;
  std::vector<std::size_t> layers;
  Tensors after;
};
[[nodiscard]] Model assemble(const ModelShape& shape, Stack stack);
/// Makes every tensor of `roles` whole on every rank.
void leave_whole(Inventory& inventory, const std::vector<TensorRole>& roles);
/// Returns the kind 0 for every layer.
[[nodiscard]] std::vector<std::size_t> all_alike(const ModelShape& shape);

/// Returns a decoder of equal layers.
[[nodiscard]] Model decoder(const Descriptor& about, const ModelShape& shape, Tensors layer);
/// Returns a decoder of several kinds of layers.
[[nodiscard]] Model decoder(const Descriptor& about, const ModelShape& shape, std::vector<LayerKind> kinds,
                            std::vector<std::size_t> layers);

/// Returns queries, keys, values and the output projection of the descriptor's block, with its norms of
/// queries and keys.
[[nodiscard]] Tensors block_attention(const JsonReader& config, const Descriptor& about,
                                      const ModelShape& shape);
/// Returns the block's dense feed-forward.
[[nodiscard]] Tensors block_feed_forward(const JsonReader& config, const Descriptor& about,
                                         const ModelShape& shape);
/// Returns the norms over the model's width that the shape's modules name.
[[nodiscard]] Tensors block_norms(const Descriptor& about, const ModelShape& shape);

/// Reads shape.experts. Every layer is routed unless `set_layers` changes that. Throws InputError if more
/// experts are chosen than there are.
void read_mixture(const JsonReader& config, ModelShape& shape, const MixtureRules& rules);

/// Returns the kind of each layer, "dense" (0) or "mixture_of_experts" (1), and counts the latter in
/// shape.experts.
[[nodiscard]] std::vector<std::size_t> set_layers(ModelShape& shape, const std::vector<bool>& routed);

/// Returns for each layer true if Qwen's mlp_only_layers and decoder_sparse_step leave it routed.
[[nodiscard]] std::vector<bool> qwen_routed(const JsonReader& config, const ModelShape& shape);

/// Returns router, stacks and a shared expert with a gate of its own (Qwen 2).
[[nodiscard]] Tensors qwen2_experts(const ModelShape& shape);

/// Returns a model whose first `first_k_dense_replace` layers are dense, the others routed, with shared
/// experts. The two kinds differ in the feed-forward only.
[[nodiscard]] Model dense_then_routed(const JsonReader& config, const Descriptor& about, ModelShape shape,
                                      const Tensors& attention);

}  // namespace zplan::architectures
