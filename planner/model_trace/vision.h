#pragma once
// Images on their way to the language model: the tower over patches, the projector, and the places of image
// tokens among the embeddings. Parts are written as program.h says it.

#include <cstdint>
#include <string>
#include <vector>

#include "planner/model_trace/program.h"

namespace zplan::symbolic {

/// The parameters of tower and projector.
struct TowerParameters {
  Parameters around;               ///< patches, positions, norms around the blocks, projector
  std::vector<Parameters> blocks;  ///< of each block
};

/// An image-text model's parameters that are not its layers', told apart.
struct ImageTextParameters {
  TowerParameters tower;
  Parameters text;
};
[[nodiscard]] ImageTextParameters image_text_parameters(const Vision& vision, const Parameters& around);

/// Hidden states of the tower's last block that is used, of all images, and what its model keeps of them.
[[nodiscard]] Tensor tower_output(Program& p, const Vision& vision, const TowerParameters& of,
                                  const Tensor& pixels);

/// Squares of patches side by side as tokens, then two linear layers behind a norm: the projector of this
/// path, or one of its like behind a block (`behind_shuffle`: which norms squares, not patches).
[[nodiscard]] Tensor merged(Program& p, const Vision& vision, const TowerParameters& of,
                            const std::string& path, bool behind_shuffle, const Tensor& x);

/// Features [tokens, width of the language model] of all images.
[[nodiscard]] Tensor projected(Program& p, const Vision& vision, const TowerParameters& of, const Tensor& x);

/// How many tower inputs a micro-batch has, and patches of each.
[[nodiscard]] std::int64_t tower_inputs(const Program& p);
[[nodiscard]] std::int64_t patches_of_input(const Program& p);

/// The index of a permutation of so many rows, made on the host.
[[nodiscard]] Tensor row_order(Program& p, std::int64_t rows);

}  // namespace zplan::symbolic
