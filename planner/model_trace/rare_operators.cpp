// Operators that few architectures call: rare activations, embeddings and the memory of their backward, and
// what image-text models call. Source: torch 2.11
// aten/src/ATen/native/cuda/{Embedding,EmbeddingBackwardKernel}.cu; CCCL 3.0
// cub/device/dispatch/dispatch_{unique_by_key,scan}.cuh.

#include <algorithm>
#include <utility>

#include "planner/model_trace/operators.h"

namespace zplan::symbolic {

namespace {

/// A kernel of two operands of one layout.
Tensor like(Autograd& torch, const Tensor& x, const Tensor& y) {
  return torch.kernel({&x, &y}, elementwise({&x.layout}), x.type);
}

/// Runs a kernel of one operand.
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
  if (!node) return result;
  node->backward = [&torch, whole = x.layout.sizes](Tensors& gradients) {
    return Tensors{padded(torch, gradients[0], whole)};
  };
  return Autograd::connected(result, node);
}

Tensor index_one(Autograd& torch, const Tensor& x, std::size_t axis) {
  const auto node = torch.node({&x});
  const Tensor place = numbers(torch, {1}, DType::int64);
  Dimensions sizes = x.layout.sizes;
  sizes[axis] = 1;
  Tensor result = torch.make(Layout::contiguous(sizes), x.type);
  torch.read_only(result.bytes());
  if (!node) return result;
  node->backward = [&torch, kept = torch.save(place), whole = x.layout.sizes](Tensors& gradients) {
    const Tensor held = kept.get();
    Tensor gradient = torch.kernel({}, Layout::contiguous(whole), gradients[0].type);
    accumulate_rows(torch, 1, 1);
    torch.change(gradients[0], &gradients[0]);
    return Tensors{gradient};
  };
  return Autograd::connected(result, node);
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
  if (!node) return result;
  node->backward = [&torch](Tensors& gradients) {
    Tensor& given = gradients[0];
    return Tensors{given.layout.is_contiguous()
                       ? given
                       : torch.make(Layout::contiguous(given.layout.sizes), given.type)};
  };
  return Autograd::connected(result, node);
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
void assign_part(Autograd& torch, Tensor& base, const Tensor& part) {
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
  for (const Tensor& each : parts) assign_part(torch, base, each);
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
  if (!node) return result;
  node->backward = [&torch, kept](Tensors& gradients) {
    const Tensor held = kept.get();
    return Tensors{bloom_backward(torch, held, gradients[0])};
  };
  return Autograd::connected(result, node);
}

namespace {

Tensor numbers(Autograd& torch, std::int64_t count) {
  return torch.make(Layout::contiguous({count}), DType::int64);
}

Tensor bytes(Autograd& torch, std::int64_t count) {
  return torch.make(Layout::contiguous({count}), DType::uint8);
}

/// Tokens are sorted; rows of one token are summed ten at a time in fp32, then these sums.
Tensor gradient_by_sorting(Autograd& torch, std::int64_t tokens, const Tensor& weight, DType type) {
  constexpr std::int64_t kRowsPerThread = 10, kUniqueTile = 1792, kScanTile = 896;
  const std::int64_t width = weight.size(1), segments = std::min(tokens, weight.size(0));
  const Tensor sorted = numbers(torch, tokens), order = numbers(torch, tokens);
  {
    const Tensor range = numbers(torch, tokens);
    const Tensor memory = bytes(torch, radix_sort_memory(tokens, 64).value);
  }
  const Tensor result = torch.make(Layout::contiguous({weight.size(0), width}), type);
  const Tensor starts = numbers(torch, tokens), count = numbers(torch, 1);
  {
    const Tensor unique = numbers(torch, tokens);
    const Tensor memory = bytes(torch, scan_memory(tokens, kUniqueTile, 8));
  }
  const Tensor partials = numbers(torch, segments), offsets = numbers(torch, segments);
  { const Tensor memory = bytes(torch, scan_memory(segments, kScanTile, 8)); }
  const Tensor partial_count = numbers(torch, 1);
  const std::int64_t most = tokens / kRowsPerThread + segments;
  const Tensor partial_offsets = numbers(torch, most);
  const Tensor sums = torch.make(Layout::contiguous({most, width}), DType::fp32);
  return result;
}

}  // namespace

Tensor embedding_gradient(Autograd& torch, const Tensor& ids, const Tensor& table, const Tensor& gradient) {
  constexpr std::int64_t kUnsorted = 3072;  // up to here one kernel adds rows where they belong
  const DType type = gradient.type;
  if (ids.elements() > kUnsorted) return gradient_by_sorting(torch, ids.elements(), table, type);
  torch.change(gradient, &gradient);  // as many rows are read, added to and written
  return torch.make(Layout::contiguous(table.layout.sizes), type);
}

Tensor embedding(Autograd& torch, const Tensor& weight, const Tensor& ids) {
  const auto node = torch.node({&weight});
  Saved kept;
  if (node) kept = torch.save(ids);
  Dimensions sizes = ids.layout.sizes;
  sizes.push_back(weight.size(1));
  Tensor result = torch.make(Layout::contiguous(sizes), weight.type);
  torch.read_only(ids.bytes() + result.bytes());  // as many rows of the table
  if (!node) return result;
  node->backward = [&torch, kept, table = weight.detached()](Tensors& gradients) {
    return Tensors{embedding_gradient(torch, kept.get(), table, gradients[0])};
  };
  return Autograd::connected(result, node);
}

namespace {

Tensor kernel_result(Autograd& torch, const Dimensions& sizes, DType type) {
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
  return Autograd::connected(result, node);
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
  if (!node) return result;
  node->backward = [&torch, whole = x.layout.sizes, type = x.type](Tensors&) {
    return Tensors{torch.make(Layout::contiguous(whole), type)};
  };
  return Autograd::connected(result, node);
}

Tensor masked_scatter(Autograd& torch, const Tensor& x, const Tensor& mask, const Tensor& source) {
  const auto node = torch.node({&x, &source});
  Saved kept;
  if (node) kept = torch.save(mask);
  Tensor result = torch.kernel({&x}, Layout::contiguous(x.layout.sizes), x.type);
  {
    const Tensor sums = kernel_result(torch, x.layout.sizes, DType::int64);
    const Tensor wide = kernel_result(torch, x.layout.sizes, DType::boolean);
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
      const Tensor wide = kernel_result(torch, all, DType::boolean);
      places = kernel_result(torch, {static_cast<std::int64_t>(all.size()), count}, DType::int64);
    }
    outputs[1] = torch.kernel({&places}, Layout::contiguous(own), gradients[0].type);
    return outputs;
  };
  return Autograd::connected(result, node);
}

Tensor unfold(Autograd& torch, const Tensor& x, std::int64_t side) {
  const auto node = torch.node({&x});
  const std::int64_t squares = x.size(0) / (side * side), width = x.size(1) * side * side;
  Tensor result = torch.make(Layout::contiguous({width, squares}), x.type);
  { const Tensor copy = torch.kernel({&x}, Layout::contiguous(x.layout.sizes), x.type); }
  result.layout = result.layout.transposed(0, 1);
  if (!node) return result;
  node->backward = [&torch, whole = x.layout.sizes](Tensors& gradients) {
    const Tensor folded = torch.make(Layout::contiguous(whole), gradients[0].type);
    { const Tensor copy = torch.kernel({gradients.data()}, Layout::contiguous(whole), gradients[0].type); }
    return Tensors{folded};
  };
  return Autograd::connected(result, node);
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
    const Tensor places = kernel_result(torch, {2, rows}, DType::int64);
    const Tensor own = kernel_result(torch, features.layout.sizes, x.type);
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
      const Tensor zeros = kernel_result(torch, own, type);
      outputs[0] = torch.kernel({&incoming}, Layout::contiguous(incoming.layout.sizes), type);
    }
    // It waits for the tower's backward, which runs behind all layers.
    const auto stays = [&](DType in) {
      return torch.recorder().around_layers([&] { return kernel_result(torch, own, in); });
    };
    outputs[1] = casts ? kernel_result(torch, own, type) : stays(type);
    gradients[0] = {};
    {
      const Tensor of_rows = kernel_result(torch, outputs[0].layout.sizes, type);
      accumulate_rows(torch, rows, outputs[0].size(0) * outputs[0].size(1));
      torch.change(outputs[0], &of_rows);
    }
    if (casts) outputs[1] = stays(given);
    return outputs;
  };
  return Autograd::connected(result, node);
}

