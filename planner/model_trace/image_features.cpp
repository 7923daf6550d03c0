// From the tower's hidden states to the embeddings that the language model gets.
// Source: transformers 5.23
// models/{qwen2_5_vl,qwen3_vl,gemma3,llava,internvl,idefics3,mistral3}/modeling_*.py.

#include <utility>

#include "planner/model_trace/operators.h"
#include "planner/model_trace/vision.h"

namespace zplan::symbolic {

namespace {

/// Records a projector's linear layer of this name.
Tensor layer_named(Program& p, const Vision& vision, const TowerParameters& of, const std::string& name,
                   const Tensor& x) {
  return linear_layer(p, of.around, of.around.get(vision.names.projector + name + ".weight"), x);
}

/// Records a linear layer, GELU and another linear layer.
Tensor two_layers(Program& p, const Vision& vision, const TowerParameters& of, const Tensor& x,
                  const std::string& first, const std::string& second) {
  Tensor bent;
  {
    const Tensor wide = layer_named(p, vision, of, first, x);
    bent = gelu(p.torch, wide);
  }
  return layer_named(p, vision, of, second, bent);
}

}  // namespace

Tensor merged(Program& p, const Vision& vision, const TowerParameters& of, const std::string& path,
              bool behind_shuffle, const Tensor& x) {
  const TowerNames& names = vision.names;
  const std::int64_t unit = vision.tower.merge * vision.tower.merge;
  const Dimensions squares{x.size(0) / unit, unit * x.size(1)};
  const NormForm form = vision.tower.rms_norm ? NormForm::narrow : NormForm::layer;
  const auto norm_of = [&](const Tensor& input) {
    return normalise(p, of.around, path + "." + names.merger_norm, input, form);
  };
  const auto layers = [&](const Tensor& input) {
    const std::string below = path + names.merger_layers + ".";
    Tensor bent;
    {
      const Tensor wide =
          linear_layer(p, of.around, of.around.get(below + names.merger_first + ".weight"), input);
      bent = gelu(p.torch, wide);
    }
    return linear_layer(p, of.around, of.around.get(below + names.merger_second + ".weight"), bent);
  };
  Tensor wide;
  if (behind_shuffle) {
    wide = norm_of(view(p.torch, x, squares));
  } else {
    const Tensor normed = norm_of(x);
    wide = view(p.torch, normed, squares);
  }
  if (names.merger_layers.empty()) return layers(wide);
  return hooked(p, {.name = path + names.merger_layers}, wide, layers);
}

namespace {

/// Records squares of patches of each image as one token: by rows, then by columns, a copy each.
Tensor shuffled(Program& p, const TowerShape& tower, const Tensor& x) {
  const std::int64_t n = x.size(0), m = tower.merge, h = x.size(2);
  const std::int64_t rows = p.training.images.rows, columns = p.training.images.columns;
  Tensor half;
  {
    const Tensor grid = reshape(p.torch, x, {n, rows, columns, h});
    const Tensor beside = view(p.torch, grid, {n, rows, columns / m, h * m});
    half = contiguous(p.torch, permute(p.torch, beside, {0, 2, 1, 3}));
  }
  const Tensor below = view(p.torch, half, {n, columns / m, rows / m, h * m * m});
  const Tensor whole = contiguous(p.torch, permute(p.torch, below, {0, 2, 1, 3}));
  return view(p.torch, whole, {n, rows * columns / (m * m), h * m * m});
}

/// Records Idefics 3's connector.
Tensor shuffled_product(Program& p, const Vision& vision, const TowerParameters& of, const Tensor& x) {
  const Tensor wide = shuffled(p, vision.tower, x);
  return layer_named(p, vision, of, ".modality_projection.proj", wide);
}

/// Records InternVL's projector after its shuffle.
Tensor norm_and_two_layers(Program& p, const Vision& vision, const TowerParameters& of, const Tensor& x) {
  const Tensor normed = normalise(p, of.around, vision.names.projector + ".layer_norm", x, NormForm::layer);
  return two_layers(p, vision, of, normed, ".linear_1", ".linear_2");
}

/// Records Mistral 3's merger of patches, image by image, then two layers.
Tensor unfolded(Program& p, const Vision& vision, const TowerParameters& of, const Tensor& x) {
  Tensor rows = normalise(p, of.around, vision.names.projector + ".norm", x, NormForm::narrow);
  const auto merger = [&](const Tensor& input) {
    Tensor all;
    Tensors squares;
    const std::vector<std::int64_t> lengths(static_cast<std::size_t>(tower_inputs(p)), patches_of_input(p));
    for (const Tensor& image : split(p.torch, input, 0, lengths))
      squares.push_back(unfold(p.torch, image, vision.tower.merge));
    all = cat(p.torch, squares, 0);
    return layer_named(p, vision, of, ".patch_merger.merging_layer", all);
  };
  rows = hooked(p, {.name = vision.names.projector + ".patch_merger"}, rows, merger);
  return two_layers(p, vision, of, rows, ".linear_1", ".linear_2");
}

/// Records the mean of squares of patches, a norm and a product.
Tensor pooled(Program& p, const Vision& vision, const TowerParameters& of, const Tensor& x) {
  const ImageBatch& images = p.training.images;
  const std::int64_t inputs = x.size(0), h = x.size(2), side = vision.tokens_per_side;
  Tensor squares;
  {
    const Tensor turned = transpose(p.torch, x, 1, 2);
    const Tensor grid = reshape(p.torch, turned, {inputs, h, images.rows, images.columns});
    squares = average_pool(p.torch, contiguous(p.torch, grid), side);
  }
  const Tensor rows = transpose(p.torch, view(p.torch, squares, {inputs, h, side * side}), 1, 2);
  const Tensor normed =
      normalise(p, of.around, vision.names.projector + ".mm_soft_emb_norm", rows, NormForm::one_more);
  const Parameter& weight = of.around.get(vision.names.projector + ".mm_input_projection_weight");
  return plain_linear(p.torch, normed, transpose(p.torch, weight.tensor, 0, 1));
}

/// Returns the parameters that the projector's own module holds.
std::vector<const Parameter*> held_by_projector(const Vision& vision, const TowerParameters& of) {
  return {of.around.find(vision.names.projector + ".mm_input_projection_weight")};
}

/// Records the concatenation of all images' features.
Tensor concatenated_images(Program& p, const Vision& vision, const Tensor& x) {
  if (vision.projector == Projector::pooled || vision.projector == Projector::shuffled_two_layers) return x;
  if (vision.projector == Projector::shuffled)
    return cat(p.torch, {view(p.torch, as_parts(p.torch, x), {x.size(0) * x.size(1), x.size(2)})}, 0);
  if (x.layout.rank() == 2) return cat(p.torch, {as_parts(p.torch, x)}, 0);
  return cat(p.torch, unbind(p.torch, x, 0), 0);
}

/// Restores the order of the image's tokens, where windows changed it.
Tensor in_order(Program& p, const Vision& vision, const Tensor& x) {
  if (vision.tower.window_size == 0) return x;
  const Tensor order = row_order(p, x.size(0));
  return index(p.torch, x, order);
}

/// Returns the tower's input as the processor makes it: in fp32.
Tensor pixels_of(Program& p, const Vision& vision) {
  const TowerShape& tower = vision.tower;
  const std::int64_t per_patch = tower.channels * tower.frames * tower.patch_size * tower.patch_size;
  const std::int64_t count = tower_inputs(p) * patches_of_input(p);
  return p.torch.operate({}, Layout::contiguous({count, per_patch}), DType::fp32);
}

/// TowerInput holds the tower's pixels and what its caller keeps beside them.
struct TowerInput {
  Tensor pixels, mask;
};

TowerInput tower_input(Program& p, const Vision& vision) {
  const TowerShape& tower = vision.tower;
  if (tower.pixels == TowerPixels::at_patches) return {p.pixels, {}};
  TowerInput input{to(p.torch, p.pixels, p.weights), {}};
  if (tower.pixels == TowerPixels::before_tower) return input;
  {
    // Which squares are not zeros alone; booleans are summed as whole numbers.
    const Tensor zeros = numbers(p.torch, input.pixels.layout.sizes, DType::boolean);
    const Tensor wide = numbers(p.torch, input.pixels.layout.sizes, DType::int64);
  }
  input.pixels = clone(p.torch, input.pixels);
  const std::int64_t pixels_of_patch = tower.patch_size * tower.patch_size;
  input.mask = numbers(p.torch, {tower_inputs(p), patches_of_input(p) * pixels_of_patch}, DType::boolean);
  return input;
}

/// Returns the hidden states that the projector takes.
Tensor chosen(Program& p, const Vision& vision, const Tensor& hidden) {
  const TowerShape& tower = vision.tower;
  if (vision.projector == Projector::unfolded) return view(p.torch, hidden, {hidden.size(1), hidden.size(2)});
  const bool drops_class = tower.class_token && vision.rule.tokens < tower.positions;
  const Tensor found = drops_class ? slice(p.torch, hidden, 1, patches_of_input(p)) : hidden;
  return vision.projector == Projector::shuffled_two_layers ? shuffled(p, tower, found) : found;
}

}  // namespace

Tensor projected(Program& p, const Vision& vision, const TowerParameters& of, const Tensor& x) {
  return hooked(p, held_by_projector(vision, of), x,
                [&](const Tensor& input) {
                  switch (vision.projector) {
                    case Projector::merger:
                      return merged(p, vision, of, vision.names.projector, false, input);
                    case Projector::pooled: return pooled(p, vision, of, input);
                    case Projector::two_layers:
                      return two_layers(p, vision, of, input, ".linear_1", ".linear_2");
                    case Projector::shuffled: return shuffled_product(p, vision, of, input);
                    case Projector::shuffled_two_layers: return norm_and_two_layers(p, vision, of, input);
                    case Projector::unfolded: return unfolded(p, vision, of, input);
                  }
                  return Tensor{};
                },
                {.name = vision.names.projector});
}

bool sees_images_whole(const Program& p) { return p.tower != nullptr && p.model.vision->bidirectional; }

Tensor with_images(Program& p, const Tensor& embedded) {
  const Vision& vision = *p.model.vision;
  const TowerParameters& of = *p.tower;
  p.pixels = pixels_of(p, vision);
  Tensor features;
  {
    const TowerInput input = tower_input(p, vision);
    Tensor hidden = tower_output(p, vision, of, input.pixels);
    hidden = chosen(p, vision, hidden);
    features = projected(p, vision, of, hidden);
  }
  features = in_order(p, vision, features);
  p.image_locals.push_back(features);
  features = concatenated_images(p, vision, features);
  p.image_locals.push_back(features);
  const Tensor mask = p.torch.operate({}, Layout::contiguous({p.sizes.b, p.sizes.s, 1}), DType::boolean);
  p.image_locals.push_back(mask);
  const Tensor joined = masked_scatter(p.torch, embedded, mask, features);
  for (Tensor& each : p.deepstack) {
    p.image_locals.push_back(each);
    each = cat(p.torch, {as_parts(p.torch, each)}, 0);
  }
  return joined;
}

Tensor with_deepstack(Program& p, const Tensor& hidden, std::size_t layer) {
  const Tensor mask = of_batch({hidden.size(0), hidden.size(1)}, DType::boolean);
  return add_at_rows(p.torch, hidden, mask, p.deepstack[layer]);
}

}  // namespace zplan::symbolic
