#include "models/architectures/sizes.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

namespace zplan::architectures {

namespace {

/// "config.json#/hidden_size" for a key that the config does not have.
std::string place_of(const JsonReader& config, std::string_view key) {
  const std::string place = config.place();
  return place + (place.find('#') == std::string::npos ? "#/" : "/") + std::string(key);
}

[[noreturn]] void missing(const JsonReader& config, const Keys& keys, std::int64_t high) {
  throw InputError(place_of(config, keys.front()), "is missing",
                   fmt::format("accepted: a whole number from 1 to {}", high));
}

bool set_to_null(const JsonReader& config, const Keys& keys) {
  return std::any_of(keys.begin(), keys.end(), [&](std::string_view key) {
    return config.raw().is_object() && config.raw().contains(key) && config.raw().find(key)->is_null();
  });
}

std::int64_t read_attention_heads(const JsonReader& config, const SizeRules& rules) {
  if (!rules.default_attention_heads) return size(config, rules.attention_heads, kMostHeads);
  return size_or(config, rules.attention_heads, *rules.default_attention_heads, kMostHeads);
}

/// null means "as many as attention heads" to Hugging Face, whatever the default.
std::int64_t read_key_value_heads(const JsonReader& config, const SizeRules& rules, std::int64_t heads) {
  const bool follows = !rules.default_key_value_heads || set_to_null(config, rules.key_value_heads);
  const std::int64_t fallback = follows ? heads : *rules.default_key_value_heads;
  const std::int64_t given = size_or(config, rules.key_value_heads, fallback, kMostHeads);
  if (heads % given != 0)
    fail_at(config, rules.key_value_heads,
            fmt::format("{} key-value heads for {} attention heads", given, heads),
            "accepted: a divisor of the attention heads");
  return given;
}

std::int64_t read_head_size(const JsonReader& config, const SizeRules& rules, const ModelShape& shape) {
  if (const auto given = find_size(config, rules.head_size, kWidestHead)) return *given;
  if (rules.default_head_size && !set_to_null(config, rules.head_size)) return *rules.default_head_size;
  if (shape.hidden_size % shape.attention_heads != 0)
    fail_at(
        config, rules.attention_heads,
        fmt::format("{} heads do not divide the hidden size {}", shape.attention_heads, shape.hidden_size),
        rules.head_size.empty() ? "accepted: a divisor of the hidden size"
                                : "accepted: a divisor of the hidden size, or head_dim given as well");
  return shape.hidden_size / shape.attention_heads;
}

std::int64_t read_vocabulary(const JsonReader& config, const SizeRules& rules) {
  if (!rules.default_vocabulary) return size(config, rules.vocabulary, kLargestVocabulary);
  return size_or(config, rules.vocabulary, *rules.default_vocabulary, kLargestVocabulary);
}

std::int64_t read_intermediate(const JsonReader& config, const SizeRules& rules, std::int64_t hidden_size) {
  if (rules.default_intermediate == 0) return size(config, rules.intermediate, kWidestMlp);
  return size_or(config, rules.intermediate, rules.default_intermediate * hidden_size, kWidestMlp);
}

}  // namespace

std::optional<std::int64_t> find_size(const JsonReader& config, const Keys& keys, std::int64_t high) {
  for (const std::string_view key : keys)
    if (const auto found = config.find(key)) return found->integer(1, high);
  return std::nullopt;
}

std::int64_t size(const JsonReader& config, const Keys& keys, std::int64_t high) {
  if (const auto found = find_size(config, keys, high)) return *found;
  missing(config, keys, high);
}

std::int64_t size_or(const JsonReader& config, const Keys& keys, std::int64_t fallback, std::int64_t high) {
  return find_size(config, keys, high).value_or(fallback);
}

void fail_at(const JsonReader& config, const Keys& keys, const std::string& found,
             const std::string& accepted) {
  for (const std::string_view key : keys)
    if (const auto given = config.find(key)) given->fail(found, accepted);
  throw InputError(keys.empty() ? config.place() : place_of(config, keys.front()), found, accepted);
}

ModelShape read_sizes(const JsonReader& config, const SizeRules& rules) {
  ModelShape shape;
  shape.layers = size(config, rules.layers, kMostLayers);
  shape.hidden_size = size(config, rules.hidden_size, kWidest);
  shape.attention_heads = read_attention_heads(config, rules);
  shape.key_value_heads = read_key_value_heads(config, rules, shape.attention_heads);
  shape.head_size = read_head_size(config, rules, shape);
  shape.vocabulary_size = read_vocabulary(config, rules);
  shape.max_positions = size_or(config, rules.positions, 0, kMostPositions);
  shape.tied_embeddings = config.boolean_or("tie_word_embeddings", rules.default_tied);
  shape.intermediate_size = read_intermediate(config, rules, shape.hidden_size);
  return shape;
}

}  // namespace zplan::architectures
