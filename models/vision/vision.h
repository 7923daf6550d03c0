#pragma once
// Image-text models with images as input, as data: the vision tower, how its output reaches the language
// model, and the tokens of an image. planner/model_trace/vision.h simulates it.

#include <cstdint>
#include <string>
#include <vector>

namespace zplan {

enum class TowerActivation { gelu, quick_gelu, silu };

/// Forms of a block's attention, and what it runs over.
enum class TowerAttention {
  packed,  ///< patches of all images one behind the other, one weight for queries, keys and values; image by
           ///< image, or window by window
  padded,  ///< a sample of the tower's batch per image, separate projections
  joined,  ///< one sample of all images, separate projections, a mask between images
};

/// Position embeddings of patches.
enum class TowerPositions {
  rotary,         ///< queries and keys turn
  rows,           ///< rows of a table, equal for every image
  rows_of_image,  ///< rows of a table, looked up image by image
  whole,          ///< one parameter, added to the patches and the class token
  interpolated,   ///< four rows of a table for each patch, weighted, beside rotary ones
};

/// The places at which pixels are cast to the tower's type.
enum class TowerPixels {
  at_patches,    ///< cast to the tower's type by the module of patches
  before_tower,  ///< by the caller
  selected,      ///< by the caller, which copies those of squares that are no padding
};

/// The module whose output gets a gradient from transformers if blocks are checkpointed: the one that the
/// tower's get_input_embeddings returns. Its memory stays until the graph is freed.
enum class InputGradient { of_patches, of_embeddings, none };

/// A vision tower: a transformer over patches. Sizes in the letters of its vision_config.
struct TowerShape {
  std::int64_t layers{}, hidden_size{}, intermediate_size{}, heads{};
  std::int64_t channels{3}, patch_size{}, frames{1};  ///< frames: temporal_patch_size, of an image repeated
  std::int64_t merge{1};                              ///< patches along a side that become one token
  TowerAttention attention{TowerAttention::packed};
  TowerActivation activation{TowerActivation::gelu};
  bool rms_norm{}, gated{}, patch_bias{};
  bool biased{true};         ///< separate projections of queries, keys and values
  bool output_biased{true};  ///< the projection behind attention
  bool query_key_norm{};     ///< an RMSNorm over all heads of queries and keys
  bool layer_scale{};        ///< both branches times a vector of their own
  bool class_token{};        ///< one more token in front of the patches
  TowerPixels pixels{TowerPixels::at_patches};
  TowerPositions place{TowerPositions::rotary};
  InputGradient input_gradient{InputGradient::of_patches};
  std::int64_t positions{};           ///< learned ones
  bool norm_before{}, norm_behind{};  ///< around all layers
  std::int64_t unused_layers{};       ///< the last ones, whose output nobody reads
  std::int64_t window_size{};         ///< pixels along a side that attend to each other; 0: all of an image
  std::vector<std::int64_t> whole_layers{};  ///< of a windowed tower, those that attend to all of an image
  std::vector<std::int64_t> deepstack{};  ///< layers whose output is added behind the language model's first
  bool operator==(const TowerShape&) const = default;
};

/// Projectors between tower and language model.
enum class Projector {
  merger,               ///< a norm, then two linear layers over merged patches (Qwen)
  pooled,               ///< an average over squares of patches, a norm and one product (Gemma 3)
  two_layers,           ///< two linear layers (LLaVA)
  shuffled,             ///< squares of patches side by side, one product (Idefics 3)
  shuffled_two_layers,  ///< squares of patches side by side, a norm, two linear layers (InternVL)
  unfolded,             ///< a norm, squares side by side by im2col, three linear layers (Mistral 3)
};

/// Rules by which the processor cuts and resizes images, which determine the tokens per image.
enum class TokenRule {
  resized,  ///< sides rounded to merged patches, pixels within bounds (smart_resize)
  fixed,    ///< every image has the same number
  tiles,    ///< tiles of one size by aspect ratio, and a thumbnail
  squares,  ///< longest side within bounds, then squares of one size and a thumbnail (Idefics 3, SmolVLM)
  longest,  ///< longest side within bounds, sides rounded up to merged patches (Pixtral)
};

struct ImageRule {
  TokenRule kind{TokenRule::resized};
  std::int64_t unit{};           ///< pixels along a side of one token, or of a tile
  std::int64_t least{}, most{};  ///< pixels (resized), tiles, or the longest side
  std::int64_t tokens{};         ///< of an image (fixed) or of a tile
  bool row_ends{};               ///< a token more behind each row but the last, which ends the image
  std::string source{};          ///< source of the processor's bounds
  bool operator==(const ImageRule&) const = default;
};

/// Names of the tower's modules, relative to its blocks where a block holds them.
struct TowerNames {
  std::string tower{}, patches{}, positions{}, class_token{}, norm_before{}, norm_behind{}, blocks{};
  std::string norm1{}, norm2{}, attention{}, input{}, output{}, feed_forward{}, gate{}, up{}, down{};
  std::string scale1{}, scale2{};
  bool norm_first{};  ///< a block lists its norms in front of what they norm, not behind it
  std::string projector{}, deepstack{};
  std::string merger_norm{}, merger_layers{}, merger_first{}, merger_second{};  ///< below the projector
  bool operator==(const TowerNames&) const = default;
};

/// An image-text model's part for images.
struct Vision {
  TowerShape tower{};
  Projector projector{};
  std::int64_t text_width{};       ///< hidden size of the language model
  std::int64_t tokens_per_side{};  ///< of the pooled projector
  bool projector_biased{true};
  bool bidirectional{};  ///< true if tokens of an image attend to each other in the language model
  ImageRule rule{};
  TowerNames names{};
  bool operator==(const Vision&) const = default;
};

/// The requested images per sample, and their size or the tokens of each.
struct ImageRequest {
  std::int64_t per_sample{}, width{}, height{}, tokens{};  ///< 0: not given
  bool operator==(const ImageRequest&) const = default;
};

/// Images as they reach tower and language model.
struct ImageBatch {
  std::int64_t per_sample{};
  std::int64_t tiles{1};           ///< of an image, each of this many patches
  std::int64_t rows{}, columns{};  ///< of patches
  std::int64_t tokens{};           ///< of an image in the sequence
  [[nodiscard]] std::int64_t sequence() const { return per_sample * tokens; }
  bool operator==(const ImageBatch&) const = default;
};

/// Returns the tokens and patches of an image. Throws InputError, which names the option, for a size that the
/// processor refuses, or tokens that no image of this model has.
[[nodiscard]] ImageBatch image_batch(const ImageRule& rule, const TowerShape& tower,
                                     const ImageRequest& request);

}  // namespace zplan
