#pragma once
// Tensors without values: what decides whether memory is taken is their dtype, sizes, strides and who still
// refers to their storage. A Tensor is a handle, as in Python: copying one refers to the same storage, and
// the storage is freed with the last handle.

#include <array>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <vector>

#include "models/base/quantity.h"
#include "planner/model_trace/dimensions.h"

namespace zplan::symbolic {

enum class DType : std::uint8_t { boolean, uint8, bf16, fp32, int32, int64 };  ///< bf16 stands for fp16 too
[[nodiscard]] std::int64_t size_of(DType type);
[[nodiscard]] bool is_floating(DType type);

/// Sizes and strides, in elements.
struct Layout {
  Dimensions sizes, strides;

  [[nodiscard]] static Layout contiguous(Dimensions sizes);
  [[nodiscard]] std::size_t rank() const { return sizes.size(); }
  [[nodiscard]] std::int64_t elements() const;
  [[nodiscard]] bool is_contiguous() const;
  [[nodiscard]] bool is_dense() const;  ///< non-overlapping and dense: some order of dimensions is contiguous
  [[nodiscard]] Layout transposed(std::size_t a, std::size_t b) const;
  /// A part of `length` along dimension `axis`.
  [[nodiscard]] Layout narrowed(std::size_t axis, std::int64_t length) const;
  /// The strides of a view of other sizes; no sizes where only a copy can have them.
  [[nodiscard]] Layout viewed(Dimensions sizes) const;
  bool operator==(const Layout&) const = default;
};

/// The layout of an elementwise result, as TensorIterator makes it: the operands' order of strides is kept.
/// Source: torch 2.11 aten/src/ATen/TensorIterator.cpp reorder_dimensions.
[[nodiscard]] Layout elementwise(std::initializer_list<const Layout*> operands);

class Recorder;

/// Memory that handles share.
class Storage {
 public:
  Storage(Recorder& recorder, std::int32_t block) : recorder_(&recorder), block_(block) {}
  ~Storage();
  Storage(const Storage&) = delete;
  Storage& operator=(const Storage&) = delete;
  [[nodiscard]] std::int32_t block() const { return block_; }
  /// Somebody outside the program frees it from here on.
  void give_away() { recorder_ = nullptr; }

 private:
  Recorder* recorder_;
  std::int32_t block_;
};

struct Node;

/// An edge of the graph: the node that takes a tensor's gradient, and as which of its inputs.
struct Edge {
  std::shared_ptr<Node> node;
  std::size_t input{};
};

struct Tensor {
  std::shared_ptr<Storage> storage;  ///< none: memory that is not this program's (parameters, host scalars)
  DType type{DType::bf16};
  Layout layout;
  /// A view that autograd knows holds its base, so gradients are never accumulated into one.
  bool view{};
  bool requires_gradient{};
  Edge gradient;  ///< who takes the gradient with respect to this tensor

  [[nodiscard]] bool defined() const { return !layout.strides.empty() || storage != nullptr; }
  [[nodiscard]] std::int64_t elements() const { return layout.elements(); }
  [[nodiscard]] std::int64_t size(std::size_t axis) const { return layout.sizes[axis]; }
  [[nodiscard]] Bytes bytes() const { return Bytes(layout.elements() * size_of(type)); }
  void reset() { *this = {}; }
  /// The same memory, outside the graph.
  [[nodiscard]] Tensor detached() const;
};

}  // namespace zplan::symbolic
