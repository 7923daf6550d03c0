#include <algorithm>

#include "planner/model_trace/operators.h"

namespace zplan::symbolic {

namespace {

/// Zeros of the whole, into which the gradient is scattered where `indices` say.
std::function<Tensors(Tensors&)> scatter_back(Autograd& torch, const Tensor& whole, const Tensor& indices) {
  return [&torch, kept = torch.save(indices), sizes = whole.layout.sizes](Tensors& gradients) {
    const Tensor held = kept.get();
    return Tensors{torch.make(Layout::contiguous(sizes), gradients[0].type)};
  };
}

/// The values that `choose` leaves of the last dimension, with the places they come from.
Chosen chosen(Autograd& torch, const Tensor& x, Layout layout) {
  const auto node = torch.node({&x});
  Chosen result{.values = torch.make(layout, x.type), .indices = torch.make(layout, DType::int64)};
  torch.end_kernel(1);
  if (node) {
    node->backward = scatter_back(torch, x, result.indices);
    torch.connect(result.values, node);
  }
  return result;
}

/// Bits of whole numbers below `end`.
int bits_below(std::int64_t end) {
  int bits = 1;
  for (std::int64_t highest = end - 1; highest > 1; highest /= 2) ++bits;
  return bits;
}

Tensor bytes(Autograd& torch, Bytes size) {
  return torch.make(Layout::contiguous({size.value}), DType::uint8);
}

}  // namespace

void accumulate_rows(Autograd& torch, std::int64_t rows, std::int64_t into) {
  torch.end_kernel();
  const Layout places_of = Layout::contiguous({rows});
  Tensor places;
  {
    const Tensor wrapped = torch.make(places_of, DType::int64);
    places = torch.make(places_of, DType::int64);
  }
  const Tensor sorted = torch.make(places_of, DType::int64);
  const Tensor order = torch.make(places_of, DType::int64);
  const Tensor range = torch.make(places_of, DType::int64);
  const Tensor memory = bytes(torch, radix_sort_memory(rows, bits_below(into)));
  torch.drop_kernel();  // places are few beside what stands there
}

Bytes radix_sort_memory(std::int64_t items, int bits) {
  constexpr std::int64_t kOneTile = 256 * 9, kTile = 384 * 10, kBins = 256, kAlignment = 256;
  if (items <= kOneTile) return Bytes(1);
  const auto aligned = [](std::int64_t n) { return divide_up(n, kAlignment) * kAlignment; };
  const std::int64_t passes = divide_up(bits, 8);
  const std::int64_t histograms = passes * kBins * 8, counters = passes * 4;
  const std::int64_t look_back = divide_up(items, kTile) * kBins * 4;
  const std::int64_t copies = passes > 1 ? 2 * aligned(items * 8) : 0;
  return Bytes(aligned(histograms) + aligned(look_back) + copies + aligned(counters) + kAlignment - 1);
}

Chosen topk(Autograd& torch, const Tensor& x, std::int64_t k) {
  return chosen(torch, x, Layout::contiguous(with_last(x.layout.sizes, k)));
}

Chosen max(Autograd& torch, const Tensor& x) {
  Dimensions sizes = x.layout.sizes;
  sizes.pop_back();
  return chosen(torch, x, Layout::contiguous(std::move(sizes)));
}

// Source: torch 2.11 aten/src/ATen/native/cuda/{Sort.cpp,SortStable.cu}: a bitonic sort of up to 4096 numbers
// with the indices written from a range, a radix sort of all 64 bits above.
Chosen sort(Autograd& torch, const Tensor& x) {
  constexpr std::int64_t kSmall = 4096;
  const std::int64_t n = x.elements();
  const Layout all = Layout::contiguous({n});
  torch.end_kernel();
  torch.issue(1);
  torch.read(x);
  Chosen result{.values = torch.make(all, x.type), .indices = torch.make(all, DType::int64)};
  torch.end_kernel(1);
  const Tensor range = torch.make(all, DType::int64);
  if (n > kSmall) const Tensor memory = bytes(torch, radix_sort_memory(n, 64));
  torch.drop_kernel();
  return result;
}

Tensor index(Autograd& torch, const Tensor& x, const Tensor& indices) {
  const auto node = torch.node({&x});
  Dimensions sizes = x.layout.sizes;
  sizes[0] = indices.elements();
  Saved kept;
  if (node) kept = torch.save(indices);
  Tensor result = torch.make(Layout::contiguous(sizes), x.type);
  torch.read_only(indices.bytes() + result.bytes());
  if (!node) return result;
  node->backward = [&torch, kept, whole = x.layout.sizes](Tensors& gradients) {
    const Tensor held = kept.get();
    Tensor gradient = torch.kernel({}, Layout::contiguous(whole), gradients[0].type);
    accumulate_rows(torch, held.elements(), whole[0]);
    torch.change(gradients[0], &gradients[0]);  // as many rows are read, added to and written
    return Tensors{gradient};
  };
  return Autograd::connected(result, node);
}

Tensor gather(Autograd& torch, const Tensor& x, const Tensor& indices) {
  const auto node = torch.node({&x});
  Tensor result = torch.make(Layout::contiguous(indices.layout.sizes), x.type);
  if (!node) return result;
  node->backward = scatter_back(torch, x, indices);
  return Autograd::connected(result, node);
}

Tensor masked_fill(Autograd& torch, const Tensor& x, const Tensor& mask) {
  const auto node = torch.node({&x});
  torch.read(mask);
  Saved kept;
  if (node) kept = torch.save(mask);
  Tensor result = like(torch, x);
  if (!node) return result;
  node->backward = [&torch, kept](Tensors& gradients) {
    const Tensor held = kept.get();
    return Tensors{like(torch, gradients[0])};
  };
  return Autograd::connected(result, node);
}

// Source: CCCL 3.0 cub/device/dispatch/dispatch_scan.cuh: states of one tile and of a warp's padding before
// it.
Tensor cumsum(Autograd& torch, const Tensor& x) {
  Tensor result = torch.operate({&x}, x.layout, x.type);
  const Tensor memory = bytes(torch, Bytes(1023));
  torch.drop_kernel();
  return result;
}

Tensor numbers(Autograd& torch, Dimensions sizes, DType type) {
  return torch.operate({}, Layout::contiguous(std::move(sizes)), type);
}

Tensor sum(Autograd& torch, const Tensor& x, std::size_t axis, bool keep) {
  const auto node = torch.node({&x});
  Dimensions sizes = x.layout.sizes;
  const auto at = sizes.begin() + static_cast<std::ptrdiff_t>(axis);
  if (keep)
    *at = 1;
  else
    sizes.erase(at);
  Tensor result = torch.make(Layout::contiguous(std::move(sizes)), x.type);
  if (!node) return result;
  node->backward = [axis, keep, whole = x.layout.sizes](Tensors& gradients) {
    Layout layout = gradients[0].layout;
    const auto place = static_cast<std::ptrdiff_t>(axis);
    if (!keep) layout.strides.insert(layout.strides.begin() + place, 0);
    layout.sizes = whole;
    layout.strides[axis] = 0;
    return Tensors{alias(gradients[0], std::move(layout))};
  };
  return Autograd::connected(result, node);
}

namespace {

// self: grad / other. other: −grad · ((self / other) / other), computed first.
std::function<Tensors(Tensors&)> divide_back(Autograd& torch, Node& itself, const Saved& a, const Saved& b) {
  return [&torch, &itself, a, b](Tensors& gradients) {
    const Tensor divisor = b.get(), dividend = itself.needs(1) ? a.get() : Tensor{};
    Tensors outputs(2);
    if (itself.needs(1)) {
      const Tensor once = elementwise_result(torch, dividend, divisor);
      const Tensor twice = elementwise_result(torch, once, divisor);
      const Tensor negative = like(torch, gradients[0]);
      outputs[1] = elementwise_result(torch, negative, twice);
    }
    if (itself.needs(0)) outputs[0] = elementwise_result(torch, gradients[0], divisor);
    return outputs;
  };
}

}  // namespace

Tensor div(Autograd& torch, const Tensor& a, const Tensor& b) {
  const auto node = torch.node({&a, &b});
  Saved kept_a, kept_b;
  if (node) {
    kept_b = torch.save(b);
    if (node->needs(1)) kept_a = torch.save(a);
  }
  Tensor result = elementwise_result(torch, a, b);
  if (!node) return result;
  node->backward = divide_back(torch, *node, kept_a, kept_b);
  return Autograd::connected(result, node);
}

void div_in_place(Autograd& torch, Tensor& a, const Tensor& b) {
  const auto node = torch.node({&a, &b});
  torch.change(a, &b);
  if (!node) return;
  Saved kept_a;
  const Saved kept_b = torch.save(b);
  if (node->needs(1)) kept_a = torch.save(like(torch, a));
  node->backward = divide_back(torch, *node, kept_a, kept_b);
  torch.connect(a, node);
}

void add_in_place(Autograd& torch, Tensor& a, const Tensor& b) {
  const auto node = torch.node({&a, &b});
  torch.change(a, &b);
  if (!node) return;
  node->backward = [&itself = *node](Tensors& gradients) {
    return Tensors{itself.needs(0) ? gradients[0] : Tensor{}, itself.needs(1) ? gradients[0] : Tensor{}};
  };
  torch.connect(a, node);
}

Tensor sigmoid(Autograd& torch, const Tensor& x) {
  const auto node = torch.node({&x});
  Tensor result = like(torch, x);
  if (!node) return result;
  node->backward = [&torch, kept = torch.save(result)](Tensors& gradients) {
    const Tensor held = kept.get();
    return Tensors{elementwise_result(torch, gradients[0], held)};
  };
  return Autograd::connected(result, node);
}

Tensor clamp(Autograd& torch, const Tensor& x, int sides) {
  const auto node = torch.node({&x});
  Saved kept;
  if (node) kept = torch.save(x);
  Tensor result = like(torch, x);
  if (!node) return result;
  // The gradient where x lies within, zero elsewhere.
  node->backward = [&torch, kept, sides](Tensors& gradients) {
    const Tensor held = kept.get();
    const Tensor zero = torch.kernel({}, Layout::contiguous({}), gradients[0].type);
    const auto bounded = [&] { return torch.kernel({&held}, elementwise({&held.layout}), DType::boolean); };
    const Tensor above = bounded();
    Tensor below;
    if (sides == 2) {
      below = bounded();
      torch.change(above, &below);
    }
    return Tensors{
        torch.kernel({&above, &gradients[0]}, elementwise({&gradients[0].layout}), gradients[0].type)};
  };
  return Autograd::connected(result, node);
}

Tensor strided(Autograd& torch, const Tensor& x, std::int64_t step) {
  const auto node = torch.node({&x});
  Layout layout = x.layout;
  layout.sizes.back() = divide_up(layout.sizes.back(), step);
  layout.strides.back() *= step;
  Tensor result = alias(x, std::move(layout));
  if (!node) return result;
  node->backward = [&torch, whole = x.layout.sizes](Tensors& gradients) {
    return Tensors{padded(torch, gradients[0], whole)};
  };
  return Autograd::connected(result, node);
}

namespace {

/// True if cuBLAS accepts a batch of matrices without a copy: rows or columns have no gaps. Source: torch
/// 2.11 aten/src/ATen/native/cuda/Blas.cpp prepare_batch_matrix_for_cublas.
bool suits_cublas(const Layout& x) {
  return (x.strides[2] == 1 && x.strides[1] >= x.sizes[2]) ||
         (x.strides[1] == 1 && x.strides[2] >= x.sizes[1]);
}

Tensor batched_product(Autograd& torch, const Tensor& left, const Tensor& right) {
  Tensor result = torch.make(Layout::contiguous({left.size(0), left.size(1), right.size(2)}), left.type);
  torch.drop_kernel();  // what is read and made is the product's
  for (const Tensor* each : {&left, &right})
    if (!suits_cublas(each->layout))
      const Tensor copy = torch.kernel({each}, Layout::contiguous(each->layout.sizes), each->type);
  torch.compute(product_of(left.size(1), left.size(2), right.size(2), left.type, left.size(0)));
  return result;
}

Tensor turned(const Tensor& x) { return alias(x, x.layout.transposed(1, 2)); }

}  // namespace

Tensor baddbmm(Autograd& torch, const Tensor& base, const Tensor& left, const Tensor& right) {
  const auto node = torch.node({&base, &left, &right});
  Saved kept_left, kept_right;
  if (node) kept_left = torch.save(left), kept_right = torch.save(right);
  Tensor result = batched_product(torch, left, right);
  torch.read(base);
  torch.write_only(result.bytes());  // what the product is added to is copied there
  if (!node) return result;
  node->backward = [&torch, &itself = *node, kept_left, kept_right](Tensors& gradients) {
    const Tensor held_left = kept_left.get(), held_right = kept_right.get();
    Tensors outputs(3);
    if (itself.needs(1)) {
      const Tensor product = batched_product(torch, gradients[0], turned(held_right));
      outputs[1] = torch.kernel({&product}, elementwise({&product.layout}), product.type);
    }
    if (itself.needs(2)) {
      const Tensor product = batched_product(torch, turned(held_left), gradients[0]);
      outputs[2] = torch.kernel({&product}, elementwise({&product.layout}), product.type);
    }
    return outputs;
  };
  return Autograd::connected(result, node);
}

namespace {

/// The products of the gradients of a product's factors.
Product of_first(Product product) {
  std::swap(product.inner, product.columns);
  return product;
}
Product of_second(Product product) {
  return {.batch = product.batch,
          .rows = product.inner,
          .inner = product.rows,
          .columns = product.columns,
          .element = product.element};
}

}  // namespace

Tensor grouped_mm(Autograd& torch, const Tensor& x, const Tensor& weights, const Tensor& offsets,
                  std::optional<std::int32_t> parameter) {
  const auto node = torch.node({&x, &weights});
  Saved kept_x, kept_weights, kept_offsets;
  if (node) {
    kept_offsets = torch.save(offsets);
    if (node->needs(1)) kept_x = torch.save(x);
    if (node->needs(0)) {
      Tensor view = weights;
      if (parameter && torch.keeps_saved()) view.storage = torch.recorder().keep_parameter(*parameter);
      kept_weights = torch.save(view);
    }
  }
  Tensor result = torch.make(Layout::contiguous({x.size(0), weights.size(2)}), x.type);
  const Product product = product_of(share(Elements(x.size(0)), weights.size(0)).value, x.size(1),
                                     weights.size(2), x.type, weights.size(0));
  torch.compute(product);
  if (!node) return result;
  node->backward = [&torch, &itself = *node, kept_x, kept_weights, kept_offsets, of_x = x.layout,
                    of_weights = weights.layout, product](Tensors& gradients) {
    const Tensor held_weights = kept_weights.get(), held_offsets = kept_offsets.get(), held_x = kept_x.get();
    Tensors outputs(2);
    if (itself.needs(1)) {
      outputs[1] = torch.make(of_weights, gradients[0].type);
      torch.compute(of_second(product));
    }
    if (itself.needs(0)) {
      outputs[0] = torch.make(of_x, gradients[0].type);
      torch.compute(of_first(product));
    }
    return outputs;
  };
  return Autograd::connected(result, node);
}

}  // namespace zplan::symbolic
