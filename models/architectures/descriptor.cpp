#include "models/architectures/descriptor.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "models/architectures/parts.h"

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

namespace {

bool slides(const WindowRule& rule, std::int64_t layer, std::int64_t n) {
  switch (rule.layers) {
    case WindowRule::Layers::all: return true;
    case WindowRule::Layers::each_nth: return (layer + 1) % n == 0;
    case WindowRule::Layers::all_but_each_nth: return (layer + 1) % n != 0;
    case WindowRule::Layers::from_nth: return layer >= n;
    case WindowRule::Layers::each_other_below_nth: return layer % 2 == 0 && layer < n;
  }
  return false;
}

std::int64_t count_sliding(const JsonReader& config, const WindowRule& rule, std::int64_t layers) {
  std::int64_t count = 0;
  if (const auto types = config.find("layer_types"); types && rule.layers != WindowRule::Layers::all) {
    for (const JsonReader& type : types->items()) count += type.text() == "sliding_attention" ? 1 : 0;
    return std::min(count, layers);
  }
  // A period divides; where sliding begins or ends may be 0.
  const bool periodic =
      rule.layers == WindowRule::Layers::each_nth || rule.layers == WindowRule::Layers::all_but_each_nth;
  const std::int64_t n =
      rule.key.empty() ? rule.n : config.integer_or(rule.key, rule.n, periodic ? 1 : 0, kMostLayers);
  for (std::int64_t layer = 0; layer < layers; ++layer) count += slides(rule, layer, n) ? 1 : 0;
  return count;
}

void read_window(const JsonReader& config, const WindowRule& rule, ModelShape& shape) {
  if (!is_on(config, rule.on)) return;
  const bool is_null = config.raw().contains("sliding_window") && !config.has("sliding_window");
  shape.sliding_window = is_null ? 0 : config.integer_or("sliding_window", rule.size, 0, kMostPositions);
  if (shape.sliding_window > 0) shape.sliding_layers = count_sliding(config, rule, shape.layers);
}

double dropout_of(const JsonReader& config, const DropoutRule& rule) {
  const auto said = rule.key.empty() ? std::nullopt : config.find(rule.key);
  return said ? said->number(0.0, 1.0) : rule.otherwise;
}

/// transformers keeps the share with the other numbers of rotary positions, older files beside them.
double rotary_share(const JsonReader& config, const Descriptor& about, std::int64_t head_size) {
  const RotaryRule& rule = about.rotary;
  if (!rule.features.empty())
    if (const auto features = config.find(rule.features))
      return static_cast<double>(features->integer(1, head_size)) / static_cast<double>(head_size);
  if (rule.share.empty()) return about.operators.rotary_share;
  for (const char* group : {"rope_parameters", "rope_scaling"}) {
    const auto found = config.find(group);
    if (!found || !found->raw().is_object()) continue;
    if (const auto share = found->find("partial_rotary_factor")) return share->number(0.0, 1.0);
  }
  const auto share = config.find(rule.share);
  return share ? share->number(0.0, 1.0) : about.operators.rotary_share;
}

bool caps_logits(const JsonReader& config, SoftCap rule) {
  constexpr std::string_view kKey = "final_logit_softcapping";
  return rule != SoftCap::none &&
         (config.has(kKey) || (rule == SoftCap::unless_null && !config.raw().contains(kKey)));
}

}  // namespace

bool is_on(const JsonReader& config, const Switch& given) {
  return given.key.empty() ? given.otherwise : config.boolean_or(given.key, given.otherwise);
}

ModelShape shape_of(const JsonReader& config, const Descriptor& about) {
  ModelShape shape = read_sizes(config, about.sizes);
  shape.architecture = about.model_type;
  shape.gated_mlp = about.feed_forward != FeedForward::plain;
  shape.fused_gate_up = about.feed_forward == FeedForward::fused_gated;
  shape.fused_query_key_value = about.fused_query_key_value;
  shape.parallel_attention = is_on(config, about.parallel);
  shape.dropout = dropout_of(config, about.dropout);
  if (about.operators.embedding_dropout)
    shape.embedding_dropout =
        about.embedding_dropout ? dropout_of(config, *about.embedding_dropout) : shape.dropout;
  if (about.operators.attention_dropout)
    shape.attention_dropout =
        about.attention_dropout ? dropout_of(config, *about.attention_dropout) : shape.dropout;
  if (about.window) read_window(config, *about.window, shape);
  shape.logit_soft_cap = caps_logits(config, about.soft_cap);
  if (!about.mixture.experts.empty()) read_mixture(config, shape, about.mixture);
  shape.operators = about.operators;
  shape.operators.rotary_share = rotary_share(config, about, shape.head_size);
  shape.modules = about.modules;
  shape.libraries = about.libraries;
  return shape;
}

const Descriptors& descriptors() {
  static const Descriptors sorted = [] {
    Descriptors all;
    for (const Descriptors& family : {decoders(), deepseek(), fused_decoders(), glm(), google(), gpt(),
                                      layer_norm_decoders(), linear_attention(), mixtures(), remote_code()})
      all.insert(all.end(), family.begin(), family.end());
    std::sort(all.begin(), all.end(),
              [](const Descriptor& a, const Descriptor& b) { return a.model_type < b.model_type; });
    return all;
  }();
  return sorted;
}

}  // namespace zplan::architectures
