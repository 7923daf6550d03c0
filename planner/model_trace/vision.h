#pragma once
// Images on their way to the language model: the tower over patches, the projector, and the places of image
// tokens among the embeddings.

#include <cstdint>
#include <string>
#include <vector>

#include "planner/model_trace/program.h"

namespace zplan::symbolic {

/// TowerParameters lists the parameters of tower and projector.
struct TowerParameters {
  Parameters around;               ///< patches, positions, norms outside the blocks, projector
  std::vector<Parameters> blocks;  ///< by block
};

/// ImageTextParameters divides an image-text model's parameters outside its layers.
struct ImageTextParameters {
  TowerParameters tower;
  Parameters text;
};
[[nodiscard]] ImageTextParameters image_text_parameters(const Vision& vision, const Parameters& around);

/// Records the tower on all images. Returns the hidden states of the last block that is used.
[[nodiscard]] Tensor tower_output(Program& p, const Vision& vision, const TowerParameters& of,
                                  const Tensor& pixels);

/// Records the projector under this path: squares of patches become tokens, which pass a norm and two linear
/// layers. `behind_shuffle`: it normalises squares instead of patches.
[[nodiscard]] Tensor merged(Program& p, const Vision& vision, const TowerParameters& of,
                            const std::string& path, bool behind_shuffle, const Tensor& x);

/// Records the projector. Returns features [tokens, width of the language model] of all images.
[[nodiscard]] Tensor projected(Program& p, const Vision& vision, const TowerParameters& of, const Tensor& x);

/// Returns how many inputs the tower gets in a micro-batch.
[[nodiscard]] std::int64_t tower_inputs(const Program& p);
/// Returns how many patches each input has.
[[nodiscard]] std::int64_t patches_of_input(const Program& p);

/// Returns the index of a permutation of `rows` rows, made on the host.
[[nodiscard]] Tensor row_order(Program& p, std::int64_t rows);

}  // namespace zplan::symbolic
