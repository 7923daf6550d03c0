#include "models/architectures/parts.h"

#include <algorithm>

namespace zplan::architectures {

namespace {

std::string last_part(const std::string& path) {
  const std::size_t dot = path.rfind('.');
  return dot == std::string::npos ? path : path.substr(dot + 1);
}

Tensor weight_of(const LinearLayer& layer) {
  Tensor tensor;
  tensor.name = layer.path + ".weight";
  tensor.shape = {layer.out, layer.in};
  tensor.role = layer.role;
  tensor.split = layer.split;
  tensor.split_units = layer.units;
  tensor.linear = Linear{.in_features = layer.in, .out_features = layer.out};
  tensor.module = last_part(layer.path);
  return tensor;
}

Tensor bias_of(const LinearLayer& layer) {
  Tensor tensor = plain(layer.path + ".bias", {layer.out}, layer.role);
  if (layer.split != TensorParallelSplit::row) {
    tensor.split = layer.split;
    tensor.split_units = layer.units;
  }
  tensor.module = last_part(layer.path);
  return tensor;
}

LinearLayer attention_input(const ModelShape& shape, const std::string& path, std::int64_t features,
                            bool bias) {
  return {.path = path,
          .in = shape.hidden_size,
          .out = features,
          .bias = bias,
          .role = TensorRole::attention,
          .split = TensorParallelSplit::column,
          .units = attention_units(shape, features)};
}

LinearLayer attention_output(const ModelShape& shape, const std::string& path, bool bias) {
  const std::int64_t features = shape.attention_heads * shape.head_size;
  return {.path = path,
          .in = features,
          .out = shape.hidden_size,
          .bias = bias,
          .role = TensorRole::attention,
          .split = TensorParallelSplit::row,
          .units = attention_units(shape, features)};
}

Tensor expert_stack(const std::string& name, std::int64_t experts, std::int64_t in, std::int64_t out) {
  Tensor tensor = plain(name, {experts, out, in}, TensorRole::expert);
  tensor.linear = Linear{.in_features = in, .out_features = out, .copies = experts};
  tensor.module = "experts";
  return tensor;
}

void put_prefix(Tensors& tensors, const std::string& prefix) {
  for (Tensor& tensor : tensors) tensor.name.insert(0, prefix);
}

}  // namespace

Tensor plain(const std::string& name, std::vector<std::int64_t> shape, TensorRole role) {
  Tensor tensor;
  tensor.name = name;
  tensor.shape = std::move(shape);
  tensor.role = role;
  return tensor;
}

Tensors linear(const LinearLayer& layer) {
  Tensors tensors{weight_of(layer)};
  if (layer.bias) tensors.push_back(bias_of(layer));
  return tensors;
}

Tensors norm(const std::string& path, std::int64_t size, bool bias) {
  Tensors tensors{plain(path + ".weight", {size}, TensorRole::norm)};
  if (bias) tensors.push_back(plain(path + ".bias", {size}, TensorRole::norm));
  for (Tensor& tensor : tensors) tensor.module = last_part(path);
  return tensors;
}

std::int64_t attention_units(const ModelShape& shape, std::int64_t features) {
  return features % shape.key_value_heads == 0 ? shape.key_value_heads : features;
}

Tensors attention(const ModelShape& shape, Biases biases, const AttentionNames& names) {
  std::vector<Tensors> parts;
  for (const std::string& name : names.inputs) {
    const std::int64_t heads = name.starts_with('q') ? shape.attention_heads : shape.key_value_heads;
    parts.push_back(
        linear(attention_input(shape, names.path + "." + name, heads * shape.head_size, biases.input)));
  }
  parts.push_back(linear(attention_output(
      shape, names.path + "." + std::string(shape.modules.attention_output), biases.output)));
  return join(parts);
}

Tensors fused_attention(const ModelShape& shape, Biases biases, const std::string& input,
                        const std::string& output) {
  const std::int64_t features = (shape.attention_heads + 2 * shape.key_value_heads) * shape.head_size;
  return join({linear(attention_input(shape, input, features, biases.input)),
               linear(attention_output(shape, output, biases.output))});
}

Tensors mlp(const ModelShape& shape, const TwoLayers& layers) {
  const LinearLayer up{.path = layers.up,
                       .in = shape.hidden_size,
                       .out = layers.width,
                       .bias = layers.bias,
                       .role = TensorRole::mlp,
                       .split = TensorParallelSplit::column,
                       .units = layers.width};
  LinearLayer down = up;
  down.path = layers.down;
  std::swap(down.in, down.out);
  down.split = TensorParallelSplit::row;
  return join({linear(up), linear(down)});
}

Tensors gated_mlp(const ModelShape& shape, const GatedMlp& mlp) {
  const LinearLayer gate{.path = mlp.path + ".gate_proj",
                         .in = shape.hidden_size,
                         .out = mlp.width,
                         .bias = mlp.bias,
                         .role = mlp.role,
                         .split = TensorParallelSplit::column,
                         .units = mlp.width};
  LinearLayer up = gate;
  up.path = mlp.path + ".up_proj";
  LinearLayer down = gate;
  down.path = mlp.path + ".down_proj";
  std::swap(down.in, down.out);
  down.split = TensorParallelSplit::row;
  return join({linear(gate), linear(up), linear(down)});
}

Tensors fused_gated_mlp(const ModelShape& shape, const std::string& gate_up, const std::string& down) {
  Tensors tensors = mlp(shape, {.up = gate_up, .down = down, .width = shape.intermediate_size});
  Tensor& fused = tensors.front();
  fused.shape.front() *= 2;
  fused.linear->out_features *= 2;
  return tensors;
}

Tensors expert_stacks(const ModelShape& shape, const std::string& path) {
  const MixtureOfExperts& experts = *shape.experts;
  Tensors tensors{
      expert_stack(path + ".gate_up_proj", experts.experts, shape.hidden_size, 2 * experts.intermediate_size),
      expert_stack(path + ".down_proj", experts.experts, experts.intermediate_size, shape.hidden_size)};
  tensors[0].split = TensorParallelSplit::column;
  tensors[1].split = TensorParallelSplit::row;
  for (Tensor& tensor : tensors) tensor.split_units = experts.intermediate_size;
  return tensors;
}

Tensors router(const ModelShape& shape, bool bias) {
  return linear({.path = std::string(shape.modules.router),
                 .in = shape.hidden_size,
                 .out = shape.experts->experts,
                 .bias = bias,
                 .role = TensorRole::router});
}

Tensors join(const std::vector<Tensors>& parts) {
  Tensors all;
  for (const Tensors& part : parts) all.insert(all.end(), part.begin(), part.end());
  return all;
}

Tensors token_embedding(const ModelShape& shape, const std::string& path) {
  Tensor tensor =
      plain(path + ".weight", {shape.vocabulary_size, shape.hidden_size}, TensorRole::token_embedding);
  tensor.module = last_part(path);
  if (shape.tied_embeddings) {
    tensor.split = TensorParallelSplit::vocabulary;
    tensor.split_units = shape.vocabulary_size;
  }
  return {tensor};
}

Tensors head(const ModelShape& shape, const std::string& path, bool bias) {
  Tensors tensors = linear({.path = path,
                            .in = shape.hidden_size,
                            .out = shape.vocabulary_size,
                            .bias = bias,
                            .role = TensorRole::head,
                            .split = TensorParallelSplit::vocabulary,
                            .units = shape.vocabulary_size});
  if (shape.tied_embeddings) tensors.erase(tensors.begin());
  return tensors;
}

Model assemble(const ModelShape& shape, Stack stack) {
  Inventory inventory{
      .before = std::move(stack.before), .kinds = {}, .layers = {}, .after = std::move(stack.after)};
  std::vector<std::size_t> place(stack.kinds.size(), stack.kinds.size());
  for (const std::size_t kind : stack.layers) {
    if (place[kind] == stack.kinds.size()) {
      place[kind] = inventory.kinds.size();
      inventory.kinds.push_back(stack.kinds[kind]);
      put_prefix(inventory.kinds.back().tensors, stack.prefix);
    }
    inventory.layers.push_back(place[kind]);
  }
  Model model;
  model.source = ModelSource::config;
  model.shape = shape;
  model.inventory = std::move(inventory);
  return model;
}

void leave_whole(Inventory& inventory, const std::vector<TensorRole>& roles) {
  const auto visit = [&](Tensors& tensors) {
    for (Tensor& tensor : tensors) {
      if (std::find(roles.begin(), roles.end(), tensor.role) == roles.end()) continue;
      tensor.split = TensorParallelSplit::replicated;
      tensor.split_units = 1;
    }
  };
  visit(inventory.before);
  for (LayerKind& kind : inventory.kinds) visit(kind.tensors);
  visit(inventory.after);
}

std::vector<std::size_t> all_alike(const ModelShape& shape) {
  return std::vector<std::size_t>(static_cast<std::size_t>(shape.layers), 0);
}

namespace {

Tensors query_key_norms(const Descriptor& about, const ModelShape& shape) {
  const QueryKeyNorm kind = about.block.query_key_norm;
  const std::int64_t heads = shape.attention_heads, key_value_heads = shape.key_value_heads;
  const bool whole = kind == QueryKeyNorm::of_width;
  const auto norm_of = [&](std::string_view name, std::int64_t count) {
    Tensors made = norm("self_attn." + std::string(name), whole ? count * shape.head_size : shape.head_size,
                        about.block.norm_bias);
    if (kind == QueryKeyNorm::of_each_head) made[0].shape = {count, shape.head_size};
    return made;
  };
  return join({norm_of(shape.modules.query_norm, heads), norm_of(shape.modules.key_norm, key_value_heads)});
}

Tensors width_norms(const Descriptor& about, const ModelShape& shape,
                    const std::vector<std::string_view>& paths) {
  std::vector<Tensors> all;
  for (const std::string_view path : paths)
    if (!path.empty() && !shape.operators.bare_norms)
      all.push_back(norm(std::string(path), shape.hidden_size, about.block.norm_bias));
  return join(all);
}

}  // namespace

Model decoder(const Descriptor& about, const ModelShape& shape, Tensors layer) {
  return decoder(about, shape, {{"decoder", std::move(layer)}}, all_alike(shape));
}

Model decoder(const Descriptor& about, const ModelShape& shape, std::vector<LayerKind> kinds,
              std::vector<std::size_t> layers) {
  const std::string final_norm = "model." + std::string(shape.modules.final_norm);
  return assemble(shape, {.prefix = "model.layers.{}.",
                          .before = token_embedding(shape, "model.embed_tokens"),
                          .kinds = std::move(kinds),
                          .layers = std::move(layers),
                          .after = join({width_norms(about, shape, {final_norm}),
                                         head(shape, "lm_head", about.block.head_bias)})});
}

Tensors block_attention(const JsonReader& config, const Descriptor& about, const ModelShape& shape) {
  const Block& block = about.block;
  const Tensors projections = attention(
      shape, {.input = is_on(config, block.input_bias), .output = is_on(config, block.output_bias)});
  const bool normed =
      block.query_key_norm != QueryKeyNorm::none && is_on(config, block.norms_queries_and_keys);
  return normed ? join({projections, query_key_norms(about, shape)}) : projections;
}

Tensors block_feed_forward(const JsonReader& config, const Descriptor& about, const ModelShape& shape) {
  const bool bias = is_on(config, about.block.mlp_bias);
  const std::string &up = about.block.up, &down = about.block.down;
  switch (about.feed_forward) {
    case FeedForward::gated: return gated_mlp(shape, {.width = shape.intermediate_size, .bias = bias});
    case FeedForward::fused_gated: return fused_gated_mlp(shape, up, down);
    case FeedForward::plain:
      return mlp(shape, {.up = up, .down = down, .width = shape.intermediate_size, .bias = bias});
  }
  return {};
}

Tensors block_norms(const Descriptor& about, const ModelShape& shape) {
  const Modules& names = shape.modules;
  if (about.block.behind_last)
    return width_norms(about, shape,
                       {names.norm_before_attention, names.norm_before_feed_forward,
                        names.norm_behind_attention, names.norm_behind_feed_forward});
  return width_norms(about, shape,
                     {names.norm_before_attention, names.norm_behind_attention,
                      names.norm_before_feed_forward, names.norm_behind_feed_forward});
}

Model read_decoder(const JsonReader& config, const Descriptor& about) {
  const ModelShape shape = shape_of(config, about);
  return decoder(about, shape,
                 join({block_attention(config, about, shape), block_feed_forward(config, about, shape),
                       block_norms(about, shape)}));
}

}  // namespace zplan::architectures
