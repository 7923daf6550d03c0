#pragma once
// In place of the kernels of training: keeps a GPU's units busy for a given time, beside the collectives.

#include <array>
#include <cstdint>
#include <memory>
#include <string_view>
#include <utility>
#include <vector>

#include "harness/nccl/device.h"
#include "harness/nccl/device_measurements.h"

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

class BusyStream {
 public:
  /// Times its matrix products (bf16, square) at once. Takes up to 96 MiB, less where there is less.
  BusyStream(const Device& device, Cublas blas, Seconds limit);

  [[nodiscard]] const Stream& stream() const { return stream_; }
  /// Puts products on the queue that take about `time`: to half of the shortest one, some microseconds.
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
