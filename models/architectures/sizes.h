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

  std::optional<std::int64_t> default_attention_heads{};  ///< none: needed
  std::optional<std::int64_t> default_key_value_heads{};  ///< none: as many as attention heads
  std::optional<std::int64_t> default_head_size{};        ///< none: hidden size / heads
  std::optional<std::int64_t> default_vocabulary{};       ///< none: needed
  bool default_tied{};
};

/// The sizes that every decoder has; intermediate_size and what else differs is the architecture's to fill.
/// InputError where heads do not divide, with the place and what would do.
[[nodiscard]] ModelShape read_sizes(const JsonReader& config, const SizeRules& rules);

/// intermediate_size by its usual name.
[[nodiscard]] std::int64_t intermediate_size(const JsonReader& config);

/// The period's last layer sees everything, the others slide: the pattern that most architectures have.
[[nodiscard]] bool all_but_each_nth(std::int64_t layer, std::int64_t period);

/// Layers that the list `layer_types` calls "sliding_attention", or else those for which `pattern` says so.
[[nodiscard]] std::int64_t count_sliding(const JsonReader& config, const ModelShape& shape,
                                         bool (*pattern)(std::int64_t layer, std::int64_t period),
                                         std::int64_t period);
/// Every layer looks back `window` tokens; 0 for none.
void slide_everywhere(ModelShape& shape, std::int64_t window);
/// sliding_window, `fallback` where it is left out, 0 where it is null.
[[nodiscard]] std::int64_t sliding_window(const JsonReader& config, std::int64_t fallback);

/// A dropout probability, 0 where it is left out.
[[nodiscard]] double dropout(const JsonReader& config, std::string_view key, double fallback = 0.0);

}  // namespace zplan::architectures
