#pragma once
// Keeps a GPU's units busy for a given time, in the place of training's kernels, beside the collectives.

#include <array>
#include <cstdint>
#include <memory>
#include <string_view>
#include <utility>
#include <vector>

#include "harness/nccl/device.h"
#include "harness/nccl/device_measurements.h"

namespace zplan::bench {

/// Issues matrix products of cuBLAS in the way of a linear layer.
class MatrixProducts {
 public:
  /// Issues products to `stream`. Throws BenchError, OutOfMemory.
  MatrixProducts(const Device& device, Cublas blas, const Stream& stream);

  /// Computes c (m × n) = a (m × k) · b (n × k) transposed, by rows, as torch.nn.Linear with input a and
  /// weight b does. Sums in float32. Throws OutOfMemory if cuBLAS has no memory for its workspace.
  void issue(const Product& product, const void* a, const void* b, void* c) const;

 private:
  const Device& device_;
  Cublas blas_;
  std::unique_ptr<cublasContext, cublasStatus_t (*)(cublasHandle_t)> handle_;
};

/// Fills memory with numbers in ±[0.5, 1), the same in each run. Products of zeros would take less power, and
/// so less time, than those of training.
void fill_with_numbers(const Device& device, const Stream& stream, const Memory& memory, ProductType type,
                       Seconds limit);

/// A stream that can be kept busy for a given time.
class BusyStream {
 public:
  /// Times its matrix products (bf16, square). Uses at most 96 MiB, less if less is free.
  BusyStream(const Device& device, Cublas blas, Seconds limit);

  [[nodiscard]] const Stream& stream() const { return stream_; }
  /// Issues products that take about `time`, to within half of the shortest one, some microseconds.
  void keep_busy(Seconds time) const;

 private:
  struct Step {
    std::int64_t size{};
    Seconds time;
  };
  [[nodiscard]] Memory allocate_operands();
  void issue(std::int64_t size) const;
  [[nodiscard]] Seconds measure(std::int64_t size) const;

  const Device& device_;
  Seconds limit_;
  Stream stream_;
  MatrixProducts products_;
  std::vector<std::int64_t> sizes_{4096, 1024, 256};
  Memory operands_;
  std::vector<Step> steps_;  ///< the longest first
};

}  // namespace zplan::bench
