#include <utility>

#include "planner/model_trace/operators.h"

namespace zplan::symbolic {

namespace {

/// Through views, as torch.matmul's operands are: the engine adds nothing to such a gradient in place.
Tensor seen(Tensor gradient) {
  gradient.view = true;
  return gradient;
}

Tensor copy_of(Autograd& torch, const Tensor& x) {
  return torch.kernel({&x}, Layout::contiguous(x.layout.sizes), x.type);
}

Tensor in_order(Autograd& torch, const Tensor& x) { return x.layout.is_contiguous() ? x : copy_of(torch, x); }

std::int64_t leading(const Tensor& x) {
  return x.elements() / (x.layout.sizes.back() * x.layout.sizes[x.layout.rank() - 2]);
}

Dimensions with_last_two(const Tensor& x, std::int64_t rows, std::int64_t columns) {
  Dimensions sizes = x.layout.sizes;
  sizes[sizes.size() - 2] = rows, sizes.back() = columns;
  return sizes;
}

/// Matrices column by column.
Layout by_columns(const Dimensions& sizes) {
  Dimensions turned = sizes;
  std::swap(turned[turned.size() - 2], turned.back());
  return Layout::contiguous(std::move(turned)).transposed(sizes.size() - 2, sizes.size() - 1);
}

Tensor solved(Autograd& torch, const Tensor& a, const Dimensions& sizes) {
  Tensor result = torch.make(by_columns(sizes), a.type);
  // A few large matrices are solved one by one.
  constexpr std::int64_t kFew = 8, kLarge = 64, kAddress = 8;
  const std::int64_t batch = leading(a), n = a.layout.sizes.back();
  torch.compute(product_of(n, n / 2, sizes.back(), a.type, batch));
  if (batch <= kFew && n >= kLarge) return result;
  const Tensor left = torch.make(Layout::contiguous({kAddress * batch}), DType::uint8);
  const Tensor right = torch.make(Layout::contiguous({kAddress * batch}), DType::uint8);
  torch.drop_kernel();
  return result;
}

/// −(gradient of b · resultᵀ), its lower triangle.
Tensor gradient_of_triangle(Autograd& torch, const Tensor& a, const Tensor& result) {
  Tensor negative;
  {
    torch.multiply(false, product_of(a.layout.sizes.back(), result.layout.sizes.back(), a.layout.sizes.back(),
                                     a.type, leading(a)));
    const Tensor product = torch.make(Layout::contiguous(a.layout.sizes), a.type);
    torch.drop_kernel();
    negative = copy_of(torch, product);
  }
  return copy_of(torch, negative);
}

}  // namespace

Tensor depthwise_convolution(Autograd& torch, const Tensor& given_x, const Tensor& given_weight) {
  const Tensor weight = torch.autocast().narrow(torch, given_weight);
  const Tensor x = torch.autocast().narrow(torch, given_x);
  const auto node = torch.node({&x, &weight});
  Saved kept_x, kept_weight;
  if (node) kept_x = torch.save(x), kept_weight = torch.save(weight);
  Tensor result;
  {
    const Tensor ordered = in_order(torch, x);
    result = torch.kernel({&ordered},
                          Layout::contiguous({x.size(0), x.size(1), x.size(2) + weight.size(2) - 1}), x.type);
  }
  if (!node) return result;
  node->backward = [&torch, &itself = *node, kept_x, kept_weight](Tensors& gradients) {
    const Tensor held_weight = kept_weight.get(), held_x = kept_x.get();
    const Tensor gradient = in_order(torch, gradients[0]), ordered = in_order(torch, held_x);
    Tensors outputs(2);
    if (itself.needs(1))
      outputs[1] =
          torch.kernel({&ordered, &gradient}, Layout::contiguous(held_weight.layout.sizes), held_weight.type);
    if (itself.needs(0))
      outputs[0] = torch.kernel({&gradient}, Layout::contiguous(held_x.layout.sizes), held_x.type);
    return outputs;
  };
  return Autograd::connected(result, node);
}

Tensor to_contiguous(Autograd& torch, const Tensor& x, DType type) {
  if (x.type == type) return x;
  const auto node = torch.node({&x});
  Tensor result = torch.make(Layout::contiguous(x.layout.sizes), type);
  if (!node) return result;
  node->backward = [&torch, from = x.type](Tensors& gradients) {
    return Tensors{torch.make(elementwise({&gradients[0].layout}), from)};
  };
  return Autograd::connected(result, node);
}

Tensor pad(Autograd& torch, const Tensor& x, std::size_t axis, std::int64_t more) {
  const auto node = torch.node({&x});
  Dimensions sizes = x.layout.sizes;
  sizes[axis] += more;
  Tensor result = more == 0 ? like(torch, x) : torch.make(Layout::contiguous(sizes), x.type);
  if (!node) return result;
  node->backward = [&torch, own = x.layout.sizes, more](Tensors& gradients) {
    if (more == 0) return Tensors{like(torch, gradients[0])};
    return Tensors{torch.make(Layout::contiguous(own), gradients[0].type)};
  };
  return Autograd::connected(result, node);
}

Tensor repeat_interleave(Autograd& torch, const Tensor& x, std::size_t axis, std::int64_t times) {
  Dimensions wide = x.layout.sizes, sizes = x.layout.sizes;
  wide.insert(wide.begin() + static_cast<std::ptrdiff_t>(axis) + 1, times);
  sizes[axis] *= times;
  return reshape(torch, expand(torch, unsqueeze(torch, x, axis + 1), wide), sizes);
}

Tensor running_sum(Autograd& torch, const Tensor& x) {
  const auto node = torch.node({&x});
  Tensor result = torch.make(Layout::contiguous(x.layout.sizes), x.type);
  { const Tensor ordered = in_order(torch, x); }
  if (!node) return result;
  // grad.flip(-1).cumsum(-1).flip(-1)
  node->backward = [&torch](Tensors& gradients) {
    const Tensor turned = copy_of(torch, gradients[0]);
    const Tensor summed = copy_of(torch, turned);
    return Tensors{copy_of(torch, summed)};
  };
  return Autograd::connected(result, node);
}

Tensor batched_matmul(Autograd& torch, const Tensor& given_a, const Tensor& given_b) {
  const Tensor b = torch.autocast().narrow(torch, given_b);
  const Tensor a = torch.autocast().narrow(torch, given_a);
  const std::size_t last = a.layout.rank() - 1;
  const std::int64_t batch = leading(a), m = a.size(last - 1), k = a.size(last), n = b.size(last);
  const auto node = torch.node({&a, &b});
  Saved kept_a, kept_b;
  if (node) {
    if (node->needs(1)) kept_a = torch.save(a);
    if (node->needs(0)) kept_b = torch.save(b);
  }
  Tensor result = torch.make(Layout::contiguous(with_last_two(a, m, n)), a.type);
  torch.multiply(false, product_of(m, k, n, a.type, batch));
  constexpr std::int64_t kViews = 5;
  torch.issue(kViews);
  if (!node) return result;
  node->backward = [&torch, &itself = *node, kept_a, kept_b, batch, m, k, n, of_a = a.layout.sizes,
                    of_b = b.layout.sizes, type = a.type](Tensors&) {
    const Tensor held_b = itself.needs(0) ? kept_b.get() : Tensor{};
    const Tensor held_a = itself.needs(1) ? kept_a.get() : Tensor{};
    Tensors outputs(2);
    if (itself.needs(1)) {
      torch.multiply(false, product_of(k, m, n, type, batch));
      outputs[1] = seen(torch.make(Layout::contiguous(of_b), type));
    }
    if (itself.needs(0)) {
      torch.multiply(false, product_of(m, n, k, type, batch));
      outputs[0] = seen(torch.make(Layout::contiguous(of_a), type));
    }
    torch.drop_kernel();
    return outputs;
  };
  return Autograd::connected(result, node);
}

Tensor solve_triangular(Autograd& torch, const Tensor& a, const Tensor& b) {
  const auto node = torch.node({&a, &b});
  Saved kept_a;
  if (node) kept_a = torch.save(a);
  Tensor result = solved(torch, a, b.layout.sizes);
  if (!node) return result;
  node->backward = [&torch, &itself = *node, kept_a, kept = torch.save(result)](Tensors&) {
    const Tensor held = kept.get(), triangle = kept_a.get();
    Tensors outputs(2);
    outputs[1] = solved(torch, triangle, held.layout.sizes);
    if (itself.needs(0)) outputs[0] = gradient_of_triangle(torch, triangle, held);
    if (!itself.needs(1)) outputs[1].reset();
    return outputs;
  };
  return Autograd::connected(result, node);
}

Tensor part(Autograd& torch, const Tensor& x, std::size_t axis, std::int64_t length) {
  const auto node = torch.node({&x});
  Tensor result = alias(x, x.layout.narrowed(axis, length));
  torch.issue(1);
  if (!node) return result;
  node->backward = [&torch, whole = x.layout.sizes](Tensors& gradients) {
    return Tensors{padded(torch, gradients[0], whole)};
  };
  return Autograd::connected(result, node);
}

void assign(Autograd& torch, Tensor& x, const Tensor& value) {
  const auto node = torch.node({&x, &value});
  torch.copy(value);
  if (!node) return;
  node->backward = [&torch, &itself = *node, own = value.layout.sizes, given = value.type,
                    whole = x.layout](Tensors& gradients) {
    Tensors outputs(2);
    const DType type = gradients[0].type;
    Tensor all = torch.kernel({gradients.data()}, elementwise({&whole}), type), zeros;
    outputs[1] = torch.kernel({&all}, Layout::contiguous(own), type);
    if (itself.needs(0)) zeros = torch.kernel({}, Layout::contiguous(own), type);
    if (given != type) outputs[1] = torch.kernel({&outputs[1]}, Layout::contiguous(own), given);
    if (itself.needs(0)) outputs[0] = std::move(all);
    return outputs;
  };
  torch.connect(x, node);
}

}  // namespace zplan::symbolic
