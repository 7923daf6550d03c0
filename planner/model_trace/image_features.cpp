// From the tower's hidden states to the embeddings that the language model gets.
// Source: transformers 5.23 models/{qwen2_5_vl,gemma3,llava}/modeling_*.py.

#include <utility>

#include "planner/model_trace/moe_operators.h"
#include "planner/model_trace/vision.h"
#include "planner/model_trace/vision_operators.h"

namespace zplan::symbolic {

namespace {

/// A projector's linear layer of this name.
Tensor layer_named(Program& p, const Vision& vision, const TowerParameters& of, const std::string& name,
                   const Tensor& x) {
  return linear_layer(p, of.around, of.around.get(vision.names.projector + name + ".weight"), x);
}

/// A linear layer, GELU, another one.
Tensor two_layers(Program& p, const Vision& vision, const TowerParameters& of, const Tensor& x,
                  const std::string& first, const std::string& second) {
  Tensor bent;
  {
    const Tensor wide = layer_named(p, vision, of, first, x);
    bent = gelu(p.torch, wide);
  }
  return layer_named(p, vision, of, second, bent);
}

/// Squares of patches side by side, two layers.
Tensor merged(Program& p, const Vision& vision, const TowerParameters& of, const Tensor& x) {
  const TowerShape& tower = vision.tower;
  const std::int64_t unit = tower.merge * tower.merge;
  Tensor wide;
  {
    const NormForm form = tower.rms_norm ? NormForm::narrow : NormForm::layer;
    const Tensor normed = normalise(p, of.around, vision.names.projector + ".ln_q", x, form);
    wide = view(p.torch, normed, {x.size(0) / unit, unit * x.size(1)});
  }
  const auto layers = [&](const Tensor& input) {
    return two_layers(p, vision, of, input, ".mlp.0", ".mlp.2");
  };
  return hooked(p, {.name = vision.names.projector + ".mlp"}, wide, layers);
}

/// The mean of squares of patches, a norm, a product.
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

/// The parameters that the projector's own module holds.
std::vector<const Parameter*> held_by_projector(const Vision& vision, const TowerParameters& of) {
  return {of.around.find(vision.names.projector + ".mm_input_projection_weight")};
}

/// Features of image after image in one memory.
Tensor one_behind_the_other(Program& p, const Vision& vision, const Tensor& x) {
  if (vision.projector == Projector::pooled) return x;
  if (x.layout.rank() == 2) return cat(p.torch, {as_parts(p.torch, x)}, 0);
  return cat(p.torch, unbind(p.torch, x, 0), 0);
}

/// Tokens in the order of the image again, where windows changed it.
Tensor in_order(Program& p, const Vision& vision, const Tensor& x) {
  if (vision.tower.window_size == 0) return x;
  const Tensor order = row_order(p, x.size(0));
  return index(p.torch, x, order);
}

/// What the tower is given, as the processor makes it: in fp32.
Tensor pixels_of(Program& p, const Vision& vision) {
  const TowerShape& tower = vision.tower;
  const std::int64_t per_patch = tower.channels * tower.frames * tower.patch_size * tower.patch_size;
  const std::int64_t count = tower_inputs(p) * patches_of_input(p);
  return p.torch.operate({}, Layout::contiguous({count, per_patch}), DType::fp32);
}

}  // namespace

Tensor projected(Program& p, const Vision& vision, const TowerParameters& of, const Tensor& x) {
  return hooked(p, held_by_projector(vision, of), x,
                [&](const Tensor& input) {
                  switch (vision.projector) {
                    case Projector::merger: return merged(p, vision, of, input);
                    case Projector::pooled: return pooled(p, vision, of, input);
                    case Projector::two_layers:
                      return two_layers(p, vision, of, input, ".linear_1", ".linear_2");
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
    Tensor hidden = tower_output(p, vision, of);
    if (vision.tower.unused_layers > 0 && vision.rule.tokens < vision.tower.positions)
      hidden = slice(p.torch, hidden, 1, vision.rule.tokens);
    features = projected(p, vision, of, hidden);
  }
  features = in_order(p, vision, features);
  p.image_locals.push_back(features);
  features = one_behind_the_other(p, vision, features);
  p.image_locals.push_back(features);
  const Tensor mask = p.torch.operate({}, Layout::contiguous({p.sizes.b, p.sizes.s, 1}), DType::boolean);
  p.image_locals.push_back(mask);
  return masked_scatter(p.torch, embedded, mask, features);
}

}  // namespace zplan::symbolic
