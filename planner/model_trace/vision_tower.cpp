// The tower that reads images, block by block, in the three forms in which transformers writes it.
// Source: transformers 5.23 models/{qwen2_5_vl,qwen2_vl,qwen3_vl,siglip,clip,
// internvl,idefics3,pixtral}/modeling_*.py, vision_utils.py.

#include <algorithm>
#include <map>
#include <string>
#include <utility>

#include "planner/model_trace/attention.h"
#include "planner/model_trace/operators.h"
#include "planner/model_trace/vision.h"

namespace zplan::symbolic {

namespace {

/// Block is one block of the tower, with the arguments of all blocks.
struct Block {
  const Vision& vision;
  const Parameters& of;
  std::string path;  ///< "model.visual.blocks.3."
  Tensor cosines, sines, mask;
  std::vector<TokenParts> parts;

  [[nodiscard]] const TowerShape& shape() const { return vision.tower; }
  [[nodiscard]] const TowerNames& names() const { return vision.names; }
};

NormForm norm_form(const TowerShape& shape) { return shape.rms_norm ? NormForm::narrow : NormForm::layer; }

Tensor normed(Program& p, const Block& block, const std::string& name, const Tensor& x) {
  return normalise(p, block.of, name, x, norm_form(block.shape()));
}

Tensor layer(Program& p, const Block& block, const std::string& name, const Tensor& x) {
  return linear_layer(p, block.of, block.of.get(name + ".weight"), x);
}

/// x · sigmoid(1.702 · x).
Tensor quick_gelu(Program& p, const Tensor& x) {
  Tensor gate;
  {
    const Tensor scaled = scale(p.torch, x);
    gate = sigmoid(p.torch, scaled);
  }
  return mul(p.torch, x, gate);
}

Tensor activated(Program& p, const TowerShape& shape, const Tensor& x) {
  switch (shape.activation) {
    case TowerActivation::silu: return silu(p.torch, x);
    case TowerActivation::gelu: return gelu(p.torch, x);
    case TowerActivation::quick_gelu: return quick_gelu(p, x);
  }
  return {};
}

Tensor block_feed_forward(Program& p, const Block& block, const Tensor& x) {
  const TowerNames& names = block.names();
  Tensor inner;
  {
    const Tensor first = layer(p, block, block.shape().gated ? names.gate : names.up, x);
    inner = activated(p, block.shape(), first);
  }
  if (block.shape().gated) {
    const Tensor up = layer(p, block, names.up, x);
    inner = mul(p.torch, inner, up);
  }
  return layer(p, block, names.down, inner);
}

// ---- patches of all images in one sequence ----------------------------------------------------------------

/// Rotates queries and keys in fp32.
void turn(Program& p, const Block& block, Tensor& query, Tensor& key) {
  const Tensor wide_query = to(p.torch, query, DType::fp32), wide_key = to(p.torch, key, DType::fp32);
  const Tensor cosines = unsqueeze(p.torch, block.cosines, 1), sines = unsqueeze(p.torch, block.sines, 1);
  Tensor turned_query = turned_halves(p, wide_query, cosines, sines);
  Tensor turned_key = turned_halves(p, wide_key, cosines, sines);
  turned_query = to(p.torch, turned_query, query.type);
  turned_key = to(p.torch, turned_key, key.type);
  query = std::move(turned_query), key = std::move(turned_key);
}

Tensor packed_attention(Program& p, const Block& block, const Tensor& x) {
  const std::int64_t heads = block.shape().heads, width = block.shape().hidden_size, tokens = x.size(0);
  Tensors parts;
  {
    const Tensor all = layer(p, block, block.names().input, x);
    const Tensor apart = view(p.torch, all, {tokens, 3, heads, width / heads});
    parts = unbind(p.torch, permute(p.torch, apart, {1, 0, 2, 3}), 0);
  }
  turn(p, block, parts[0], parts[1]);
  for (Tensor& each : parts) each = unsqueeze(p.torch, transpose(p.torch, each, 0, 1), 0);
  const Tensor joined = attention_by_parts(p.torch, parts[0], parts[1], parts[2], block.parts);
  const Tensor rows = view(p.torch, joined, {tokens, width});
  return layer(p, block, block.names().output, rows);
}

// ---- a sample per image -----------------------------------------------------------------------------------

Tensor heads_of(Program& p, const Block& block, const Tensor& rows) {
  const std::int64_t heads = block.shape().heads;
  const Tensor apart = view(p.torch, rows, {rows.size(0), rows.size(1), heads, rows.size(2) / heads});
  return transpose(p.torch, apart, 1, 2);
}

Tensor projection(Program& p, const Block& block, const char* which, const Tensor& x) {
  return layer(p, block, block.names().attention + which, x);
}

/// Records a norm of all heads' queries or keys.
Tensor normed_projection(Program& p, const Block& block, const char* norm, const Tensor& rows) {
  if (!block.shape().query_key_norm) return rows;
  return normalise(p, block.of, block.names().attention + norm, rows, NormForm::narrow);
}

/// Records attention. Images that are samples attend by themselves; within one sample a mask separates them,
/// and positions are rotated.
Tensor attended(Program& p, const Block& block, Tensor& query, Tensor& key, const Tensor& value) {
  if (!block.mask.defined()) return whole_attention(p.torch, query, key, value);
  const Tensor cosines = unsqueeze(p.torch, block.cosines, 0), sines = unsqueeze(p.torch, block.sines, 0);
  Tensor turned_query = turned_halves(p, query, cosines, sines);
  Tensor turned_key = turned_halves(p, key, cosines, sines);
  query = std::move(turned_query), key = std::move(turned_key);
  return scaled_dot_product_attention(p.torch, query, key, value, block.mask, {});
}

Tensor padded_attention(Program& p, const Block& block, const Tensor& x) {
  Tensor query, key, value;
  {
    Tensor queries = projection(p, block, ".q_proj", x), keys = projection(p, block, ".k_proj", x);
    const Tensor values = projection(p, block, ".v_proj", x);
    queries = normed_projection(p, block, ".q_norm", queries);
    keys = normed_projection(p, block, ".k_norm", keys);
    query = heads_of(p, block, queries), key = heads_of(p, block, keys), value = heads_of(p, block, values);
  }
  Tensor output;
  {
    const Tensor joined = attended(p, block, query, key, value);
    const Tensor by_token = contiguous(p.torch, transpose(p.torch, joined, 1, 2));
    output = reshape(p.torch, by_token, x.layout.sizes);
  }
  return layer(p, block, block.names().output, output);
}

// ---- blocks -----------------------------------------------------------------------------------------------

Tensor block_attention(Program& p, const Block& block, const Tensor& x) {
  return hooked(p, {.name = block.path + "attention"}, x, [&](const Tensor& input) {
    return block.shape().attention == TowerAttention::packed ? packed_attention(p, block, input)
                                                             : padded_attention(p, block, input);
  });
}

/// Records a branch times the block's own vector, where it has one.
Tensor scaled_branch(Program& p, const Block& block, const std::string& name, const Tensor& branch) {
  return block.shape().layer_scale ? mul(p.torch, block.of.get(name).tensor, branch) : branch;
}

Tensor run_block(Program& p, const Block& block, const Tensor& hidden) {
  Tensor middle, first_branch;
  {
    Tensor branch;
    {
      const Tensor first = normed(p, block, block.names().norm1, hidden);
      branch = block_attention(p, block, first);
    }
    branch = scaled_branch(p, block, block.names().scale1, branch);
    middle = add(p.torch, hidden, branch);
    // A variable of the layer that scales its branches.
    if (block.shape().layer_scale) first_branch = branch;
  }
  Tensor branch;
  {
    const Tensor second = normed(p, block, block.names().norm2, middle);
    branch = hooked(p, {.name = block.path + "feed-forward"}, second,
                    [&](const Tensor& input) { return block_feed_forward(p, block, input); });
  }
  branch = scaled_branch(p, block, block.names().scale2, branch);
  return add(p.torch, middle, branch);
}

/// Returns the parameters that the block itself holds.
std::vector<const Parameter*> held_by_block(const Block& block) {
  if (!block.shape().layer_scale) return {};
  return {&block.of.get(block.names().scale1), &block.of.get(block.names().scale2)};
}

Tensor checkpointed_block(Program& p, const Block& block, const Tensor& hidden) {
  const auto run = [&p, block](const Tensor& input) { return run_block(p, block, input); };
  const auto call = [&](const Tensor& input) {
    const auto kind =
        p.training.reentrant_checkpointing ? CheckpointMethod::reentrant : CheckpointMethod::full;
    switch (p.strategy.checkpointing) {
      case Checkpointing::none: break;
      case Checkpointing::selective: return p.torch.checkpoint(run, input, CheckpointMethod::selective);
      case Checkpointing::full: return p.torch.checkpoint(run, input, kind);
    }
    return run(input);
  };
  return hooked(p, held_by_block(block), hidden, call, {.name = block.path});
}

/// Returns the windows of an image; the last of each row and column is smaller.
std::map<std::int64_t, std::int64_t> windows(const TowerShape& shape, const ImageBatch& images) {
  const std::int64_t side = shape.window_size / shape.merge / shape.patch_size;
  const auto lengths = [&](std::int64_t patches) {
    std::vector<std::int64_t> along;
    for (std::int64_t left = patches / shape.merge; left > 0; left -= side)
      along.push_back(std::min(left, side));
    return along;
  };
  std::map<std::int64_t, std::int64_t> found;
  for (const std::int64_t row : lengths(images.rows))
    for (const std::int64_t column : lengths(images.columns))
      ++found[row * column * shape.merge * shape.merge];
  return found;
}

std::vector<TokenParts> parts_of(const Program& p, const TowerShape& shape, std::int64_t index) {
  const bool whole =
      shape.window_size == 0 || std::ranges::find(shape.whole_layers, index) != shape.whole_layers.end();
  if (whole) return {{.count = tower_inputs(p), .length = patches_of_input(p)}};
  std::vector<TokenParts> parts;
  for (const auto& [length, count] : windows(shape, p.training.images))
    parts.push_back({.count = count * tower_inputs(p), .length = length});
  return parts;
}

/// ForBlocks holds the arguments of all blocks.
struct ForBlocks {
  Tensor cosines, sines, mask;
};

/// Keeps the features of a block's output that the language model adds after one of its first layers.
void keep_for_deepstack(Program& p, const Vision& vision, const TowerParameters& of, std::int64_t index,
                        const Tensor& hidden) {
  const auto found = std::ranges::find(vision.tower.deepstack, index);
  if (found == vision.tower.deepstack.end()) return;
  const std::string path =
      vision.names.deepstack + "." + std::to_string(found - vision.tower.deepstack.begin());
  p.deepstack.push_back(merged(p, vision, of, path, true, hidden));
}

Tensor all_blocks(Program& p, const Vision& vision, const TowerParameters& of, Tensor hidden,
                  const ForBlocks& given) {
  const std::string path = vision.names.tower + "." + vision.names.blocks + ".";
  const std::int64_t used = vision.tower.layers - vision.tower.unused_layers;
  Tensor output;
  for (std::int64_t i = 0; i < vision.tower.layers; ++i) {
    const Block block{.vision = vision,
                      .of = of.blocks[static_cast<std::size_t>(i)],
                      .path = path + std::to_string(i) + ".",
                      .cosines = given.cosines,
                      .sines = given.sines,
                      .mask = given.mask,
                      .parts = parts_of(p, vision.tower, i)};
    hidden = checkpointed_block(p, block, hidden);
    keep_for_deepstack(p, vision, of, i, hidden);
    if (vision.tower.unused_layers > 0) p.image_locals.push_back(hidden);
    if (i + 1 == used) output = hidden;
  }
  return output;
}

/// Makes the input of checkpointed blocks require a gradient, as transformers does, even where the tower is
/// frozen: its backward runs and keeps that gradient. `made_by`: the module whose output this is. Source:
/// transformers 5.23 modeling_utils.py enable_input_require_grads.
void require_gradient(const Program& p, InputGradient made_by, Tensor& hidden) {
  if (p.strategy.checkpointing == Checkpointing::none) return;
  if (p.model.vision->tower.input_gradient == made_by) Autograd::require_gradient(hidden);
}

Tensor patches(Program& p, const Vision& vision, const TowerParameters& of, const Tensor& pixels,
               const Layout& result) {
  const std::string name = vision.names.patches;
  const Parameter& weight = of.around.get(name + ".weight");
  const Parameter* bias = of.around.find(name + ".bias");
  const Tensor* addend = bias != nullptr ? &bias->tensor : nullptr;
  return hooked(p, {&weight, bias}, pixels, [&](const Tensor& input) {
    return patch_convolution(p.torch, input, weight.tensor, addend, result);
  });
}

/// Records the rows in the order of windows.
Tensor by_window(Program& p, const TowerShape& shape, const Tensor& x, const Tensor& order) {
  const std::int64_t unit = shape.merge * shape.merge;
  const Tensor units = view(p.torch, x, {x.size(0) / unit, unit, x.size(1)});
  const Tensor ordered = index(p.torch, units, order);
  return view(p.torch, ordered, {x.size(0), x.size(1)});
}

/// Records the rotary table: fp32 for packed patches, their own type for those of one sample.
Tensor rotary_table(Program& p, const Vision& vision, std::int64_t tokens) {
  const std::int64_t d = vision.tower.hidden_size / vision.tower.heads;
  const DType type = vision.tower.attention == TowerAttention::joined ? p.weights : DType::fp32;
  return p.torch.operate({}, Layout::contiguous({tokens, d}), type);
}

/// Records four rows of the position table for each patch, weighed in fp32.
Tensor interpolated_positions(Program& p, const Vision& vision, const TowerParameters& of,
                              const Tensor& weights, const Tensor& places) {
  const Parameter& table = of.around.get(vision.names.positions + ".weight");
  Tensor weighted;
  {
    const Tensor rows =
        hooked(p, {&table}, places, [&](const Tensor& at) { return embedding(p.torch, table.tensor, at); });
    weighted = mul(p.torch, rows, unsqueeze(p.torch, weights, 2));
  }
  return sum(p.torch, weighted, 1, false);
}

Tensor packed_tower(Program& p, const Vision& vision, const TowerParameters& of, const Tensor& pixels) {
  const TowerShape& shape = vision.tower;
  const std::int64_t tokens = tower_inputs(p) * patches_of_input(p);
  const std::int64_t unit = shape.merge * shape.merge;
  Tensors locals;
  const bool interpolates = shape.place == TowerPositions::interpolated;
  if (interpolates)
    locals = {numbers(p.torch, {tokens, 4}, DType::int64), numbers(p.torch, {tokens, 4}, DType::fp32)};
  Tensor hidden = patches(p, vision, of, pixels, Layout::contiguous({tokens, shape.hidden_size}));
  require_gradient(p, InputGradient::of_patches, hidden);
  if (interpolates) {
    locals.push_back(interpolated_positions(p, vision, of, locals[1], locals[0]));
    const Tensor narrow = to(p.torch, locals.back(), hidden.type);
    hidden = add(p.torch, hidden, narrow);
  }
  const bool windowed = shape.window_size > 0;
  if (windowed) {
    const Tensor order = row_order(p, tokens / unit);
    hidden = by_window(p, shape, hidden, order);
  }
  const ForBlocks given{rotary_table(p, vision, tokens), rotary_table(p, vision, tokens), {}};
  hidden = all_blocks(p, vision, of, std::move(hidden), given);
  p.image_locals.push_back(hidden);
  return hidden;
}

/// Records the patches of all images as one sample.
Tensor joined_patches(Program& p, const Vision& vision, const TowerParameters& of, const Tensor& found) {
  Tensor all;
  {
    Tensors each;
    for (const Tensor& image : unbind(p.torch, found, 0)) {
      const Tensor flat = view(p.torch, image, {image.size(0), image.size(1) * image.size(2)});
      each.push_back(transpose(p.torch, flat, 0, 1));
    }
    all = unsqueeze(p.torch, cat(p.torch, each, 0), 0);
  }
  return normalise(p, of.around, vision.names.norm_before, all, NormForm::narrow);
}

/// Records the tower on all images in one sample, separated by a mask over all of their patches.
Tensor joined_tower(Program& p, const Vision& vision, const TowerParameters& of, const Tensor& pixels) {
  const std::int64_t inputs = tower_inputs(p), tokens = inputs * patches_of_input(p);
  const ImageBatch& images = p.training.images;
  const Layout grid = Layout::contiguous({inputs, vision.tower.hidden_size, images.rows, images.columns});
  Tensor found;
  {
    const Tensor narrow = to(p.torch, pixels, p.weights);
    found = patches(p, vision, of, narrow, grid);
    require_gradient(p, InputGradient::of_patches, found);
  }
  Tensor hidden = joined_patches(p, vision, of, found);
  const Tensor positions = numbers(p.torch, {tokens, 2}, DType::int64);
  ForBlocks given{rotary_table(p, vision, tokens), rotary_table(p, vision, tokens), {}};
  given.mask = numbers(p.torch, {1, 1, tokens, tokens}, p.weights);
  hidden = all_blocks(p, vision, of, std::move(hidden), given);
  p.image_locals.push_back(hidden);
  return hidden;
}

/// Returns patches [b, n, h] as a view of the convolution's result [b, h, s, s].
Tensor embedded_patches(Program& p, const Vision& vision, const TowerParameters& of, const Tensor& pixels) {
  const TowerShape& shape = vision.tower;
  const std::int64_t inputs = tower_inputs(p), h = shape.hidden_size;
  Tensor found;
  {
    const Tensor narrow = to(p.torch, pixels, p.weights);
    found = patches(p, vision, of, narrow,
                    Layout::contiguous({inputs, h, p.training.images.rows, p.training.images.columns}));
    require_gradient(p, InputGradient::of_patches, found);
  }
  return transpose(p.torch, view(p.torch, found, {inputs, h, patches_of_input(p)}), 1, 2);
}

/// Records the class token before each image's patches.
Tensor with_class_token(Program& p, const Vision& vision, const Parameter& token, const Tensor& patches) {
  const std::int64_t h = vision.tower.hidden_size;
  const Tensor row = view(p.torch, token.tensor, {1, 1, h});
  return cat(p.torch, {expand(p.torch, row, {patches.size(0), 1, h}), patches}, 1);
}

Tensor with_positions(Program& p, const Vision& vision, const TowerParameters& of, const Tensor& hidden) {
  if (vision.tower.place == TowerPositions::whole)
    return add(p.torch, hidden, of.around.get(vision.names.positions).tensor);
  const Parameter& table = of.around.get(vision.names.positions + ".weight");
  const bool of_image = vision.tower.place == TowerPositions::rows_of_image;
  const Tensor places = of_image ? numbers(p.torch, {hidden.size(0), hidden.size(1)}, DType::int64)
                                 : of_batch({1, hidden.size(1)}, DType::int64);
  const Tensor rows =
      hooked(p, {&table}, places, [&](const Tensor& at) { return embedding(p.torch, table.tensor, at); });
  return add(p.torch, hidden, rows);
}

/// Records the module of embeddings, which holds the class token itself.
Tensor padded_embeddings(Program& p, const Vision& vision, const TowerParameters& of, const Tensor& pixels) {
  const Parameter* token = vision.tower.class_token ? of.around.find(vision.names.class_token) : nullptr;
  const Parameter* places =
      vision.tower.place == TowerPositions::whole ? of.around.find(vision.names.positions) : nullptr;
  return hooked(p, {token, places}, pixels,
                [&](const Tensor& input) {
                  Tensor hidden = embedded_patches(p, vision, of, input);
                  if (token != nullptr) hidden = with_class_token(p, vision, *token, hidden);
                  return with_positions(p, vision, of, hidden);
                },
                {.name = vision.names.tower + ".embeddings"});
}

Tensor padded_tower(Program& p, const Vision& vision, const TowerParameters& of, const Tensor& pixels) {
  const TowerShape& shape = vision.tower;
  Tensor hidden = padded_embeddings(p, vision, of, pixels);
  require_gradient(p, InputGradient::of_embeddings, hidden);
  if (shape.norm_before) hidden = normalise(p, of.around, vision.names.norm_before, hidden, NormForm::layer);
  if (shape.unused_layers > 0) p.image_locals.push_back(hidden);
  hidden = all_blocks(p, vision, of, std::move(hidden), {});
  if (shape.norm_behind && shape.unused_layers == 0)
    hidden = normalise(p, of.around, vision.names.norm_behind, hidden, NormForm::layer);
  p.image_locals.push_back(hidden);
  return hidden;
}

}  // namespace

std::int64_t tower_inputs(const Program& p) {
  return p.sizes.b * p.training.images.per_sample * p.training.images.tiles;
}

std::int64_t patches_of_input(const Program& p) { return p.training.images.rows * p.training.images.columns; }

Tensor row_order(Program& p, std::int64_t rows) {
  return p.torch.operate({}, Layout::contiguous({rows}), DType::int64);
}

ImageTextParameters image_text_parameters(const Vision& vision, const Parameters& around) {
  ImageTextParameters parts;
  parts.tower.blocks.resize(static_cast<std::size_t>(vision.tower.layers));
  // Adapters' names have peft's prefix in front.
  const std::string tower = vision.names.tower + ".", blocks = tower + vision.names.blocks + ".";
  for (const Parameter& each : around.all()) {
    const std::string& name = each.about->name;
    const std::size_t at = name.find(blocks);
    const bool is_around =
        name.find(tower) != std::string::npos || name.find(vision.names.projector + ".") != std::string::npos;
    if (at != std::string::npos)
      parts.tower.blocks[std::stoul(name.substr(at + blocks.size()))].add(each);
    else
      (is_around ? parts.tower.around : parts.text).add(each);
  }
  return parts;
}

Tensor tower_output(Program& p, const Vision& vision, const TowerParameters& of, const Tensor& pixels) {
  return hooked(p, {.name = vision.names.tower}, pixels, [&](const Tensor& input) {
    switch (vision.tower.attention) {
      case TowerAttention::packed: return packed_tower(p, vision, of, input);
      case TowerAttention::padded: return padded_tower(p, vision, of, input);
      case TowerAttention::joined: return joined_tower(p, vision, of, input);
    }
    return Tensor{};
  });
}

}  // namespace zplan::symbolic
