#include "harness/nccl/busy_stream.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <random>
#include <utility>
#include <vector>

#include "harness/control.h"

namespace zplan::bench {

namespace {

struct InCublas {
  cudaDataType_t data;
  cublasComputeType_t compute;
};

InCublas in_cublas(ProductType type) {
  switch (type) {
    case ProductType::bfloat16: return {CUDA_R_16BF, CUBLAS_COMPUTE_32F};
    case ProductType::float16: return {CUDA_R_16F, CUBLAS_COMPUTE_32F};
    case ProductType::tf32: return {CUDA_R_32F, CUBLAS_COMPUTE_32F_FAST_TF32};
    case ProductType::float32: break;
  }
  return {CUDA_R_32F, CUBLAS_COMPUTE_32F};
}

void check(const Device& device, const Cublas& blas, cublasStatus_t status, const char* call) {
  if (status == CUBLAS_STATUS_ALLOC_FAILED)
    throw OutOfMemory(fmt::format("{}: {}: out of memory", device.who(), call));
  if (status != CUBLAS_STATUS_SUCCESS)
    throw BenchError(fmt::format("{}: {} fails: {} ({})", device.who(), call, blas.status_string(status),
                                 static_cast<int>(status)));
}

cublasHandle_t new_handle(const Device& device, const Cublas& blas) {
  cublasHandle_t handle = nullptr;
  check(device, blas, blas.create(&handle), "cublasCreate");
  return handle;
}

/// Returns a number with sign and mantissa of `random` and the exponent of 0.5.
std::uint32_t number_of(std::uint32_t random, ProductType type) {
  if (type == ProductType::bfloat16) return (random & 0x807FU) | 0x3F00U;
  if (type == ProductType::float16) return (random & 0x83FFU) | 0x3800U;
  return (random & 0x807FFFFFU) | 0x3F000000U;
}

std::vector<std::byte> numbers(Bytes size, ProductType type) {
  std::vector<std::byte> bytes(static_cast<std::size_t>(size.value));
  std::mt19937 random(1);
  const auto step = static_cast<std::size_t>(size_of(type));
  for (std::size_t at = 0; at + step <= bytes.size(); at += step) {
    const auto number = number_of(static_cast<std::uint32_t>(random()), type);
    std::memcpy(bytes.data() + at, &number, step);  // its low bytes: GPUs' hosts are little-endian
  }
  return bytes;
}

}  // namespace

MatrixProducts::MatrixProducts(const Device& device, Cublas blas, const Stream& stream)
    : device_(device), blas_(std::move(blas)), handle_(new_handle(device, blas_), blas_.destroy) {
  check(device_, blas_, blas_.set_stream(handle_.get(), stream.get()), "cublasSetStream");
}

void MatrixProducts::issue(const Product& product, const void* a, const void* b, void* c) const {
  const auto [data, compute] = in_cublas(product.type);
  const int m = static_cast<int>(product.m), n = static_cast<int>(product.n), k = static_cast<int>(product.k);
  const float one = 1, zero = 0;
  // cuBLAS stores matrices by columns, so it reads a matrix stored by rows as its transpose.
  check(device_, blas_,
        blas_.gemm(handle_.get(), CUBLAS_OP_T, CUBLAS_OP_N, n, m, k, &one, b, data, k, a, data, k, &zero, c,
                   data, n, compute, CUBLAS_GEMM_DEFAULT),
        "cublasGemmEx");
}

void fill_with_numbers(const Device& device, const Stream& stream, const Memory& memory, ProductType type,
                       Seconds limit) {
  const Bytes first = std::min(memory.size(), Bytes(16 * kMiB.value));
  const std::vector<std::byte> bytes = numbers(first, type);
  device.copy(memory.data(), bytes.data(), first, cudaMemcpyHostToDevice, stream);
  for (Bytes done = first; done < memory.size();) {
    const Bytes more = std::min(done, memory.size() - done);
    device.copy(memory.data() + done.value, memory.data(), more, cudaMemcpyDeviceToDevice, stream);
    done += more;
  }
  device.finish(stream, limit, "filling a buffer");
}

namespace {

Product product_of(std::int64_t size) {
  return {.type = ProductType::bfloat16, .m = size, .n = size, .k = size};
}

Bytes matrix_bytes(std::int64_t size) { return Bytes(size * size * size_of(ProductType::bfloat16)); }

}  // namespace

BusyStream::BusyStream(const Device& device, Cublas blas, Seconds limit)
    : device_(device),
      limit_(limit),
      stream_(device.stream()),
      products_(device, std::move(blas), stream_),
      operands_(allocate_operands()) {
  fill_with_numbers(device_, stream_, operands_, ProductType::bfloat16, limit_);
  for (const std::int64_t size : sizes_) steps_.push_back({.size = size, .time = measure(size)});
}

Memory BusyStream::allocate_operands() {
  while (true) try {
      return device_.allocate(matrix_bytes(sizes_.front()) * 3);
    } catch (const OutOfMemory&) {
      if (sizes_.size() == 1) throw;
      sizes_.erase(sizes_.begin());
    }
}

void BusyStream::issue(std::int64_t size) const {
  const std::int64_t step = matrix_bytes(size).value;
  products_.issue(product_of(size), operands_.data(), operands_.data() + step, operands_.data() + 2 * step);
}

Seconds BusyStream::measure(std::int64_t size) const {
  constexpr int times = 20;
  const Event begin = device_.timing_event(), end = device_.timing_event();
  for (int warm_up = 0; warm_up < 5; ++warm_up) issue(size);
  device_.record(begin, stream_);
  for (int each = 0; each < times; ++each) issue(size);
  device_.record(end, stream_);
  device_.finish(stream_, limit_, "timing matrix products");
  // Events have a resolution of half a microsecond: shorter times count as that.
  return Seconds(std::max(device_.between(begin, end).value, 0.5e-6) / times);
}

void BusyStream::keep_busy(Seconds time) const {
  for (const Step& step : steps_) {
    const double fit = time.value / step.time.value;
    const bool is_shortest = &step == &steps_.back();
    const auto times = static_cast<std::int64_t>(is_shortest ? std::round(fit) : std::floor(fit));
    for (std::int64_t each = 0; each < times; ++each) issue(step.size);
    time -= step.time * static_cast<double>(times);
  }
}

}  // namespace zplan::bench
