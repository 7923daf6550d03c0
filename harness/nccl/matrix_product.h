#pragma once
// Matrix products of cuBLAS as a linear layer does them.

#include <array>
#include <memory>
#include <string_view>
#include <utility>

#include "harness/nccl/device.h"
#include "harness/nccl/product.h"

namespace zplan::bench {

class MatrixProducts {
 public:
  /// Products go to `stream`. Throws BenchError, OutOfMemory.
  MatrixProducts(const Device& device, Cublas blas, const Stream& stream);

  /// c (m × n) = a (m × k) · b (n × k) transposed, rows one after the other: torch.nn.Linear with a for its
  /// input and b for its weight. Sums are kept in float32. Throws OutOfMemory where cuBLAS has no memory to
  /// work.
  void issue(const Product& product, const void* a, const void* b, void* c) const;

 private:
  const Device& device_;
  Cublas blas_;
  std::unique_ptr<cublasContext, cublasStatus_t (*)(cublasHandle_t)> handle_;
};

/// Fills with numbers of ±[0.5, 1), the same in each run: products of zeros take less power, and with it less
/// time, than those of training.
void fill_with_numbers(const Device& device, const Stream& stream, const Memory& memory, ProductType type,
                       Seconds limit);

}  // namespace zplan::bench
