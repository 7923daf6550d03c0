#pragma once
// What a stretch of a tape gives the device and the host to do, beside memory: matrix products, attention,
// and bytes that all other kernels read and write. How long that takes is time/'s.

#include <cstdint>
#include <vector>

#include "models/base/quantity.h"

namespace zplan {

/// Matrix products of one shape: `batch` of them at a time, [rows, inner] × [inner, columns].
struct Product {
  std::int64_t batch{1};
  std::int64_t rows{}, inner{}, columns{};
  Bytes element{2};
  std::int64_t times{1};

  [[nodiscard]] bool has_shape_of(const Product& other) const {
    return batch == other.batch && rows == other.rows && inner == other.inner && columns == other.columns &&
           element == other.element;
  }
  /// A multiplication and an addition each.
  [[nodiscard]] Flops flops() const {
    return Flops(2.0 * static_cast<double>(batch * times) * static_cast<double>(rows) *
                 static_cast<double>(inner) * static_cast<double>(columns));
  }
  bool operator==(const Product&) const = default;
};

/// What PyTorch's memory-efficient attention kernels do, which masks and GPUs before Ampere need.
struct TiledAttention {
  Flops counted;             ///< of attention_forward and attention_backward
  Flops forward, backward;   ///< with what is done for features that only fill tiles
  std::int64_t head_size{};  ///< the widest: kernels differ by it
  bool operator==(const TiledAttention&) const = default;
};

/// Kernels between two moments at which a framework steps in.
struct Load {
  std::vector<Product> products;
  Flops attention_forward, attention_backward;  ///< of fused attention kernels, the masked half not counted
  TiledAttention attention_tiled;
  Bytes moved;                  ///< read and written by all other kernels, each operand once
  std::int64_t kernels{};       ///< how many these are
  std::int64_t operators{};     ///< that the host issues from Python, views among them
  std::int64_t checkpointed{};  ///< of them, inside a checkpointed call: what they save passes Python
  std::int64_t nodes{};         ///< of the graph that autograd's engine runs

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
