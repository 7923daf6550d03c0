#pragma once
// An architecture is one descriptor: how its config is read, what its tensors are called, which operators run
// and what other libraries make of it, side by side. Each file of this folder holds the table of its family,
// beside the functions for what data cannot say.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "models/base/json_reader.h"
#include "models/model.h"

namespace zplan::architectures {

/// Keys of one size, the preferred first: "n_embd" of GPT-2 is "hidden_size" of most.
using Keys = std::vector<std::string_view>;

// Bounds far above any model that exists, so low that no product of sizes overflows 64 bits.
inline constexpr std::int64_t kMostLayers = 1024;
inline constexpr std::int64_t kWidest = std::int64_t{1} << 20;     ///< hidden size
inline constexpr std::int64_t kWidestMlp = std::int64_t{1} << 24;  ///< intermediate size
inline constexpr std::int64_t kMostHeads = std::int64_t{1} << 16;
inline constexpr std::int64_t kWidestHead = std::int64_t{1}
                                            << 16;  ///< head size, and ranks of latent attention
inline constexpr std::int64_t kLargestVocabulary = std::int64_t{1} << 26;
inline constexpr std::int64_t kMostExperts = 65'536;
inline constexpr std::int64_t kMostPositions = std::int64_t{1} << 30;

/// Returns the first of `keys` in the config, a whole number from 1 to `high`. Throws InputError, which names
/// the first key, if there is none.
[[nodiscard]] std::int64_t size(const JsonReader& config, const Keys& keys, std::int64_t high);
/// Returns the size, or `fallback` if the config leaves it out or sets it to null.
[[nodiscard]] std::int64_t size_or(const JsonReader& config, const Keys& keys, std::int64_t fallback,
                                   std::int64_t high);
/// Returns the size, nothing if the config leaves it out or sets it to null.
[[nodiscard]] std::optional<std::int64_t> find_size(const JsonReader& config, const Keys& keys,
                                                    std::int64_t high);

/// Throws InputError for the first of `keys` in the config, else for the place of the first of all.
[[noreturn]] void fail_at(const JsonReader& config, const Keys& keys, const std::string& found,
                          const std::string& accepted);

/// Keys of an architecture's sizes, and Hugging Face's defaults for those that are left out.
struct SizeRules {
  Keys layers{"num_hidden_layers"};
  Keys hidden_size{"hidden_size"};
  Keys attention_heads{"num_attention_heads"};
  Keys key_value_heads{"num_key_value_heads"};  ///< empty: always as many as attention heads
  Keys head_size{"head_dim"};                   ///< empty: always hidden size / heads
  Keys vocabulary{"vocab_size"};
  Keys positions{"max_position_embeddings"};
  Keys intermediate{"intermediate_size"};  ///< empty: always `default_intermediate`

