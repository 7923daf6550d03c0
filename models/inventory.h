#pragma once
// The tensors of a model, without strategies, precision or devices.

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "models/base/names.h"
#include "models/base/quantity.h"

namespace zplan {

/// The role of a tensor, by which reports group tensors and count active ones. A tensor's exact place is its
/// name.
enum class TensorRole {
  token_embedding,
  position_embedding,
  attention,      ///< weights and biases of the attention projections (query, key, value, output; MLA's too)
  mlp,            ///< dense feed-forward weights and biases
  expert,         ///< routed experts, all of them in one tensor
  shared_expert,  ///< experts that every token passes
  router,         ///< the gate that chooses experts
  norm,           ///< normalisation weights and biases
  head,           ///< output projection to the vocabulary, where not tied to the embedding
  other,
};
template <>
struct EnumNames<TensorRole> {
  static constexpr std::array<std::pair<TensorRole, std::string_view>, 10> table{{
      {TensorRole::token_embedding, "token_embedding"},
      {TensorRole::position_embedding, "position_embedding"},
      {TensorRole::attention, "attention"},
      {TensorRole::mlp, "mlp"},
      {TensorRole::expert, "expert"},
      {TensorRole::shared_expert, "shared_expert"},
      {TensorRole::router, "router"},
      {TensorRole::norm, "norm"},
      {TensorRole::head, "head"},
      {TensorRole::other, "other"},
  }};
};

/// AutoTP's ways to split a tensor. `column` splits the output features, `row` the input features (its matrix
/// product ends in an all-reduce), `vocabulary` the vocabulary; the rest is replicated.
enum class TensorParallelSplit { replicated, column, row, vocabulary };

/// The matrix product of a weight, which LoRA adapts and which costs floating-point operations.
struct Linear {
  std::int64_t in_features{};
  std::int64_t out_features{};
  std::int64_t copies{1};  ///< experts stacked in one tensor
  bool operator==(const Linear&) const = default;
};

/// One parameter tensor as named_parameters() of the Hugging Face module lists it.
struct Tensor {
  std::string name;  ///< "{}" stands for the layer's number in tensors of a layer
  std::vector<std::int64_t> shape;
  TensorRole role{TensorRole::other};
  TensorParallelSplit split{TensorParallelSplit::replicated};
  /// Equal units that tensor parallelism distributes, lower ranks first: key-value heads for attention (as
  /// AutoTP does), features for an MLP, rows for a vocabulary.
  std::int64_t split_units{1};
  std::optional<Linear> linear;  ///< set on weights (not biases) of linear layers
  /// The last part of its module's path: "q_proj"; "experts" for expert stacks. LoRA's adapters have that of
  /// their base weight.
  std::string module;
  bool idle{};  ///< no gradient reaches it: a tower for images, trained on text alone

  [[nodiscard]] Elements elements() const;
  bool operator==(const Tensor&) const = default;
};

/// A kind of layer: layers of one kind have the same tensors in the same order.
struct LayerKind {
  std::string name;  ///< "decoder", "dense", "mixture_of_experts", …
  std::vector<Tensor> tensors;
  bool operator==(const LayerKind&) const = default;
};

/// Every parameter tensor of a model in the order of named_parameters(): `before`, the layers, `after`.
/// Tied tensors are listed once, where they first appear. Each distinct layer is stored
/// once, so that cost does not grow with depth.
struct Inventory {
  std::vector<Tensor> before;       ///< embeddings
  std::vector<LayerKind> kinds;     ///< distinct kinds of layers
  std::vector<std::size_t> layers;  ///< the kind of each layer, in order
  std::vector<Tensor> after;        ///< final norm, head
  Bytes buffers{};  ///< large tensors that are no parameters, whole on every rank (masks, tables)
  bool operator==(const Inventory&) const = default;
};

/// Replaces the output head by "score", `outputs` numbers per token, as AutoModelForSequenceClassification
/// does with num_labels = outputs. Source: transformers 5.23 modeling_layers.py
/// GenericForSequenceClassification.
void replace_head_by_score(Inventory& inventory, std::int64_t hidden_size, std::int64_t outputs = 1);

/// Calls visit(tensor, layer) for every tensor in order; layer is −1 outside the layers.
void for_each_tensor(const Inventory& inventory, const std::function<void(const Tensor&, int layer)>& visit);

[[nodiscard]] Elements elements(const std::vector<Tensor>& tensors);
[[nodiscard]] Elements elements(const LayerKind& kind);
/// Returns the exact number of parameters.
[[nodiscard]] Elements elements(const Inventory& inventory);
/// Returns the number of parameters of one role.
[[nodiscard]] Elements elements(const Inventory& inventory, TensorRole role);

/// Returns the number of parameters in floating point, to check that 64 bits hold the exact one.
[[nodiscard]] double approximate_elements(const Inventory& inventory);
/// The most parameters that are accepted.
inline constexpr double kMostParameters = static_cast<double>(std::int64_t{1} << 60);

/// Returns the units of `total` that rank `rank` of `ranks` holds: total / ranks, one more on the first total
/// % ranks ranks. Source: DeepSpeed 0.19.8 module_inject/tp_shard.py get_shard_size.
[[nodiscard]] std::int64_t units_on_rank(std::int64_t total, std::int64_t ranks, std::int64_t rank);
/// Returns the elements of `tensor` on one rank of a tensor-parallel group.
[[nodiscard]] Elements elements_on_rank(const Tensor& tensor, std::int64_t ranks, std::int64_t rank);

}  // namespace zplan
