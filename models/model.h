#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "models/inventory.h"
#include "models/operators.h"
#include "models/recorded/recorded.h"
#include "models/vision/vision.h"

namespace zplan {

enum class ModelSource { catalogue, config, size, cache, hub };
template <>
struct EnumNames<ModelSource> {
  static constexpr std::array<std::pair<ModelSource, std::string_view>, 5> table{{
      {ModelSource::catalogue, "catalogue"},
      {ModelSource::config, "config"},
      {ModelSource::size, "size"},
      {ModelSource::cache, "cache"},
      {ModelSource::hub, "hub"},
  }};
};

/// Routed feed-forward. Layers without it have the dense MLP of ModelShape::intermediate_size.
struct MixtureOfExperts {
  std::int64_t experts{};
  std::int64_t experts_per_token{};
  std::int64_t intermediate_size{};         ///< of one routed expert
  std::int64_t shared_intermediate_size{};  ///< of all shared experts together; 0 where there are none
  std::int64_t layers{};                    ///< how many layers are routed
  bool operator==(const MixtureOfExperts&) const = default;
};

/// Multi-head latent attention (DeepSeek): queries and keys/values pass a low-rank bottleneck.
struct LatentAttention {
  std::int64_t query_rank{};  ///< 0: queries are projected directly
  std::int64_t key_value_rank{};
  std::int64_t nope_head_size{}, rope_head_size{}, value_head_size{};
  bool operator==(const LatentAttention&) const = default;
};

/// A gated delta net (Qwen3-Next, Qwen3.5): attention that is linear in the tokens, over a state of
/// key_head_size x value_head_size for each value head.
struct DeltaNet {
  std::int64_t key_heads{}, value_heads{};
  std::int64_t key_head_size{}, value_head_size{};
  std::int64_t kernel{};     ///< tokens that the convolution in front of it sees
  bool joint_projections{};  ///< queries, keys, values and gates in one, their scalars in another
  std::int64_t layers{};     ///< how many layers have it
  [[nodiscard]] std::int64_t key_width() const { return key_heads * key_head_size; }
  [[nodiscard]] std::int64_t value_width() const { return value_heads * value_head_size; }
  bool operator==(const DeltaNet&) const = default;
};

/// The shape of a model besides its tensors: sizes in the words of config.json, and the properties of the
/// block that determine which tensors are saved for the backward pass.
struct ModelShape {
  std::string architecture;  ///< config.json's model_type: "llama", "qwen3_moe", …
  std::int64_t layers{};
  std::int64_t hidden_size{};
  std::int64_t intermediate_size{};  ///< of the dense MLP
  std::int64_t attention_heads{};
  std::int64_t key_value_heads{};
  std::int64_t head_size{};
  std::int64_t vocabulary_size{};
  std::int64_t max_positions{};  ///< 0 if the config does not state them
  bool tied_embeddings{};

  bool gated_mlp{true};          ///< gate and up projections (SwiGLU, GeGLU) rather than one
  bool fused_query_key_value{};  ///< one projection for query, key and value
  bool fused_gate_up{};
  bool parallel_attention{};      ///< attention and MLP read the same input (NeoX, Falcon, Phi)
  bool logit_soft_cap{};          ///< tanh on the logits (Gemma 2)
  double dropout{};               ///< hidden dropout in training, from the config
  double embedding_dropout{};     ///< dropout of the embeddings
  double attention_dropout{};     ///< dropout of attention probabilities
  std::int64_t sliding_window{};  ///< 0: none
  std::int64_t sliding_layers{};  ///< layers that use the window
  std::optional<MixtureOfExperts> experts;
  std::optional<LatentAttention> latent_attention;
  std::optional<DeltaNet> delta_net;  ///< of the layers that have one instead of attention
  Operators operators{};
  Modules modules{};
  LibraryRules libraries{};
  bool operator==(const ModelShape&) const = default;
};

struct Model {
  std::string name;
  ModelSource source{ModelSource::catalogue};
  std::string origin;  ///< where its numbers come from: repository and revision, a path, or how the shape was
                       ///< inferred
  ModelShape shape;
  Inventory inventory;
  std::string read_as{};    ///< "NAME is planned as MODEL, …", if another name was asked for
  std::string stored_as{};  ///< how its files pack the weights: quantization_config's quant_method
  std::shared_ptr<const Recorded> recorded{};  ///< its micro-steps, where no descriptor's program runs
  /// The model whose micro-step replaces this one's, which is unknown: activations are planned by analogy.
  std::shared_ptr<const Model> analogue{};
  std::shared_ptr<const Vision> vision{};      ///< how images reach it: set where it is run with them
  std::shared_ptr<const Model> with_images{};  ///< an image-text model as it runs with images as input
  std::optional<ImageRule> image_rule{};       ///< of one whose language model has no program
  /// PPO's value model, trained with the policy, and its reward model. Both return one number per token.
  std::shared_ptr<const Model> value{}, reward{};
  std::shared_ptr<const Model> teacher{};  ///< of gkd, frozen; none: it has this model's shape
  std::string why_no_images{};             ///< why there is none, where its config says what no tower has
};

[[nodiscard]] Elements parameters(const Model& model);
/// True if a part of the model reads images and gets no gradient from text.
[[nodiscard]] bool has_tower(const Model& model);
/// Returns the number of parameters that a token passes: routed experts count experts_per_token of experts.
[[nodiscard]] Elements active_parameters(const Model& model);
/// Returns the number of parameters of the largest layer.
[[nodiscard]] Elements largest_layer(const Model& model);

}  // namespace zplan
