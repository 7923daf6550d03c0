#include "planner/model_trace/tensor.h"

#include <algorithm>
#include <numeric>
#include <span>
#include <utility>

#include "planner/model_trace/recorder.h"

namespace zplan::symbolic {

std::int64_t size_of(DType type) {
  switch (type) {
    case DType::boolean:
    case DType::uint8: return 1;
    case DType::bf16: return 2;
    case DType::fp32:
    case DType::int32: return 4;
    case DType::int64: return 8;
  }
  return 0;
}

bool is_floating(DType type) { return type == DType::bf16 || type == DType::fp32; }

Layout Layout::contiguous(Dimensions sizes) {
  Layout layout;
  layout.strides.resize(sizes.size());
  std::int64_t stride = 1;
  for (std::size_t i = sizes.size(); i-- > 0;)
    layout.strides[i] = stride, stride *= std::max<std::int64_t>(sizes[i], 1);
  layout.sizes = std::move(sizes);
  return layout;
}

std::int64_t Layout::elements() const {
  return std::accumulate(sizes.begin(), sizes.end(), std::int64_t{1}, std::multiplies<>());
}

bool Layout::is_contiguous() const {
  std::int64_t stride = 1;
  for (std::size_t i = rank(); i-- > 0;) {
    if (sizes[i] == 1) continue;
    if (strides[i] != stride) return false;
    stride *= sizes[i];
  }
  return true;
}

bool Layout::is_dense() const {
  std::array<std::size_t, Dimensions::kMost> places{};
  const std::span order(places.data(), rank());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::sort(order.begin(), order.end(),
            [&](std::size_t a, std::size_t b) { return strides[a] < strides[b]; });
  std::int64_t stride = 1;
  for (const std::size_t i : order) {
    if (sizes[i] == 1) continue;
    if (strides[i] != stride) return false;
    stride *= sizes[i];
  }
  return true;
}

Layout Layout::transposed(std::size_t a, std::size_t b) const {
  Layout result = *this;
  std::swap(result.sizes[a], result.sizes[b]);
  std::swap(result.strides[a], result.strides[b]);
  return result;
}

Layout Layout::narrowed(std::size_t axis, std::int64_t length) const {
  Layout result = *this;
  result.sizes[axis] = length;
  return result;
}

// Source: torch 2.11 aten/src/ATen/TensorUtils.cpp computeStride: runs of dimensions that lie behind one
// another may be cut anew, nothing else.
Layout Layout::viewed(Dimensions wanted) const {
  Layout result{std::move(wanted), {}};
  result.strides.resize(result.sizes.size());
  if (elements() == 0) return contiguous(result.sizes);
  std::size_t to = result.sizes.size();
  std::int64_t base = strides.empty() ? 1 : strides.back(), run = 1, cut = 1;
  for (std::size_t from = rank(); from-- > 0;) {
    run *= sizes[from];
    const bool ends = from == 0 || (sizes[from - 1] != 1 && strides[from - 1] != run * base);
    if (!ends) continue;
    while (to > 0 && (cut < run || result.sizes[to - 1] == 1)) {
      --to;
      result.strides[to] = cut * base;
      cut *= result.sizes[to];
    }
    if (cut != run) return {};
    if (from > 0) base = strides[from - 1], run = 1, cut = 1;
  }
  return to == 0 ? result : Layout{};
}

namespace {

/// Compares the strides of dimensions `a` and `b` in the first operand that decides: positive where `a` moves
/// slower; 0 where no operand decides.
int compare_dimensions(std::initializer_list<const Layout*> operands, const Dimensions& shape, std::size_t a,
                       std::size_t b) {
  for (const Layout* each : operands) {
    const std::size_t missing = shape.size() - each->rank();
    const auto stride = [&](std::size_t i) {
      return i < missing || each->sizes[i - missing] == 1 ? 0 : each->strides[i - missing];
    };
    const std::int64_t sa = stride(a), sb = stride(b);
    if (sa == 0 || sb == 0) continue;
    if (sa != sb) return sa < sb ? -1 : 1;
    if (shape[a] > shape[b]) return 1;
  }
  return 0;
}

Dimensions broadcast(std::initializer_list<const Layout*> operands) {
  Dimensions shape;
  for (const Layout* each : operands) {
    if (each->rank() > shape.size()) shape.insert(shape.begin(), each->rank() - shape.size(), 1);
    for (std::size_t i = 0; i < each->rank(); ++i) {
      std::int64_t& size = shape[shape.size() - 1 - i];
      if (const std::int64_t own = each->sizes[each->rank() - 1 - i]; own != 1) size = own;
    }
  }
  return shape;
}

}  // namespace

Layout elementwise(std::initializer_list<const Layout*> operands) {
  const Layout& first = **operands.begin();
  const Dimensions shape = broadcast(operands);
  const bool alike =
      std::all_of(operands.begin(), operands.end(), [&](const Layout* each) { return *each == first; });
  if (alike && first.is_dense() && first.sizes == shape) return first;
  // Fastest dimension first, as few moves as the operands ask for.
  std::array<std::size_t, Dimensions::kMost> places{};
  const std::span order(places.data(), shape.size());
  std::iota(order.rbegin(), order.rend(), std::size_t{0});
  for (std::size_t i = 1; i < order.size(); ++i) {
    std::size_t moving = i;
    for (std::size_t j = i; j-- > 0;) {
      const int comparison = compare_dimensions(operands, shape, order[j], order[moving]);
      if (comparison > 0)
        std::swap(order[j], order[moving]), moving = j;
      else if (comparison < 0)
        break;
    }
  }
  Layout result{shape, Dimensions(shape.size())};
  std::int64_t stride = 1;
  for (const std::size_t axis : order) result.strides[axis] = stride, stride *= shape[axis];
  return result;
}

Storage::~Storage() {
  if (recorder_ != nullptr && !dropped_) recorder_->release(block_);
}

void Storage::drop() {
  if (!std::exchange(dropped_, true)) recorder_->release(block_);
}

void Storage::restore(Bytes size) {
  if (!std::exchange(dropped_, false)) return;
  const std::shared_ptr<Storage> again = recorder_->allocate(size);
  block_ = again->block_;
  again->give_away();
}

Tensor Tensor::detached() const {
  Tensor result = *this;
  result.requires_gradient = false;
  result.gradient = {};
  return result;
}

}  // namespace zplan::symbolic
