#include "models/architectures/descriptor.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "models/architectures/mixtures.h"

namespace zplan::architectures {

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
