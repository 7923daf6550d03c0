#pragma once
// Tensors without values. Their dtype, sizes, strides and references decide which memory is allocated. A
// Tensor is a handle as in Python: copies refer to the same storage, which is freed with the last one.

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <iterator>
#include <memory>
#include <stdexcept>
#include <vector>

#include "models/base/quantity.h"

namespace zplan::symbolic {

/// Dimensions are the sizes or strides of a tensor: a few numbers stored in the object itself, because a
/// recording copies them often.
class Dimensions {
 public:
  static constexpr std::size_t kMost = 8;
  using value_type = std::int64_t;
  using iterator = std::int64_t*;
  using const_iterator = const std::int64_t*;

  Dimensions() = default;
  Dimensions(std::initializer_list<std::int64_t> values) : Dimensions(values.size()) {
    std::copy(values.begin(), values.end(), begin());
  }
  explicit Dimensions(std::size_t count, std::int64_t value = 0) { resize(count, value); }
  explicit Dimensions(const std::vector<std::int64_t>& values) : Dimensions(values.size()) {
    std::copy(values.begin(), values.end(), begin());
  }

  [[nodiscard]] std::size_t size() const { return count_; }
  [[nodiscard]] bool empty() const { return count_ == 0; }
  [[nodiscard]] iterator begin() { return values_.data(); }
  [[nodiscard]] iterator end() { return begin() + count_; }
  [[nodiscard]] const_iterator begin() const { return values_.data(); }
  [[nodiscard]] const_iterator end() const { return begin() + count_; }
  [[nodiscard]] std::int64_t& operator[](std::size_t i) { return values_[i]; }
  [[nodiscard]] std::int64_t operator[](std::size_t i) const { return values_[i]; }
  [[nodiscard]] std::int64_t& front() { return values_[0]; }
  [[nodiscard]] std::int64_t front() const { return values_[0]; }
  [[nodiscard]] std::int64_t& back() { return values_[count_ - 1]; }
  [[nodiscard]] std::int64_t back() const { return values_[count_ - 1]; }

  /// Throws std::length_error above kMost.
  void resize(std::size_t count, std::int64_t value = 0) {
    if (count > kMost) throw std::length_error("a tensor of more than eight dimensions");
    for (; count_ < count; ++count_) values_[count_] = value;
    count_ = count;
  }
  void push_back(std::int64_t value) { resize(count_ + 1, value); }
  void pop_back() { --count_; }
  void insert(const_iterator at, std::size_t count, std::int64_t value) {
    const std::ptrdiff_t place = at - begin();
    const std::size_t before = count_;
    resize(before + count);
    std::move_backward(begin() + place, begin() + before, end());
    std::fill_n(begin() + place, count, value);
  }
  void insert(const_iterator at, std::int64_t value) { insert(at, 1, value); }
  void erase(const_iterator at) {
    const std::ptrdiff_t place = at - begin();
    std::move(begin() + place + 1, end(), begin() + place);
    --count_;
  }

  friend bool operator==(const Dimensions& a, const Dimensions& b) {
    return std::equal(a.begin(), a.end(), b.begin(), b.end());
  }

 private:
  std::array<std::int64_t, kMost> values_{};
  std::size_t count_{};
};

/// Returns `sizes` with another last one.
[[nodiscard]] inline Dimensions with_last(Dimensions sizes, std::int64_t last) {
  sizes.back() = last;
  return sizes;
}

enum class DType : std::uint8_t { boolean, uint8, bf16, fp32, int32, int64 };  ///< bf16 stands for fp16 too
[[nodiscard]] std::int64_t size_of(DType type);
[[nodiscard]] bool is_floating(DType type);

/// Layout holds sizes and strides, in elements.
struct Layout {
  Dimensions sizes, strides;

  [[nodiscard]] static Layout contiguous(Dimensions sizes);
  [[nodiscard]] std::size_t rank() const { return sizes.size(); }
  [[nodiscard]] std::int64_t elements() const;
  [[nodiscard]] bool is_contiguous() const;
  [[nodiscard]] bool is_dense() const;  ///< non-overlapping and dense: some order of dimensions is contiguous
  [[nodiscard]] Layout transposed(std::size_t a, std::size_t b) const;
  /// Returns a part of `length` along dimension `axis`.
  [[nodiscard]] Layout narrowed(std::size_t axis, std::int64_t length) const;
  /// Returns the layout of a view of other sizes; without sizes where only a copy can have them.
  [[nodiscard]] Layout viewed(Dimensions sizes) const;
  bool operator==(const Layout&) const = default;
};

/// Returns the layout of an elementwise result. As TensorIterator does, it keeps the operands' order of
/// strides. Source: torch 2.11 aten/src/ATen/TensorIterator.cpp reorder_dimensions.
[[nodiscard]] Layout elementwise(std::initializer_list<const Layout*> operands);

class Recorder;

/// Storage is memory that handles share.
class Storage {
 public:
  Storage(Recorder& recorder, std::int32_t block) : recorder_(&recorder), block_(block) {}
  ~Storage();
  Storage(const Storage&) = delete;
  Storage& operator=(const Storage&) = delete;
  [[nodiscard]] std::int32_t block() const { return block_; }
  /// Leaves freeing the memory to a framework.
  void give_away() { recorder_ = nullptr; }
  /// A compiled graph computes the memory's values again for its backward, instead of keeping them.
  void compute_again() { computed_again_ = true; }
  [[nodiscard]] bool is_computed_again() const { return computed_again_; }
  /// Frees the memory while tensors go on to share the storage: untyped_storage().resize_(0).
  void drop();
  /// Allocates the memory again.
  void restore(Bytes size);

 private:
  Recorder* recorder_;
  std::int32_t block_;
  bool dropped_{}, computed_again_{};
};

struct Node;

/// Edge leads to the node that takes a tensor's gradient, as its input number `input`.
struct Edge {
  std::shared_ptr<Node> node;
  std::size_t input{};
};

struct Tensor {
  std::shared_ptr<Storage> storage;  ///< null: memory outside the recording (parameters, host scalars)
  DType type{DType::bf16};
  Layout layout;
  /// Autograd knows it as a view, which holds its base: gradients are never accumulated into it.
  bool view{};
  bool requires_gradient{};
  Edge gradient;  ///< where the gradient with respect to this tensor goes

  [[nodiscard]] bool defined() const { return !layout.strides.empty() || storage != nullptr; }
  [[nodiscard]] std::int64_t elements() const { return layout.elements(); }
  [[nodiscard]] std::int64_t size(std::size_t axis) const { return layout.sizes[axis]; }
  [[nodiscard]] Bytes bytes() const { return Bytes(layout.elements() * size_of(type)); }
  void reset() { *this = {}; }
  /// Returns the same memory outside the graph.
  [[nodiscard]] Tensor detached() const;
};

}  // namespace zplan::symbolic
