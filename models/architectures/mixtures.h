#pragma once
// Reading the sizes of routed experts, shared by the architectures that have them.

#include "models/architectures/decoder.h"

namespace zplan::architectures {

/// Names and defaults of a mixture's sizes; no default: needed.
struct MixtureRules {
  Keys experts;
  std::optional<std::int64_t> default_experts{};
  std::optional<std::int64_t> default_per_token{};
  Keys width;  ///< of one expert
  std::optional<std::int64_t> default_width{};
};

/// shape.experts with everything but its shared experts; every layer is routed until `set_layers` says
/// otherwise. InputError where more experts are chosen than there are.
void read_mixture(const JsonReader& config, ModelShape& shape, const MixtureRules& rules);

/// Kinds "dense" (0) and "mixture_of_experts" (1): which one each layer is, also noted in shape.experts.
[[nodiscard]] std::vector<std::size_t> set_layers(ModelShape& shape, const std::vector<bool>& routed);
/// The first `first_k_dense_replace` layers are dense.
[[nodiscard]] std::vector<std::size_t> dense_then_routed(const JsonReader& config, ModelShape& shape,
                                                         std::int64_t default_dense);

}  // namespace zplan::architectures
