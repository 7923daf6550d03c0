#include "planner/model_trace/vision_operators.h"

#include <utility>

#include "planner/model_trace/moe_operators.h"
#include "planner/model_trace/operators.h"

namespace zplan::symbolic {

namespace {

Tensor made(Autograd& torch, const Dimensions& sizes, DType type) {
  return torch.kernel({}, Layout::contiguous(sizes), type);
}

}  // namespace

Tensor patch_convolution(Autograd& torch, const Tensor& given_x, const Tensor& given_weight,
                         const Tensor* given_bias, Layout result_layout) {
  Autocast& autocast = torch.autocast();
  const Tensor bias = given_bias != nullptr ? autocast.narrow(torch, *given_bias) : Tensor{};
  const Tensor weight = autocast.narrow(torch, given_weight);
  const Tensor x = autocast.narrow(torch, given_x);
  const auto node = torch.node({&x, &weight, &bias});
  Saved kept_x, kept_weight;
  if (node) kept_x = torch.save(x), kept_weight = torch.save(weight);
  Tensor result = torch.make(std::move(result_layout), x.type);
  const std::int64_t inner = weight.elements() / weight.size(0), rows = result.elements() / weight.size(0);
  torch.compute(product_of(rows, inner, weight.size(0), x.type));
  if (!node) return result;
  node->backward = [&torch, &itself = *node, kept_x, kept_weight, inner, rows](Tensors& gradients) {
    const Tensor held_weight = kept_weight.get(), held_x = kept_x.get();
    Tensors outputs(3);
    if (itself.needs(1)) {
      outputs[1] = torch.make(Layout::contiguous(held_weight.layout.sizes), held_weight.type);
      torch.compute(product_of(inner, rows, held_weight.size(0), held_weight.type));
    }
    if (itself.needs(2))
      outputs[2] =
          torch.kernel({gradients.data()}, Layout::contiguous({held_weight.size(0)}), held_weight.type);
    return outputs;
  };
  torch.connect(result, node);
  return result;
}

Tensors unbind(Autograd& torch, const Tensor& x, std::size_t axis) {
  const auto node = torch.node({&x});
  const auto at = static_cast<std::ptrdiff_t>(axis);
  Tensors results;
  for (std::int64_t i = 0; i < x.size(axis); ++i) {
    Layout layout = x.layout;
    layout.sizes.erase(layout.sizes.begin() + at), layout.strides.erase(layout.strides.begin() + at);
    results.push_back(alias(x, std::move(layout)));
    if (node) torch.connect(results.back(), node, static_cast<std::size_t>(i));
  }
  if (node)
    node->backward = [&torch, whole = x.layout.sizes, type = x.type](Tensors&) {
      return Tensors{torch.make(Layout::contiguous(whole), type)};
    };
  return results;
}

Tensor as_parts(Autograd& torch, const Tensor& x) {
  const auto node = torch.node({&x});
  Tensor result = alias(x, x.layout);
  if (node) {
    node->backward = [&torch, whole = x.layout.sizes, type = x.type](Tensors&) {
      return Tensors{torch.make(Layout::contiguous(whole), type)};
    };
    torch.connect(result, node);
  }
  return result;
}

Tensor masked_scatter(Autograd& torch, const Tensor& x, const Tensor& mask, const Tensor& source) {
  const auto node = torch.node({&x, &source});
  Saved kept;
  if (node) kept = torch.save(mask);
  Tensor result = torch.kernel({&x}, Layout::contiguous(x.layout.sizes), x.type);
  {
    const Tensor sums = made(torch, x.layout.sizes, DType::int64);
    const Tensor wide = made(torch, x.layout.sizes, DType::boolean);
  }
  torch.change(result, &source);
  if (!node) return result;
  node->backward = [&torch, &itself = *node, kept, all = x.layout.sizes,
                    own = source.layout.sizes](Tensors& gradients) {
    const Tensor held = kept.get();
    Tensors outputs(2);
    if (itself.needs(0)) outputs[0] = like(torch, gradients[0]);
    if (!itself.needs(1)) return outputs;
    const std::int64_t count = Layout::contiguous(own).elements();
    Tensor places;
    {
      const Tensor wide = made(torch, all, DType::boolean);
      places = made(torch, {static_cast<std::int64_t>(all.size()), count}, DType::int64);
    }
    outputs[1] = torch.kernel({&places}, Layout::contiguous(own), gradients[0].type);
    return outputs;
  };
  torch.connect(result, node);
  return result;
}

Tensor unfold(Autograd& torch, const Tensor& x, std::int64_t side) {
  const auto node = torch.node({&x});
  const std::int64_t squares = x.size(0) / (side * side), width = x.size(1) * side * side;
  Tensor result = torch.make(Layout::contiguous({width, squares}), x.type);
  { const Tensor copy = torch.kernel({&x}, Layout::contiguous(x.layout.sizes), x.type); }
  result.layout = result.layout.transposed(0, 1);
  if (node) {
    node->backward = [&torch, whole = x.layout.sizes](Tensors& gradients) {
      const Tensor folded = torch.make(Layout::contiguous(whole), gradients[0].type);
      { const Tensor copy = torch.kernel({gradients.data()}, Layout::contiguous(whole), gradients[0].type); }
      return Tensors{folded};
    };
    torch.connect(result, node);
  }
  return result;
}

Tensor add_at_rows(Autograd& torch, const Tensor& x, const Tensor& mask, const Tensor& features) {
  const auto node = torch.node({&x, &features});
  Saved kept;
  if (node) kept = torch.save(mask);
  const std::int64_t rows = features.size(0);
  const bool casts = features.type != x.type;
  const Tensor cast =
      casts ? torch.kernel({&features}, Layout::contiguous(features.layout.sizes), x.type) : features;
  Tensor result = torch.kernel({&x}, Layout::contiguous(x.layout.sizes), x.type);
  {
    const Tensor places = made(torch, {2, rows}, DType::int64);
    const Tensor own = made(torch, features.layout.sizes, x.type);
    const Tensor sum = torch.kernel({&own, &cast}, Layout::contiguous(features.layout.sizes), x.type);
    torch.change(result, &sum);
  }
  if (!node) return result;
  node->backward = [&torch, kept, rows, casts, given = features.type,
                    own = features.layout.sizes](Tensors& gradients) {
    const Tensor held = kept.get();
    const Tensor incoming = gradients[0];
    const DType type = incoming.type;
    Tensors outputs(2);
    {
      const Tensor zeros = made(torch, own, type);
      outputs[0] = torch.kernel({&incoming}, Layout::contiguous(incoming.layout.sizes), type);
    }
    // It waits for the tower's backward, which runs behind all layers.
    const auto stays = [&](DType in) {
      return torch.recorder().around_layers([&] { return made(torch, own, in); });
    };
    outputs[1] = casts ? made(torch, own, type) : stays(type);
    gradients[0] = {};
    {
      const Tensor of_rows = made(torch, outputs[0].layout.sizes, type);
      accumulate_rows(torch, rows, outputs[0].size(0) * outputs[0].size(1));
      torch.change(outputs[0], &of_rows);
    }
    if (casts) outputs[1] = stays(given);
    return outputs;
  };
  torch.connect(result, node);
  return result;
}

Tensor average_pool(Autograd& torch, const Tensor& x, std::int64_t side) {
  const auto node = torch.node({&x});
  Saved kept;
  if (node) kept = torch.save(x);
  Tensor result = torch.make(Layout::contiguous({x.size(0), x.size(1), side, side}), x.type);
  if (node) {
    node->backward = [&torch, kept](Tensors&) {
      const Tensor held = kept.get();
      return Tensors{torch.make(Layout::contiguous(held.layout.sizes), held.type)};
    };
    torch.connect(result, node);
  }
  return result;
}

}  // namespace zplan::symbolic
