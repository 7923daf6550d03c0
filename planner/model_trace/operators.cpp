#include "planner/model_trace/operators.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <limits>
#include <numeric>
#include <stdexcept>
#include <utility>

namespace zplan::symbolic {

namespace {

/// Returns a view as the result of an operator without a kernel.
Tensor seen_as(Autograd& torch, const Tensor& x, Layout layout) {
  torch.drop_kernel();
  return alias(x, std::move(layout));
}

DType promote(DType a, DType b) {
  return a == DType::fp32 || b == DType::fp32 ? DType::fp32 : is_floating(a) ? a : b;
}

/// Gradient reshaped, copied where it must be.
Tensor reshaped(Autograd& torch, const Tensor& x, const Dimensions& sizes) {
  Layout layout = x.layout.viewed(sizes);
  if (!layout.sizes.empty() || sizes.empty()) return alias(x, std::move(layout));
  return torch.make(Layout::contiguous(sizes), x.type);
}

/// Kernels that reduce many rows into few sums pass partial sums through memory.
constexpr std::int64_t kThreadsPerMultiprocessor = 2048;

std::int64_t last_power_of_two(std::int64_t n) {
  std::int64_t power = 1;
  while (power * 2 <= n) power *= 2;
  return power;
}

struct ReductionMemory {
  std::int64_t partial_sums{}, semaphores{};
};

/// Memory of a sum over the outer dimensions of [inputs, outputs].
/// Source: torch 2.11 aten/src/ATen/native/cuda/Reduce.cuh setReduceConfig, global_memory_size.
ReductionMemory outer_reduction(std::int64_t outputs, std::int64_t inputs) {
  std::int64_t vector = 4;
  while (outputs % vector != 0) vector /= 2;
  constexpr std::int64_t kMaxThreads = 512, kWarp = 32, kMaxValues = 256, kMinValues = 16;
  const std::int64_t threads = kMaxThreads / vector;
  const std::int64_t dim0 = last_power_of_two(std::min(outputs / vector, threads));
  const std::int64_t dim1 = last_power_of_two(std::min(inputs, threads));
  std::int64_t width = std::min(dim0, kWarp);
  const std::int64_t height = std::min(dim1, threads / width);
  width = std::min(dim0, threads / height);
  std::int64_t values = inputs;
  std::int64_t step_output = width;
  if (values < std::min(height * 16, kMaxValues)) return {};  // each warp sums on its own
  values = divide_up(inputs, height);
  const std::int64_t grid = divide_up(outputs / vector, step_output);
  const std::int64_t target = kMultiprocessors * (kThreadsPerMultiprocessor / (width * height));
  if (values < kMaxValues || grid > target) return {};
  const std::int64_t blocks = std::max(std::min(divide_up(target, grid), divide_up(values, kMinValues)),
                                       divide_up(values, kMaxValues));
  if (blocks <= 1) return {};
  return {4 * outputs * blocks * width * vector, 4 * grid};
}

/// A sum of `inputs` rows into `outputs` columns.
void reduce_rows(Autograd& torch, std::int64_t outputs, std::int64_t inputs) {
  const ReductionMemory memory = outer_reduction(outputs, inputs);
  if (memory.partial_sums == 0) return;
  const Tensor sums = torch.make(Layout::contiguous({memory.partial_sums}), DType::uint8);
  const Tensor semaphores = torch.make(Layout::contiguous({memory.semaphores}), DType::uint8);
  torch.drop_kernel();  // of that memory little is written
}

/// Partial results of a reduction of all `inputs` elements to one: of as many thread blocks as run at once.
std::int64_t blocks_of_whole_reduction(std::int64_t inputs) {
  constexpr std::int64_t kThreads = 512, kMinValues = 16, kMaxValues = 256;
  const std::int64_t values = divide_up(inputs, kThreads);
  if (values < kMaxValues) return 1;
  const std::int64_t target = kMultiprocessors * (kThreadsPerMultiprocessor / kThreads);
  return std::max(std::min(target, divide_up(values, kMinValues)), divide_up(values, kMaxValues));
}

/// Keeps says what an operation saves for its backward.
enum class Keeps { nothing, input, result };

/// Records an operation whose gradient is one new tensor of the gradient's own layout.
Tensor unary(Autograd& torch, const Tensor& x, Keeps keeps) {
  const auto node = torch.node({&x});
  Saved kept;
  if (node && keeps == Keeps::input) kept = torch.save(x);
  Tensor result = like(torch, x);
  if (!node) return result;
  if (keeps == Keeps::result) kept = torch.save(result);
  node->backward = [&torch, kept](Tensors& gradients) {
    const Tensor held = kept.get();
    return Tensors{like(torch, gradients[0])};
  };
  return Autograd::connected(result, node);
}

/// Records a copy of x in another layout, whose gradient is passed on as it is.
Tensor copied(Autograd& torch, const Tensor& x, Layout layout) {
  const auto node = torch.node({&x});
  Tensor result = torch.make(std::move(layout), x.type);
  if (!node) return result;
  node->backward = [](Tensors& gradients) { return Tensors{gradients[0]}; };
  return Autograd::connected(result, node);
}

}  // namespace

std::vector<std::int64_t> chunks(std::int64_t length, std::int64_t count) {
  const std::int64_t each = divide_up(length, std::max<std::int64_t>(count, 1));
  std::vector<std::int64_t> lengths;
  for (std::int64_t done = 0; done < length; done += each) lengths.push_back(std::min(each, length - done));
  return lengths;
}

Tensor of_batch(Dimensions sizes, DType type) {
  Tensor given;
  given.type = type;
  given.layout = Layout::contiguous(std::move(sizes));
  return given;
}

Tensor alias(const Tensor& x, Layout layout) {
  Tensor result = x.detached();
  result.layout = std::move(layout);
  result.view = true;
  return result;
}

Tensor fresh(Autograd& torch, Dimensions sizes, DType type) {
  return torch.make(Layout::contiguous(std::move(sizes)), type);
}

Tensor elementwise_result(Autograd& torch, const Tensor& a, const Tensor& b) {
  return torch.make(elementwise({&a.layout, &b.layout}), promote(a.type, b.type));
}

Tensor like(Autograd& torch, const Tensor& x) { return torch.make(elementwise({&x.layout}), x.type); }

Tensor sum_to(Autograd& torch, const Tensor& x, const Dimensions& sizes) {
  const std::size_t missing = x.layout.rank() - sizes.size();
  std::int64_t outer = 1, outputs = 1;
  // Sums along the dimension that moves fastest stay within a block of threads.
  constexpr std::int64_t kNone = std::numeric_limits<std::int64_t>::max();
  std::int64_t fastest_reduced = kNone, fastest_kept = kNone;
  Dimensions kept(x.layout.rank(), 1);
  for (std::size_t i = 0; i < x.layout.rank(); ++i) {
    const bool reduced = i < missing || (sizes[i - missing] == 1 && x.layout.sizes[i] != 1);
    if (x.layout.sizes[i] != 1) {
      std::int64_t& fastest = reduced ? fastest_reduced : fastest_kept;
      fastest = std::min(fastest, x.layout.strides[i]);
    }
    if (reduced)
      outer *= x.layout.sizes[i];
    else
      kept[i] = x.layout.sizes[i], outputs *= kept[i];
  }
  if (outer == 1) return alias(x, Layout::contiguous(sizes));
  Tensor result = torch.kernel({&x}, Layout::contiguous(kept), x.type);
  if (fastest_kept < fastest_reduced) reduce_rows(torch, outputs, outer);
  if (missing > 0) result.layout = Layout::contiguous(sizes);
  return result;
}

Tensor view(Autograd& torch, const Tensor& x, Dimensions sizes) {
  const auto node = torch.node({&x});
  Layout layout = x.layout.viewed(sizes);
  if (!sizes.empty() && layout.sizes.empty())
    throw std::logic_error(fmt::format("a view as [{}] of [{}] with strides [{}]", fmt::join(sizes, ", "),
                                       fmt::join(x.layout.sizes, ", "), fmt::join(x.layout.strides, ", ")));
  Tensor result = seen_as(torch, x, std::move(layout));
  if (!node) return result;
  node->backward = [&torch, from = x.layout.sizes](Tensors& gradients) {
    return Tensors{reshaped(torch, gradients[0], from)};
  };
  return Autograd::connected(result, node);
}

Tensor reshape(Autograd& torch, const Tensor& x, Dimensions sizes) {
  if (!x.layout.viewed(sizes).sizes.empty()) return view(torch, x, std::move(sizes));
  const Tensor copy = contiguous(torch, x);
  Tensor result = view(torch, copy, std::move(sizes));
  result.view = false;
  return result;
}

Tensor transpose(Autograd& torch, const Tensor& x, std::size_t a, std::size_t b) {
  const auto node = torch.node({&x});
  Tensor result = seen_as(torch, x, x.layout.transposed(a, b));
  if (!node) return result;
  node->backward = [a, b](Tensors& gradients) {
    return Tensors{alias(gradients[0], gradients[0].layout.transposed(a, b))};
  };
  return Autograd::connected(result, node);
}

namespace {

Layout permuted(const Layout& layout, const std::vector<std::size_t>& order) {
  Layout result;
  for (const std::size_t each : order) {
    result.sizes.push_back(layout.sizes[each]);
    result.strides.push_back(layout.strides[each]);
  }
  return result;
}

}  // namespace

Tensor permute(Autograd& torch, const Tensor& x, const std::vector<std::size_t>& order) {
  const auto node = torch.node({&x});
  Tensor result = seen_as(torch, x, permuted(x.layout, order));
  if (!node) return result;
  std::vector<std::size_t> back(order.size());
  for (std::size_t i = 0; i < order.size(); ++i) back[order[i]] = i;
  node->backward = [back = std::move(back)](Tensors& gradients) {
    return Tensors{alias(gradients[0], permuted(gradients[0].layout, back))};
  };
  return Autograd::connected(result, node);
}

Tensor padded(Autograd& torch, const Tensor& part, const Dimensions& whole) {
  Tensor result = torch.kernel({}, Layout::contiguous(whole), part.type);
  torch.copy(part);
  return result;
}

Tensor slice(Autograd& torch, const Tensor& x, std::size_t axis, std::int64_t length) {
  if (length == x.size(axis)) return view(torch, x, x.layout.sizes);
  const auto node = torch.node({&x});
  Tensor result = seen_as(torch, x, x.layout.narrowed(axis, length));
  if (!node) return result;
  node->backward = [&torch, whole = x.layout.sizes](Tensors& gradients) {
    return Tensors{padded(torch, gradients[0], whole)};
  };
  return Autograd::connected(result, node);
}

namespace {

/// True if the second of four dimensions moves fastest.
bool is_channels_last(const Tensor& x) {
  if (!x.defined() || x.layout.rank() != 4 || x.layout.is_contiguous()) return false;
  const Dimensions& n = x.layout.sizes;
  return x.layout.strides == Dimensions{n[1] * n[2] * n[3], 1, n[3] * n[1], n[1]};
}

/// Returns the layout of torch.cat's result. Source: torch 2.11 aten/src/ATen/native/TensorShape.cpp
/// cat_compute_output_memory_format.
Layout joined(const Tensors& parts, const Dimensions& whole) {
  if (!std::all_of(parts.begin(), parts.end(), is_channels_last)) return Layout::contiguous(whole);
  Layout layout = Layout::contiguous({whole[0], whole[2], whole[3], whole[1]});
  return {whole, {layout.strides[0], layout.strides[3], layout.strides[1], layout.strides[2]}};
}

}  // namespace

Tensors split(Autograd& torch, const Tensor& x, std::size_t axis, const std::vector<std::int64_t>& lengths) {
  const auto node = torch.node({&x});
  Tensors results;
  for (std::size_t i = 0; i < lengths.size(); ++i) {
    results.push_back(seen_as(torch, x, x.layout.narrowed(axis, lengths[i])));
    if (node) torch.connect(results.back(), node, i);
  }
  if (node)
    node->backward = [&torch, whole = x.layout.sizes, type = x.type](Tensors& gradients) {
      return Tensors{torch.make(joined(gradients, whole), type)};
    };
  return results;
}

Tensor unsqueeze(Autograd& torch, const Tensor& x, std::size_t axis) {
  Layout layout = x.layout;
  const auto at = static_cast<std::ptrdiff_t>(axis);
  layout.strides.insert(layout.strides.begin() + at,
                        axis < layout.rank() ? layout.sizes[axis] * layout.strides[axis] : 1);
  layout.sizes.insert(layout.sizes.begin() + at, 1);
  const auto node = torch.node({&x});
  Tensor result = seen_as(torch, x, std::move(layout));
  if (!node) return result;
  node->backward = [axis](Tensors& gradients) {
    Layout squeezed = gradients[0].layout;
    squeezed.sizes.erase(squeezed.sizes.begin() + static_cast<std::ptrdiff_t>(axis));
    squeezed.strides.erase(squeezed.strides.begin() + static_cast<std::ptrdiff_t>(axis));
    return Tensors{alias(gradients[0], std::move(squeezed))};
  };
  return Autograd::connected(result, node);
}

Tensor expand(Autograd& torch, const Tensor& x, Dimensions sizes) {
  const auto node = torch.node({&x});
  Layout layout = x.layout;
  for (std::size_t i = 0; i < sizes.size(); ++i)
    if (layout.sizes[i] != sizes[i]) layout.sizes[i] = sizes[i], layout.strides[i] = 0;
  Tensor result = seen_as(torch, x, std::move(layout));
  if (!node) return result;
  node->backward = [&torch, from = x.layout.sizes](Tensors& gradients) {
    return Tensors{sum_to(torch, gradients[0], from)};
  };
  return Autograd::connected(result, node);
}

Tensor contiguous(Autograd& torch, const Tensor& x) {
  return x.layout.is_contiguous() ? x : copied(torch, x, Layout::contiguous(x.layout.sizes));
}

Tensor clone(Autograd& torch, const Tensor& x) { return copied(torch, x, elementwise({&x.layout})); }

Tensor to(Autograd& torch, const Tensor& x, DType type) {
  if (x.type == type) return x;
  const auto node = torch.node({&x});
  Tensor result = torch.make(elementwise({&x.layout}), type);
  if (!node) return result;
  node->backward = [&torch, from = x.type](Tensors& gradients) {
    if (gradients[0].type == from) return Tensors{gradients[0]};
    return Tensors{torch.make(elementwise({&gradients[0].layout}), from)};
  };
  return Autograd::connected(result, node);
}

Tensor moved(Autograd& torch, const Tensor& x, const std::function<Tensor(const Tensor&)>& forward,
             const std::function<Tensor(const Tensor&)>& backward) {
  const auto node = torch.node({&x});
  Tensor result = forward(x);
  if (!node) return result;
  node->backward = [backward](Tensors& gradients) { return Tensors{backward(gradients[0])}; };
  return Autograd::connected(result, node);
}

Tensor cat(Autograd& torch, const Tensors& parts, std::size_t axis) {
  std::vector<const Tensor*> inputs;
  Dimensions sizes = parts[0].layout.sizes;
  std::vector<std::int64_t> lengths;
  sizes[axis] = 0;
  DType type = parts[0].type;
  for (const Tensor& each : parts) {
    inputs.push_back(&each);
    sizes[axis] += each.size(axis);
    lengths.push_back(each.size(axis));
    type = promote(type, each.type);
  }
  const auto node = torch.node(inputs);
  Tensor result = torch.make(Layout::contiguous(sizes), type);
  if (!node) return result;
  node->backward = [axis, lengths](Tensors& gradients) {
    Tensors narrowed;
    for (const std::int64_t length : lengths)
      narrowed.push_back(alias(gradients[0], gradients[0].layout.narrowed(axis, length)));
    return narrowed;
  };
  return Autograd::connected(result, node);
}

Tensor add(Autograd& torch, const Tensor& a, const Tensor& b) {
  const auto node = torch.node({&a, &b});
  Tensor result = elementwise_result(torch, a, b);
  if (!node) return result;
  node->backward = [&itself = *node](Tensors& gradients) {
    return Tensors{itself.needs(0) ? gradients[0] : Tensor{}, itself.needs(1) ? gradients[0] : Tensor{}};
  };
  return Autograd::connected(result, node);
}

Tensor sub(Autograd& torch, const Tensor& a, const Tensor& b) {
  const auto node = torch.node({&a, &b});
  Tensor result = elementwise_result(torch, a, b);
  if (!node) return result;
  node->backward = [&torch, &itself = *node](Tensors& gradients) {
    Tensors outputs(2);
    if (itself.needs(1)) outputs[1] = like(torch, gradients[0]);
    if (itself.needs(0)) outputs[0] = gradients[0];
    return outputs;
  };
  return Autograd::connected(result, node);
}

Tensor mul(Autograd& torch, const Tensor& a, const Tensor& b) {
  const auto node = torch.node({&a, &b});
  Saved kept_a, kept_b;
  if (node) {
    if (node->needs(0)) kept_b = torch.save(b);
    if (node->needs(1)) kept_a = torch.save(a);
  }
  Tensor result = elementwise_result(torch, a, b);
  if (!node) return result;
  node->backward = [&torch, &itself = *node, kept_a, kept_b](Tensors& gradients) {
    const Tensor held_b = itself.needs(0) ? kept_b.get() : Tensor{};
    const Tensor held_a = itself.needs(1) ? kept_a.get() : Tensor{};
    if (itself.needs(0) && itself.needs(1)) torch.read(gradients[0]);
    Tensors outputs(2);
    if (itself.needs(1)) outputs[1] = elementwise_result(torch, gradients[0], held_a);
    if (itself.needs(0)) outputs[0] = elementwise_result(torch, gradients[0], held_b);
    return outputs;
  };
  return Autograd::connected(result, node);
}

Tensor scale(Autograd& torch, const Tensor& x) { return unary(torch, x, Keeps::nothing); }

Tensor add_number(Autograd& torch, const Tensor& x) { return copied(torch, x, elementwise({&x.layout})); }
Tensor neg(Autograd& torch, const Tensor& x) { return unary(torch, x, Keeps::nothing); }
Tensor relu(Autograd& torch, const Tensor& x) { return unary(torch, x, Keeps::result); }
Tensor tanh(Autograd& torch, const Tensor& x) { return unary(torch, x, Keeps::result); }
Tensor silu(Autograd& torch, const Tensor& x) { return unary(torch, x, Keeps::input); }
Tensor softplus(Autograd& torch, const Tensor& x) { return unary(torch, x, Keeps::input); }
Tensor exp(Autograd& torch, const Tensor& x) { return unary(torch, x, Keeps::result); }
Tensor gelu(Autograd& torch, const Tensor& x) { return unary(torch, x, Keeps::input); }

Tensor pow(Autograd& torch, const Tensor& given) {
  const Tensor x = torch.autocast().wide(torch, given);
  const auto node = torch.node({&x});
  Saved kept;
  if (node) kept = torch.save(x);
  Tensor result = like(torch, x);
  if (!node) return result;
  // grad * (exponent * self.pow(exponent − 1))
  node->backward = [&torch, kept](Tensors& gradients) {
    const Tensor held = kept.get();
    const Tensor power = like(torch, held);
    const Tensor scaled = like(torch, held);
    torch.read(power), torch.read(scaled);
    return Tensors{elementwise_result(torch, gradients[0], scaled)};
  };
  return Autograd::connected(result, node);
}

Tensor rsqrt(Autograd& torch, const Tensor& given) {
  const Tensor x = torch.autocast().wide(torch, given);
  const auto node = torch.node({&x});
  Tensor result = like(torch, x);
  if (!node) return result;
  // −0.5 * grad * result.pow(3)
  node->backward = [&torch, kept = torch.save(result)](Tensors& gradients) {
    const Tensor held = kept.get();
    const Tensor power = like(torch, held);
    const Tensor scaled = like(torch, gradients[0]);
    torch.read(power), torch.read(scaled);
    return Tensors{elementwise_result(torch, scaled, power)};
  };
  return Autograd::connected(result, node);
}

Tensor dropout(Autograd& torch, const Tensor& x) {
  const auto node = torch.node({&x});
  const Tensor mask = torch.make(elementwise({&x.layout}), DType::boolean);
  Tensor result = like(torch, x);
  torch.end_kernel(1);
  if (!node) return result;
  node->backward = [&torch, kept = torch.save(mask)](Tensors& gradients) {
    const Tensor held = kept.get();
    return Tensors{elementwise_result(torch, gradients[0], held)};
  };
  return Autograd::connected(result, node);
}

Tensor mean(Autograd& torch, const Tensor& x) {
  const auto node = torch.node({&x});
  Tensor result = fresh(torch, with_last(x.layout.sizes, 1), x.type);
  if (!node) return result;
  // The gradient is expanded, a view, and divided by the size.
  node->backward = [&torch, whole = x.layout.sizes](Tensors& gradients) {
    return Tensors{torch.make(Layout::contiguous(whole), gradients[0].type)};
  };
  return Autograd::connected(result, node);
}

void any(Autograd& torch, std::int64_t elements) {
  const Tensor result = torch.operate({}, Layout::contiguous({}), DType::boolean);
  const std::int64_t blocks = blocks_of_whole_reduction(elements);
  if (blocks == 1) return;
  const Tensor partial = torch.make(Layout::contiguous({blocks}), DType::boolean);
  const Tensor semaphore = torch.make(Layout::contiguous({}), DType::int32);
  torch.drop_kernel();
}

// A bf16 input is cast first: only fp16 has a kernel that widens as it goes. The backward multiplies gradient
// and result in memory of its own. Source: torch 2.11 aten/src/ATen/native/SoftMax.cpp softmax,
// native/cuda/SoftMax.cu softmax_backward_cuda_out.
Tensor softmax(Autograd& torch, const Tensor& given, DType type) {
  if (torch.autocast().enabled()) type = DType::fp32;
  const Tensor x = to(torch, given, type);
  const auto node = torch.node({&x});
  Tensor result = torch.make(Layout::contiguous(x.layout.sizes), type);
  if (!node) return result;
  node->backward = [&torch, kept = torch.save(result)](Tensors&) {
    const Tensor held = kept.get();
    Tensor gradient = torch.make(Layout::contiguous(held.layout.sizes), held.type);
    const Tensor product = torch.make(Layout::contiguous(held.layout.sizes), held.type);
    torch.read(held), torch.read(product);
    return Tensors{gradient};
  };
  return Autograd::connected(result, node);
}

Tensor layer_norm(Autograd& torch, const Tensor& given, const Tensor* weight, const Tensor* bias) {
  const Tensor none;
  const Tensor b = torch.autocast().wide(torch, bias != nullptr ? *bias : none);
  const Tensor w = torch.autocast().wide(torch, weight != nullptr ? *weight : none);
  const Tensor x = torch.autocast().wide(torch, given);
  const auto node = torch.node({&x, &w, &b});
  Saved kept, kept_weight, kept_bias;
  if (node) kept = torch.save(x), kept_weight = torch.save(w), kept_bias = torch.save(b);
  const auto in_order = [&torch](const Tensor& any) {
    if (any.layout.is_contiguous()) return any;
    const Tensor copy = torch.make(Layout::contiguous(any.layout.sizes), any.type);
    torch.read(copy);
    return copy;
  };
  const Tensor ordered = in_order(x);
  Dimensions rows = x.layout.sizes;
  rows.back() = 1;
  Tensor result = torch.make(Layout::contiguous(x.layout.sizes), x.type);
  const Tensor mean = torch.make(Layout::contiguous(rows), DType::fp32);
  const Tensor deviation = torch.make(Layout::contiguous(rows), DType::fp32);
  torch.end_kernel(1);
  if (!node) return result;
  node->backward = [&torch, &itself = *node, in_order, kept, kept_weight, kept_bias, means = torch.save(mean),
                    deviations = torch.save(deviation)](Tensors& gradients) {
    const Tensor w0 = kept_weight.get(), b0 = kept_bias.get();
    const Tensor x0 = kept.get(), mean0 = means.get(), deviation0 = deviations.get();
    const Tensor ordered_x = in_order(x0), ordered_gradient = in_order(gradients[0]);
    // The gradients of the input and of the weights are kernels of their own.
    const bool trains = itself.needs(1) || itself.needs(2);
    if (itself.needs(0) && trains) torch.read(x0), torch.read(gradients[0]);
    Tensors outputs(3);
    if (itself.needs(0)) outputs[0] = torch.make(Layout::contiguous(x0.layout.sizes), x0.type);
    for (std::size_t i = 1; i < 3; ++i)
      if (itself.needs(i))
        outputs[i] = torch.make(Layout::contiguous({x0.layout.sizes.back()}), gradients[0].type);
    torch.end_kernel(itself.needs(0) && trains ? 2 : 1);
    return outputs;
  };
  return Autograd::connected(result, node);
}

Product product_of(std::int64_t rows, std::int64_t inner, std::int64_t columns, DType type,
                   std::int64_t batch) {
  return {.batch = batch, .rows = rows, .inner = inner, .columns = columns, .element = Bytes(size_of(type))};
}

namespace {

/// Returns an operand of a product in 8 bits. An eager cast finds the largest magnitude, scales in fp32 and
/// clamps; one of Inductor's kernels finds it, another writes the result. Source: torchao 0.18
/// float8/float8_scaling_utils.py hp_tensor_to_float8_dynamic, float8_utils.py to_fp8_saturated.
Tensor in_8_bits(Autograd& torch, const Tensor& x) {
  const Layout layout = elementwise({&x.layout});
  if (torch.float8->fused) {
    torch.read(x), torch.end_kernel(1);
    return torch.operate({&x}, layout, DType::uint8);
  }
  { const Tensor magnitudes = torch.operate({&x}, layout, x.type); }
  Tensor scaled;
  {
    const Tensor wide = torch.operate({&x}, layout, DType::fp32);
    scaled = torch.operate({&wide}, layout, DType::fp32);
  }
  const Tensor clamped = torch.operate({&scaled}, layout, DType::fp32);
  return torch.operate({&clamped}, layout, DType::uint8);
}

/// True where products run in 8 bits: inside of decoder layers.
bool runs_in_8_bits(Autograd& torch) {
  return torch.float8 && torch.recorder().current() != Recorder::kModel;
}

/// Casts both operands where the product runs in 8 bits; returns the type that it runs in.
DType cast_operands(Autograd& torch, bool in_8, Tensor& a, Tensor& b) {
  if (!in_8) return a.type;
  a = in_8_bits(torch, a), b = in_8_bits(torch, b);
  return DType::uint8;
}

/// [T, in] × [in, out], with a bias as addmm. The weight's gradient is computed before the input's in mm,
/// after it in addmm: derivatives run in the alphabetical order of their arguments' names.
Tensor matrix_product(Autograd& torch, const Tensor& x, const Tensor& weight, const Tensor* bias) {
  const Tensor none;
  const Tensor& b = bias != nullptr ? *bias : none;
  const auto node = torch.node({&x, &weight, &b});
  const bool in_8 = runs_in_8_bits(torch);
  Saved kept_x, kept_weight, kept_narrow;
  if (node) {
    if (node->needs(1)) kept_x = torch.save(x);
    if (node->needs(0)) kept_weight = torch.save(weight);
  }
  if (node && in_8 && torch.float8->keeps_weights)
    kept_narrow = torch.save(torch.operate({}, weight.layout, DType::uint8));
  Tensor result = torch.expensive(
      [&] {
        Tensor left = x, right = weight;
        const DType type = cast_operands(torch, in_8, left, right);
        Tensor made = torch.make(Layout::contiguous({x.size(0), weight.size(1)}), x.type);
        torch.multiply(bias != nullptr, product_of(x.size(0), x.size(1), weight.size(1), type));
        return made;
      },
      true);
  if (!node) return result;
  node->backward = [&torch, &itself = *node, kept_x, kept_weight, kept_narrow, in_8, biased = bias != nullptr,
                    turned = !weight.layout.is_contiguous(), rows = x.size(0), in = x.size(1),
                    out = weight.size(1)](Tensors& gradients) {
    const Tensor held_weight = kept_weight.get(), held_x = kept_x.get();
    const DType type = gradients[0].type;
    Tensors outputs(3);
    const auto input = [&] {
      if (!itself.needs(0)) return;
      Tensor left = gradients[0].detached(), right = held_weight;
      const DType by = cast_operands(torch, in_8, left, right);
      outputs[0] = torch.make(Layout::contiguous({rows, in}), type);
      torch.multiply(false, product_of(rows, out, in, by));
    };
    if (biased) input();
    if (itself.needs(1)) {
      Tensor left = held_x, right = gradients[0].detached();
      const DType by = cast_operands(torch, in_8, left, right);
      outputs[1] = torch.make(Layout::contiguous(turned ? Dimensions{out, in} : Dimensions{in, out}), type);
      if (turned) outputs[1].layout = outputs[1].layout.transposed(0, 1);
      torch.multiply(false, product_of(in, rows, out, by));
    }
    if (!biased) input();
    if (itself.needs(2)) outputs[2] = gradients[0];
    return outputs;
  };
  return Autograd::connected(result, node);
}

}  // namespace

Tensor linear(Autograd& torch, const Tensor& given, const Tensor& given_weight, const Tensor* given_bias) {
  if (torch.gathers_parameters()) return linear_of_partitioned(torch, given, given_weight, given_bias);
  return plain_linear(torch, given, given_weight, given_bias);
}

Tensor plain_linear(Autograd& torch, const Tensor& given, const Tensor& given_weight,
                    const Tensor* given_bias) {
  Autocast& autocast = torch.autocast();
  const Tensor narrow_bias = given_bias != nullptr ? autocast.narrow(torch, *given_bias) : Tensor{};
  const Tensor* bias = given_bias != nullptr ? &narrow_bias : nullptr;
  const Tensor weight = autocast.narrow(torch, given_weight);
  const Tensor x = autocast.narrow(torch, given);
  const Tensor turned = transpose(torch, weight, 0, 1);
  const std::int64_t in = x.layout.sizes.back();
  if (x.layout.rank() == 2) return matrix_product(torch, x, turned, bias);
  const Tensor rows = reshape(torch, x, {x.elements() / in, in});
  const Tensor product = matrix_product(torch, rows, turned, bias);
  Tensor result = view(torch, product, with_last(x.layout.sizes, weight.size(0)));
  result.view = bias != nullptr;
  return result;
}

Tensor conv1d(Autograd& torch, const Tensor& x, const Tensor& weight, const Tensor& bias) {
  const Tensor flat = view(torch, x, {x.elements() / x.layout.sizes.back(), x.layout.sizes.back()});
  Autocast& autocast = torch.autocast();
  const Tensor factor = autocast.narrow(torch, weight);
  const Tensor rows = autocast.narrow(torch, flat);
  const Tensor addend = autocast.narrow(torch, bias);
  const Tensor product = matrix_product(torch, rows, factor, &addend);
  return view(torch, product, with_last(x.layout.sizes, weight.size(1)));
}

Tensor matmul(Autograd& torch, const Tensor& given_a, const Tensor& given_b) {
  const Tensor b = torch.autocast().narrow(torch, given_b);
  const Tensor a = torch.autocast().narrow(torch, given_a);
  const std::int64_t batch = a.size(0) * a.size(1), m = a.size(2), k = a.size(3), n = b.size(3);
  const Tensor left = reshape(torch, expand(torch, a, a.layout.sizes), {batch, m, k});
  const Tensor right = reshape(torch, expand(torch, b, b.layout.sizes), {batch, k, n});
  const auto node = torch.node({&left, &right});
  Saved kept_left, kept_right;
  if (node) {
    if (node->needs(1)) kept_left = torch.save(left);
    if (node->needs(0)) kept_right = torch.save(right);
  }
  Tensor product = torch.make(Layout::contiguous({batch, m, n}), a.type);
  torch.multiply(false, product_of(m, k, n, a.type, batch));
  if (node) {
    node->backward = [&torch, &itself = *node, kept_left, kept_right, batch, m, k, n,
                      type = a.type](Tensors&) {
      const Tensor held_right = itself.needs(0) ? kept_right.get() : Tensor{};
      const Tensor held_left = itself.needs(1) ? kept_left.get() : Tensor{};
      Tensors outputs(2);
      if (itself.needs(1)) {
        torch.multiply(false, product_of(k, m, n, type, batch));
        outputs[1] = torch.make(Layout::contiguous({batch, k, n}), type);
      }
      if (itself.needs(0)) {
        torch.multiply(false, product_of(m, n, k, type, batch));
        outputs[0] = torch.make(Layout::contiguous({batch, m, k}), type);
      }
      torch.drop_kernel();
      return outputs;
    };
    torch.connect(product, node);
  }
  Tensor result = view(torch, product, {a.size(0), a.size(1), m, n});
  result.view = false;
  return result;
}

Tensor log_softmax(Autograd& torch, const Tensor& x) {
  const auto node = torch.node({&x});
  Tensor result = torch.make(Layout::contiguous(x.layout.sizes), x.type);
  if (!node) return result;
  node->backward = [&torch, kept = torch.save(result)](Tensors&) {
    const Tensor held = kept.get();
    return Tensors{torch.make(held.layout, held.type)};
  };
  return Autograd::connected(result, node);
}

Tensor gather_one(Autograd& torch, const Tensor& x) {
  const auto node = torch.node({&x});
  Tensor result = fresh(torch, with_last(x.layout.sizes, 1), x.type);
  torch.read_only(result.bytes());
  if (!node) return result;
  // x is kept for its sizes alone.
  node->backward = [&torch, whole = x.layout.sizes, kept = torch.save(x)](Tensors& gradients) {
    static_cast<void>(kept);
    return Tensors{torch.make(Layout::contiguous(whole), gradients[0].type)};
  };
  return Autograd::connected(result, node);
}

Tensor sum_last(Autograd& torch, const Tensor& x) {
  const auto node = torch.node({&x});
  Dimensions sizes = x.layout.sizes;
  sizes.pop_back();
  Tensor result = torch.make(Layout::contiguous(std::move(sizes)), x.type);
  if (!node) return result;
  node->backward = [whole = x.layout.sizes](Tensors& gradients) {
    Layout spread = gradients[0].layout;
    spread.sizes.push_back(whole.back()), spread.strides.push_back(0);
    return Tensors{alias(gradients[0], std::move(spread))};
  };
  return Autograd::connected(result, node);
}

Tensor div_by_constant(Autograd& torch, const Tensor& a, const Tensor& b) {
  const auto node = torch.node({&a});
  Tensor result = like(torch, a);
  if (!node) return result;
  node->backward = [&torch, kept = torch.save(b)](Tensors& gradients) {
    const Tensor held = kept.get();
    return Tensors{like(torch, gradients[0])};
  };
  return Autograd::connected(result, node);
}

Tensor cross_entropy(Autograd& torch, const Tensor& logits, const Tensor& labels) {
  const Tensor logarithms = log_softmax(torch, logits);
  const auto node = torch.node({&logarithms});
  Saved kept, kept_labels;
  if (node) kept = torch.save(logarithms), kept_labels = torch.save(labels);
  torch.read_only(labels.bytes() + Bytes(labels.elements() * size_of(logarithms.type)));  // one of each row
  Tensor loss = torch.make(Layout::contiguous({}), DType::fp32);
  const Tensor weight = torch.make(Layout::contiguous({}), DType::fp32);
  torch.end_kernel(1);
  if (!node) return loss;
  node->backward = [&torch, kept, kept_labels, kept_weight = torch.save(weight)](Tensors&) {
    const Tensor held = kept.get(), targets = kept_labels.get(), total = kept_weight.get();
    torch.read_only(targets.bytes());
    return Tensors{torch.make(held.layout, held.type)};
  };
  return Autograd::connected(loss, node);
}

}  // namespace zplan::symbolic