  std::optional<std::int64_t> default_attention_heads{};  ///< none: needed
  std::optional<std::int64_t> default_key_value_heads{};  ///< none: as many as attention heads
  std::optional<std::int64_t> default_head_size{};        ///< none: hidden size / heads
  std::optional<std::int64_t> default_vocabulary{};       ///< none: needed
  std::int64_t default_intermediate{};                    ///< hidden sizes; 0: needed
  bool default_tied{};
};

/// Reads the sizes that every decoder has. Throws InputError if the heads do not divide.
[[nodiscard]] ModelShape read_sizes(const JsonReader& config, const SizeRules& rules);

/// Keys and defaults of a mixture's sizes. Sizes without a default are required.
struct MixtureRules {
  Keys experts{};  ///< empty: no mixture
  std::optional<std::int64_t> default_experts{};
  std::optional<std::int64_t> default_per_token{};
  Keys width{"moe_intermediate_size"};  ///< of one expert
  std::optional<std::int64_t> default_width{};
  std::int64_t default_shared{};  ///< n_shared_experts; 0: there are none of that name
  std::int64_t default_dense{};   ///< first_k_dense_replace
};

/// A boolean of the config: the value of `key`, or `otherwise` if it is absent or `key` is empty.
struct Switch {
  std::string_view key{};
  bool otherwise{};
};
[[nodiscard]] bool is_on(const JsonReader& config, const Switch& given);

/// Key and default of a dropout probability.
struct DropoutRule {
  std::string_view key{};
  double otherwise{};
};

/// Keys of the features of a head that rotary embedding turns: a share of them (in newer files in
/// rope_parameters), or their number.
struct RotaryRule {
  std::string_view share{};
  std::string_view features{};
};

/// The layers with a sliding window, for configs that do not list them (layer_types).
struct WindowRule {
  enum class Layers { all, each_nth, all_but_each_nth, from_nth, each_other_below_nth };
  std::int64_t size{};  ///< where sliding_window is left out; 0: none
  Layers layers{Layers::all};
  std::string_view key{};  ///< of n
  std::int64_t n{};
  Switch on{.otherwise = true};
};

enum class SoftCap { none, where_given, unless_null };
enum class FeedForward { gated, fused_gated, plain };
enum class QueryKeyNorm { none, of_heads, of_each_head, of_width };

/// Parts of the layers named model.layers.{}, in the order of named_parameters(): self_attn with its norms of
/// queries and keys, the feed-forward, norms.
struct Block {
  Switch input_bias{"attention_bias"};  ///< of queries, keys and values
  Switch output_bias{"attention_bias"};
  Switch mlp_bias{};
  QueryKeyNorm query_key_norm{QueryKeyNorm::none};
  Switch norms_queries_and_keys{.otherwise = true};
  std::string up{"mlp.up_proj"}, down{"mlp.down_proj"};  ///< of a feed-forward of two weights
  bool norm_bias{}, head_bias{};
  bool behind_last{};  ///< norms behind attention and feed-forward are listed last, not each at its place
};

struct Descriptor;
/// model.embed_tokens, model.layers.{} of `block`, model.norm and lm_head: no function of its own is needed.
[[nodiscard]] Model read_decoder(const JsonReader& config, const Descriptor& about);

struct Descriptor {
  std::string_view model_type;       ///< as config.json says it
  std::string_view causal_lm_class;  ///< in `architectures` of configs without model_type
  Model (*read)(const JsonReader& config, const Descriptor& about){read_decoder};

  SizeRules sizes{};
  FeedForward feed_forward{FeedForward::gated};
  bool fused_query_key_value{};
  Switch parallel{};  ///< attention and feed-forward read the same input
  DropoutRule dropout{};
  std::optional<DropoutRule> embedding_dropout{};  ///< without: hidden states' counts for embeddings, too
  std::optional<DropoutRule>
      attention_dropout{};  ///< without: hidden states' counts for attention probabilities, too
  RotaryRule rotary{};
  std::optional<WindowRule> window{};
  SoftCap soft_cap{SoftCap::none};  ///< final_logit_softcapping
  MixtureRules mixture{};
  Block block{};
  Modules modules{};
  std::vector<TensorRole> left_whole{};  ///< AutoTP finds no rule for these (tests/reference/autotp/)

  Operators operators{};
  LibraryRules libraries{};
};
using Descriptors = std::vector<Descriptor>;

/// Returns every architecture, sorted by model_type.
[[nodiscard]] const Descriptors& descriptors();

/// Reads all of the shape that a descriptor determines.
[[nodiscard]] ModelShape shape_of(const JsonReader& config, const Descriptor& about);

// The tables of the files of this folder.
[[nodiscard]] Descriptors decoders();
[[nodiscard]] Descriptors deepseek();
[[nodiscard]] Descriptors fused_decoders();
[[nodiscard]] Descriptors glm();
[[nodiscard]] Descriptors google();
[[nodiscard]] Descriptors gpt();
[[nodiscard]] Descriptors layer_norm_decoders();
[[nodiscard]] Descriptors linear_attention();
[[nodiscard]] Descriptors mixtures();
[[nodiscard]] Descriptors remote_code();

}  // namespace zplan::architectures
