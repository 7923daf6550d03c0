#pragma once
// In place of the kernels of training: keeps a GPU's units busy for a given time, beside the collectives.

#include <cstdint>
#include <vector>

#include "harness/nccl/matrix_product.h"

namespace zplan::bench {

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
