// Tokens per image by the processors' own rules.
// Source: transformers 5.23 models/*/image_processing_*.py, processing_*.py.

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "models/base/error.h"
#include "models/vision/vision.h"

namespace zplan {

namespace {

struct Sides {
  std::int64_t height{}, width{};
};

/// Python's round: half to even.
std::int64_t to_multiple(double side, std::int64_t unit) {
  return static_cast<std::int64_t>(std::nearbyint(side / static_cast<double>(unit))) * unit;
}

std::int64_t down_to(double side, std::int64_t unit) {
  return static_cast<std::int64_t>(std::floor(side / static_cast<double>(unit))) * unit;
}

std::int64_t up_to(double side, std::int64_t unit) {
  return static_cast<std::int64_t>(std::ceil(side / static_cast<double>(unit))) * unit;
}

/// smart_resize. Source: transformers 5.23 models/qwen2_vl/image_processing_qwen2_vl.py.
Sides resized(const ImageRule& rule, Sides given) {
  constexpr std::int64_t kMostAspect = 200;
  const auto [longest, shortest] =
      std::pair(std::max(given.height, given.width), std::min(given.height, given.width));
  if (longest > kMostAspect * shortest)
    throw InputError("--image-size", fmt::format("{}x{}", given.width, given.height),
                     "accepted: sides that differ by a factor of 200 at most");
  const auto height = static_cast<double>(given.height), width = static_cast<double>(given.width);
  Sides sides{to_multiple(height, rule.unit), to_multiple(width, rule.unit)};
  if (sides.height * sides.width > rule.most) {
    const double by = std::sqrt(height * width / static_cast<double>(rule.most));
    sides = {std::max(rule.unit, down_to(height / by, rule.unit)),
             std::max(rule.unit, down_to(width / by, rule.unit))};
  } else if (sides.height * sides.width < rule.least) {
    const double by = std::sqrt(static_cast<double>(rule.least) / (height * width));
    sides = {up_to(height * by, rule.unit), up_to(width * by, rule.unit)};
  }
  return sides;
}

/// The longest side within bounds, both rounded up to whole tokens.
/// Source: transformers 5.23 models/pixtral/image_processing_pixtral.py get_resize_output_image_size.
Sides within_longest(const ImageRule& rule, Sides given) {
  auto height = static_cast<double>(given.height), width = static_cast<double>(given.width);
  const double ratio = std::max(height, width) / static_cast<double>(rule.most);
  if (ratio > 1) height = std::floor(height / ratio), width = std::floor(width / ratio);
  return {up_to(height, rule.unit), up_to(width, rule.unit)};
}

/// Tiles of the aspect ratio closest to the image's; of two, the larger grid where the image fills it by
/// half. Source: transformers 5.23 models/got_ocr2/image_processing_got_ocr2.py get_optimal_tiled_canvas.
std::int64_t tiles_of(const ImageRule& rule, Sides given) {
  const double aspect = static_cast<double>(given.width) / static_cast<double>(given.height);
  const double area = static_cast<double>(given.width) * static_cast<double>(given.height);
  double best = INFINITY;
  std::int64_t chosen = 1;
  for (std::int64_t count = 1; count <= rule.most; ++count)
    for (std::int64_t columns = 1; columns <= count; ++columns) {
      if (count % columns != 0 || count < rule.least) continue;
      const double off =
          std::abs(aspect - static_cast<double>(columns) / static_cast<double>(count / columns));
      const double filled = 0.5 * static_cast<double>(rule.unit * rule.unit * count);
      if (off < best || (off == best && area > filled)) best = off, chosen = count;
    }
  return chosen > 1 ? chosen + 1 : 1;
}

/// Rows and columns of squares, and the whole image once more.
/// Source: transformers 5.23 models/idefics3/image_processing_idefics3.py.
std::int64_t squares_of(const ImageRule& rule, Sides given) {
  const auto longest = static_cast<double>(std::max(given.height, given.width));
  const auto shortest = static_cast<double>(std::min(given.height, given.width));
  const auto most = static_cast<double>(rule.most);
  const std::int64_t across = up_to(most, rule.unit) / rule.unit;
  const std::int64_t along =
      std::max<std::int64_t>(1, up_to(most * shortest / longest, rule.unit) / rule.unit);
  return across * along > 1 ? across * along + 1 : 1;
}

/// Rows and columns whose product is `tokens`, as near to a square as whole numbers come.
Sides near_square(std::int64_t tokens) {
  auto rows = static_cast<std::int64_t>(std::sqrt(static_cast<double>(tokens)));
  while (tokens % rows != 0) --rows;
  return {rows, tokens / rows};
}

bool has_grid(const ImageRule& rule) {
  return rule.kind == TokenRule::resized || rule.kind == TokenRule::longest;
}

void need_size(const ImageRequest& request) {
  if (request.width == 0 && request.tokens == 0)
    throw InputError("--image-size", "missing", "needed with --images: WIDTHxHEIGHT, or --image-tokens");
}

/// Images whose patches follow their size.
ImageBatch of_grid(const ImageRule& rule, const TowerShape& tower, const ImageRequest& request) {
  need_size(request);
  Sides tokens;
  if (request.tokens > 0) {
    tokens = near_square(request.tokens);
  } else {
    const Sides given{request.height, request.width};
    const Sides pixels = rule.kind == TokenRule::resized ? resized(rule, given) : within_longest(rule, given);
    tokens = {pixels.height / rule.unit, pixels.width / rule.unit};
  }
  ImageBatch batch{.per_sample = request.per_sample,
                   .rows = tokens.height * tower.merge,
                   .columns = tokens.width * tower.merge,
                   .tokens = tokens.height * tokens.width};
  if (rule.row_ends && request.tokens == 0) batch.tokens += tokens.height;
  return batch;
}

/// Images that are cut into tiles of one size, or resized to one.
ImageBatch of_tiles(const ImageRule& rule, const TowerShape& tower, const ImageRequest& request) {
  const std::int64_t side = rule.unit / tower.patch_size;
  ImageBatch batch{.per_sample = request.per_sample, .rows = side, .columns = side};
  const Sides given{request.height, request.width};
  if (request.tokens > 0) {
    if (request.tokens % rule.tokens != 0 || (rule.kind == TokenRule::fixed && request.tokens != rule.tokens))
      throw InputError("--image-tokens", fmt::format("{}", request.tokens),
                       rule.kind == TokenRule::fixed
                           ? fmt::format("accepted: {}, which every image of this model has", rule.tokens)
                           : fmt::format("accepted: a multiple of {}, the tokens of a tile", rule.tokens));
    batch.tiles = request.tokens / rule.tokens;
  } else if (rule.kind != TokenRule::fixed) {
    need_size(request);
    batch.tiles = rule.kind == TokenRule::tiles ? tiles_of(rule, given) : squares_of(rule, given);
  }
  batch.tokens = batch.tiles * rule.tokens;
  return batch;
}

}  // namespace

ImageBatch image_batch(const ImageRule& rule, const TowerShape& tower, const ImageRequest& request) {
  return has_grid(rule) ? of_grid(rule, tower, request) : of_tiles(rule, tower, request);
}

}  // namespace zplan
