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
  const auto dropout = about.dropout.key.empty() ? std::nullopt : config.find(about.dropout.key);
  shape.dropout = dropout ? dropout->number(0.0, 1.0) : about.dropout.otherwise;
  if (about.window) read_window(config, *about.window, shape);
  shape.logit_soft_cap = caps_logits(config, about.soft_cap);
  if (!about.mixture.experts.empty()) read_mixture(config, shape, about.mixture);
  shape.operators = about.operators;
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
