#include "planner/model_trace/rare_operators.h"

#include "planner/model_trace/moe_operators.h"
#include "planner/model_trace/operators.h"

namespace zplan::symbolic {

namespace {

/// A kernel of two operands of one layout.
Tensor like(Autograd& torch, const Tensor& x, const Tensor& y) {
  return torch.kernel({&x, &y}, elementwise({&x.layout}), x.type);
}

/// The same of one.
Tensor scaled(Autograd& torch, const Tensor& x) {
  return torch.kernel({&x}, elementwise({&x.layout}), x.type);
}

/// 0.79788456·x·(1 + 0.044715·x·x) and its hyperbolic tangent, as Python evaluates them.
Tensor bloom_tanh(Autograd& torch, const Tensor& x) {
  Tensor inner;
  {
    const Tensor outer = scaled(torch, x);
    Tensor square;
    {
      const Tensor weighted = scaled(torch, x);
      square = like(torch, weighted, x);
    }
    square = scaled(torch, square);
    inner = like(torch, outer, square);
  }
  return scaled(torch, inner);
}

/// x·0.5·(1 + tanh(…)).
Tensor bloom_forward(Autograd& torch, const Tensor& x) {
  const Tensor half = scaled(torch, x);
  Tensor bent = bloom_tanh(torch, x);
  bent = scaled(torch, bent);
  return like(torch, half, bent);
}

/// (0.5·x)·((1 − t·t)·(0.79788456 + 0.1070322243·x·x)).
Tensor bloom_slope(Autograd& torch, const Tensor& x, const Tensor& t) {
  const Tensor half = scaled(torch, x);
  Tensor product;
  {
    Tensor bend = scaled(torch, t);
    bend = scaled(torch, bend);
    Tensor weights;
    {
      const Tensor weighted = scaled(torch, x);
      weights = like(torch, weighted, x);
    }
    weights = scaled(torch, weights);
    product = like(torch, bend, weights);
  }
  return like(torch, half, product);
}

/// The slope + 0.5·(1 + t), times the gradient.
Tensor bloom_backward(Autograd& torch, const Tensor& x, const Tensor& gradient) {
  const Tensor t = bloom_tanh(torch, x);
  Tensor whole;
  {
    const Tensor slope = bloom_slope(torch, x, t);
    Tensor shifted = scaled(torch, t);
    shifted = scaled(torch, shifted);
    whole = like(torch, slope, shifted);
  }
  return like(torch, whole, gradient);
}

}  // namespace

Tensor select(Autograd& torch, const Tensor& x, std::size_t axis) {
  const auto node = torch.node({&x});
  Tensor result = x.detached();
  result.view = true;
  const auto at = static_cast<std::ptrdiff_t>(axis);
  result.layout.sizes.erase(result.layout.sizes.begin() + at);
  result.layout.strides.erase(result.layout.strides.begin() + at);
  if (node) {
    node->backward = [&torch, whole = x.layout.sizes](Tensors& gradients) {
      return Tensors{padded(torch, gradients[0], whole)};
    };
    torch.connect(result, node);
  }
  return result;
}

Tensor index_one(Autograd& torch, const Tensor& x, std::size_t axis) {
  const auto node = torch.node({&x});
  const Tensor place = numbers(torch, {1}, DType::int64);
  Dimensions sizes = x.layout.sizes;
  sizes[axis] = 1;
  Tensor result = torch.make(Layout::contiguous(sizes), x.type);
  torch.read_only(result.bytes());
  if (node) {
    node->backward = [&torch, kept = torch.save(place), whole = x.layout.sizes](Tensors& gradients) {
      const Tensor held = kept.get();
      Tensor gradient = torch.kernel({}, Layout::contiguous(whole), gradients[0].type);
      accumulate_rows(torch, 1, 1);
      torch.change(gradients[0], &gradients[0]);
      return Tensors{gradient};
    };
    torch.connect(result, node);
  }
  return result;
}

void scale_in_place(Autograd& torch, Tensor& x) {
  const auto node = torch.node({&x});
  torch.change(x);
  if (!node) return;
  node->backward = [&torch](Tensors& gradients) { return Tensors{like(torch, gradients[0])}; };
  torch.connect(x, node);
}

Tensor interleave(Autograd& torch, const Tensor& a, const Tensor& b) {
  const std::size_t last = a.layout.rank();
  Tensor stacked;
  {
    const auto node = torch.node({&a, &b});
    Dimensions sizes = a.layout.sizes;
    sizes.push_back(2);
    stacked = torch.make(Layout::contiguous(sizes), a.type);
    if (node) {
      // The gradient comes apart again, as views.
      node->backward = [last](Tensors& gradients) {
        Tensor part = gradients[0].detached();
        part.view = true;
        part.layout.sizes.erase(part.layout.sizes.begin() + static_cast<std::ptrdiff_t>(last));
        part.layout.strides.erase(part.layout.strides.begin() + static_cast<std::ptrdiff_t>(last));
        return Tensors{part, part};
      };
      torch.connect(stacked, node);
    }
  }
  Dimensions sizes = a.layout.sizes;
  sizes.back() *= 2;
  return view(torch, stacked, sizes);
}

namespace {

/// torch.view_as_real: its backward needs pairs side by side.
Tensor view_as_real(Autograd& torch, const Tensor& x) {
  const auto node = torch.node({&x});
  Tensor result = x.detached();
  result.view = true;
  if (node) {
    node->backward = [&torch](Tensors& gradients) {
      Tensor& given = gradients[0];
      return Tensors{given.layout.is_contiguous()
                         ? given
                         : torch.make(Layout::contiguous(given.layout.sizes), given.type)};
    };
    torch.connect(result, node);
  }
  return result;
}

}  // namespace

Tensor multiply_complex(Autograd& torch, const Tensor& x, const Tensor& table) {
  const auto node = torch.node({&x});
  torch.read(table);
  Tensor product = torch.make(elementwise({&x.layout, &table.layout}), DType::fp32);
  if (node) {
    node->backward = [&torch, kept = torch.save(table)](Tensors& gradients) {
      const Tensor held = kept.get();
      const Tensor conjugate = torch.make(held.layout, held.type);
      torch.read(conjugate);
      return Tensors{torch.make(elementwise({&gradients[0].layout, &conjugate.layout}), DType::fp32)};
    };
    torch.connect(product, node);
  }
  return view_as_real(torch, product);
}

namespace {

/// base[..., part, ...] = part. In the backward the base's gradient is copied, its slice's copied out of it
/// and written over with zeros. Source: torch 2.11 torch/csrc/autograd/functions/tensor.cpp
/// CopySlices::apply_impl.
void assign(Autograd& torch, Tensor& base, const Tensor& part) {
  const auto node = torch.node({&base, &part});
  torch.copy(part);
  if (!node) return;
  node->backward = [&torch, &itself = *node, whole = base.layout.sizes,
                    sizes = part.layout.sizes](Tensors& gradients) {
    const DType type = gradients[0].type;
    Tensors outputs(2);
    const Tensor copy = torch.make(Layout::contiguous(whole), type);
    outputs[1] = torch.make(Layout::contiguous(sizes), type);
    torch.read(outputs[1]);
    if (itself.needs(0)) {
      const Tensor zeros = torch.make(Layout::contiguous(sizes), type);
      torch.copy(zeros);
      outputs[0] = copy;
    }
    return outputs;
  };
  torch.connect(base, node);
}

}  // namespace

Tensor fill(Autograd& torch, const Tensors& parts, std::size_t axis) {
  Dimensions sizes = parts[0].layout.sizes;
  sizes[axis] = 0;
  for (const Tensor& each : parts) sizes[axis] += each.size(axis);
  Tensor base = torch.make(Layout::contiguous(sizes), parts[0].type);
  torch.drop_kernel();  // torch.empty
  for (const Tensor& each : parts) assign(torch, base, each);
  return base;
}

std::int64_t scan_memory(std::int64_t items, std::int64_t tile, std::int64_t size) {
  constexpr std::int64_t kWarp = 32, kAlignment = 256;
  const std::int64_t states = ((items + tile - 1) / tile + kWarp) * 2 * size;
  return (states + kAlignment - 1) / kAlignment * kAlignment + 2 * kAlignment - 1;
}

Tensor gelu_bloom(Autograd& torch, const Tensor& x) {
  const auto node = torch.node({&x});
  Saved kept;
  if (node) kept = torch.save(x);
  Tensor result = bloom_forward(torch, x);
  if (node) {
    node->backward = [&torch, kept](Tensors& gradients) {
      const Tensor held = kept.get();
      return Tensors{bloom_backward(torch, held, gradients[0])};
    };
    torch.connect(result, node);
  }
  return result;
}

}  // namespace zplan::symbolic
