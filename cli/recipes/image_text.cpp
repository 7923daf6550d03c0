// Image-text models of the catalogue, as recipes ask of them.

#include <algorithm>
#include <cmath>

#include "cli/recipes/recipe_table.h"
#include "models/base/error.h"
#include "models/catalogue/catalogue.h"
#include "models/catalogue/names.h"
#include "planner/sharding/rank_model.h"

namespace zplan {

namespace {

/// The catalogue's model of this name, in whoever's account; nothing where it is none.
std::optional<Model> catalogued(const std::string& model) {
  const std::string name = lower_case(unpacked_name(model));
  const std::string last = name.substr(name.rfind('/') + 1);
  if (last.empty()) return std::nullopt;
  const auto is_called = [&](const std::string& each) {
    const std::string plain = lower_case(each);
    return plain == name || plain.substr(plain.find('/') + 1) == last;
  };
  for (const CatalogueEntry& each : catalogue())
    if (is_called(each.name) || std::ranges::any_of(each.aliases, is_called)) return catalogue_model(each);
  const std::optional<NameMeaning> meant = meaning_of_name(model);
  return meant && meant->entry != nullptr ? std::optional(catalogue_model(*meant->entry)) : std::nullopt;
}

bool has_part(const Model& model, const Training& frozen) {
  bool found = false;
  for_each_tensor(model.inventory,
                  [&](const Tensor& tensor, int) { found = found || freezes(frozen, tensor); });
  return found;
}

}  // namespace

ImageTextParts image_text_parts(const std::string& model) {
  const std::optional<Model> found = catalogued(model);
  if (!found) return {};
  Training tower, projector;
  tower.freezes_vision = true, projector.freezes_projector = true;
  return {.has_tower = has_part(*found, tower), .has_projector = has_part(*found, projector)};
}

std::optional<std::int64_t> known_vocabulary(const std::string& model) {
  const std::optional<Model> found = catalogued(model);
  return found ? std::optional(found->shape.vocabulary_size) : std::nullopt;
}

std::optional<std::int64_t> known_layers(const std::string& model) {
  const std::optional<Model> found = catalogued(model);
  return found ? std::optional(found->shape.layers) : std::nullopt;
}

std::optional<std::int64_t> square_image(const std::string& model, std::int64_t pixels,
                                         std::int64_t most_tokens) {
  const std::optional<Model> found = catalogued(model);
  constexpr std::int64_t kFewest = 28 * 28, kMost = 1 << 26;
  if (!found || !found->with_images || !found->with_images->vision || pixels < kFewest || pixels > kMost)
    return std::nullopt;
  const auto side = static_cast<std::int64_t>(std::sqrt(static_cast<double>(pixels)));
  try {
    const Vision& vision = *found->with_images->vision;
    const ImageBatch image =
        image_batch(vision.rule, vision.tower, {.per_sample = 1, .width = side, .height = side});
    return image.sequence() <= most_tokens ? std::optional(side) : std::nullopt;
  } catch (const InputError&) {  // a size that its processor does not take
    return std::nullopt;
  }
}

}  // namespace zplan