// Source: torch 2.11 aten/src/ATen/native/ReduceOps.cpp logsumexp_out_impl, FunctionsManual.cpp
// logsumexp_backward.
Tensor logsumexp(Autograd& torch, const Tensor& x, std::size_t axis) {
  const auto node = torch.node({&x});
  Dimensions sizes = x.layout.sizes;
  sizes.erase(sizes.begin() + static_cast<std::ptrdiff_t>(axis));
  const Layout reduced = Layout::contiguous(sizes);
  const Tensor result = torch.make(reduced, x.type);
  {
    const Tensor largest = torch.kernel({&x}, reduced, x.type);
    const Tensor difference = torch.kernel({&x, &largest}, Layout::contiguous(x.layout.sizes), x.type);
    torch.change(difference);
    torch.change(result, &difference);
  }
  if (!node) return result;
  node->backward = [&torch, kept = torch.save(x), sum = torch.save(result)](Tensors&) {
    const Tensor held = kept.get(), logarithm = sum.get();
    const Layout whole = Layout::contiguous(held.layout.sizes);
    const Tensor difference = torch.kernel({&held, &logarithm}, whole, held.type);
    const Tensor exponential = torch.kernel({&difference}, whole, held.type);
    return Tensors{torch.kernel({&exponential}, whole, held.type)};
  };
  return Autograd::connected(result, node);
}

Tensor average_pool(Autograd& torch, const Tensor& x, std::int64_t side) {
  const auto node = torch.node({&x});
  Saved kept;
  if (node) kept = torch.save(x);
  Tensor result = torch.make(Layout::contiguous({x.size(0), x.size(1), side, side}), x.type);
  if (!node) return result;
  node->backward = [&torch, kept](Tensors&) {
    const Tensor held = kept.get();
    return Tensors{torch.make(Layout::contiguous(held.layout.sizes), held.type)};
  };
  return Autograd::connected(result, node);
}

}  // namespace zplan::symbolic
