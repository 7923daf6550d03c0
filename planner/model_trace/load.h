#pragma once
// Load is the work between two events of a tape, beside memory: matrix products, attention, and the bytes
// that all other kernels read and write. The cost model turns it into time.

#include <cstdint>
#include <vector>

#include "models/base/quantity.h"

namespace zplan {

/// Product stands for `times` matrix products of one shape: `batch` at a time, [rows, inner] × [inner,
/// columns].
struct Product {
  std::int64_t batch{1};
  std::int64_t rows{}, inner{}, columns{};
  Bytes element{2};
  std::int64_t times{1};

  [[nodiscard]] bool has_shape_of(const Product& other) const {
    return batch == other.batch && rows == other.rows && inner == other.inner && columns == other.columns &&
           element == other.element;
  }
  /// Returns a multiplication and an addition for each term.
  [[nodiscard]] Flops flops() const {
    return Flops(2.0 * static_cast<double>(batch * times) * static_cast<double>(rows) *
                 static_cast<double>(inner) * static_cast<double>(columns));
  }
  bool operator==(const Product&) const = default;
};

/// TiledAttention counts the operations of PyTorch's memory-efficient attention kernels, which run with masks
/// and on GPUs before Ampere.
struct TiledAttention {
  Flops counted;             ///< part of attention_forward and attention_backward
  Flops forward, backward;   ///< including features that only fill tiles
  std::int64_t head_size{};  ///< the largest, by which kernels differ
  bool operator==(const TiledAttention&) const = default;
};

/// Load is the work between two moments at which a framework steps in.
struct Load {
  std::vector<Product> products;
  Flops attention_forward, attention_backward;  ///< by fused attention kernels, without the masked half
  TiledAttention attention_tiled;
  Bytes moved;               ///< read and written by all other kernels, each operand once
  std::int64_t kernels{};    ///< number of all other kernels
  std::int64_t operators{};  ///< operators that Python issues, views included
  std::int64_t
      checkpointed{};    ///< operators inside a checkpointed call, whose saved tensors pass through Python
  std::int64_t nodes{};  ///< nodes that autograd's engine runs

  void add(const Product& product) {
    for (Product& each : products)
      if (each.has_shape_of(product)) {
        each.times += product.times;
        return;
      }
    products.push_back(product);
  }
  bool operator==(const Load&) const = default;
};

}  // namespace zplan
