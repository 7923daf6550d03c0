#pragma once
// Sizes out of a config.json: each checked for its range, each with the name that its architecture gives it.

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "models/base/json_reader.h"
#include "models/model.h"

namespace zplan::architectures {

/// Names of one size, the preferred first: GPT-2 writes "n_embd" where most write "hidden_size".
using Keys = std::vector<std::string_view>;

// Bounds far above any model that exists, so low that no product of sizes overflows 64 bits.
inline constexpr std::int64_t kMostLayers = 10'000;
inline constexpr std::int64_t kWidest = std::int64_t{1} << 20;     ///< hidden size
inline constexpr std::int64_t kWidestMlp = std::int64_t{1} << 24;  ///< intermediate size
inline constexpr std::int64_t kMostHeads = std::int64_t{1} << 16;
inline constexpr std::int64_t kWidestHead = std::int64_t{1}
                                            << 16;  ///< head size, and ranks of latent attention
inline constexpr std::int64_t kLargestVocabulary = std::int64_t{1} << 26;
inline constexpr std::int64_t kMostExperts = 65'536;
inline constexpr std::int64_t kMostPositions = std::int64_t{1} << 30;

/// The first of `keys` that the config gives, a whole number from 1 to `high`; an InputError that names the
/// first key where none is given.
[[nodiscard]] std::int64_t size(const JsonReader& config, const Keys& keys, std::int64_t high);
/// The same, with a fallback for a size that the config leaves out or sets to null.
[[nodiscard]] std::int64_t size_or(const JsonReader& config, const Keys& keys, std::int64_t fallback,
                                   std::int64_t high);
/// The size, or nothing where the config leaves it out or sets it to null.
[[nodiscard]] std::optional<std::int64_t> find_size(const JsonReader& config, const Keys& keys,
                                                    std::int64_t high);

/// InputError at the first of `keys` that is given, or at the place where the first of them would be.
[[noreturn]] void fail_at(const JsonReader& config, const Keys& keys, const std::string& found,
                          const std::string& accepted);

/// What an architecture calls its sizes, and what Hugging Face takes where they are left out.
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

/// The sizes that every decoder has. InputError where heads do not divide, with the place and what would do.
[[nodiscard]] ModelShape read_sizes(const JsonReader& config, const SizeRules& rules);

/// Names and defaults of a mixture's sizes; no default: needed.
struct MixtureRules {
  Keys experts{};  ///< empty: no mixture
  std::optional<std::int64_t> default_experts{};
  std::optional<std::int64_t> default_per_token{};
  Keys width{"moe_intermediate_size"};  ///< of one expert
  std::optional<std::int64_t> default_width{};
  std::int64_t default_shared{};  ///< n_shared_experts; 0: there are none of that name
  std::int64_t default_dense{};   ///< first_k_dense_replace
};

}  // namespace zplan::architectures
