#pragma once
// What one decoder layer keeps for its backward, per token, as the sum of a few parts whose size depends on
// the block family. Measured on PyTorch's allocator layer by layer: docs/activations.md.

#include <cstdint>

#include "planner/strategy.h"

namespace zplan {

/// Sizes in the letters of the formulas (docs/symbols.md), for one micro-batch.
struct BlockSizes {
  std::int64_t h{}, f{}, a{}, k{}, d{}, V{};
  std::int64_t b{}, s{}, T{}, t{}, L{};
};
[[nodiscard]] BlockSizes block_sizes(const Model& model, const Training& training, const Strategy& strategy);

/// Parts of a layer, bytes per token. `frozen` is what stays when no weight of the layer trains: inputs of
/// products are not needed then, the tensors that activation functions and norms differentiate through still
/// are.
struct BlockForm {
  std::int64_t norms{},
      norms_frozen{};  ///< norms, residual inputs and dropout masks; not split by tensor parallelism
  std::int64_t mlp{}, mlp_frozen{};  ///< inside the feed-forward
  std::int64_t query_key_norms{}, query_key_norms_frozen{};
  std::int64_t attention{};     ///< the attention kernel: queries, keys, values, output or scores, statistics
  std::int64_t output_input{};  ///< the output projection's input where it is not the kernel's own output
  bool mlp_output_is_kept{};    ///< the down projection's input is what the activation function keeps anyway
                                ///< (ReLU)
  std::int64_t fixed{};         ///< bytes per layer, whatever the tokens (Gemma's 1 + weight in fp32)
};
[[nodiscard]] BlockForm block_form(const Model& model, const Training& training, const Strategy& strategy);

/// Whether the family's form was checked against measurements; otherwise it is that of the nearest family.
[[nodiscard]] bool is_measured_family(const ModelShape& shape);

}  // namespace zplan
