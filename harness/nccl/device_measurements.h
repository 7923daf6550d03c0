#pragma once
// Measures one GPU: copies from and to its host, matrix products, memory. Includes no header of CUDA.

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "harness/nccl/shared_library.h"
#include "models/base/names.h"
#include "models/base/quantity.h"

namespace zplan::bench {

/// Types in which matrices are multiplied. tf32 is stored as float32.
enum class ProductType { bfloat16, float16, tf32, float32 };

/// A product c (m × n) = a (m × k) · b (k × n).
struct Product {
  ProductType type{ProductType::bfloat16};
  std::int64_t m{}, n{}, k{};
  bool operator==(const Product&) const = default;

  [[nodiscard]] Flops flops() const {
    return Flops(2.0 * static_cast<double>(m) * static_cast<double>(n) * static_cast<double>(k));
  }
};

/// Returns the bytes of one number in memory.
[[nodiscard]] constexpr std::int64_t size_of(ProductType type) {
  return type == ProductType::bfloat16 || type == ProductType::float16 ? 2 : 4;
}

}  // namespace zplan::bench

namespace zplan {

template <>
struct EnumNames<bench::ProductType> {
  static constexpr std::array<std::pair<bench::ProductType, std::string_view>, 4> table{
      {{bench::ProductType::bfloat16, "bfloat16"},
       {bench::ProductType::float16, "float16"},
       {bench::ProductType::tf32, "tf32"},
       {bench::ProductType::float32, "float32"}}};
};

}  // namespace zplan

namespace zplan::bench {

enum class CopyDirection { host_to_device, device_to_host };
/// Host memory: page-locked, or from malloc, which the driver first copies to a page-locked buffer.
enum class HostMemory { pinned, pageable };

/// Times of a copy. `samples`, here and below: seconds of each repetition, in order, between events on a
/// stream.
struct CopyTimes {
  CopyDirection direction{};
  HostMemory memory{};
  Bytes bytes;
  std::vector<double> samples;
};

/// Times of a matrix product.
struct ProductTimes {
  Product product;
  std::vector<double> samples;  ///< each the mean of enough products to take about a millisecond
};

/// Times of a copy inside the GPU's memory. `bytes` counts both reads and writes.
struct MemoryTimes {
  Bytes bytes;
  std::vector<double> samples;
};

/// All measurements of a GPU.
struct DeviceTimes {
  std::vector<CopyTimes> copies;
  std::vector<ProductTimes> products;
  std::vector<MemoryTimes> memory;
  std::vector<std::string> notes;  ///< sizes that were left out or reduced for lack of memory
};

/// Returns 1 MiB to 1 GiB in factors of four.
[[nodiscard]] std::vector<Bytes> default_copy_sizes();
/// Returns squares of 1024 to 8192 of each type, and the linear layers of an 8B model (hidden 4096, 8
/// key-value heads of 128, feed-forward 14336, vocabulary 128256) in bfloat16 for 2048 and 8192 tokens.
[[nodiscard]] std::vector<Product> default_products();

struct DeviceMeasurementOptions {
  int device{};                                         ///< among the GPUs that the process may see
  std::string who{"rank 0"};                            ///< begins messages and notes
  int repetitions{10};                                  ///< after one to warm up
  std::vector<Bytes> copy_sizes{default_copy_sizes()};  ///< empty: no copies
  std::vector<Product> products{default_products()};
  std::vector<Bytes> memory_sizes{kGiB};  ///< of the buffer that is read, and of the one that is written
  Seconds timeout{60};                    ///< of each step
  LibraryPlaces places{library_places()};
};

/// Measures all that `options` name. Leaves out, with a note, sizes that do not fit in memory; halves that of
/// the copy inside the GPU until it fits. Throws InputError if there is no driver, GPU or library, BenchError
/// if a call fails or hangs.
[[nodiscard]] DeviceTimes measure_device(const DeviceMeasurementOptions& options);

}  // namespace zplan::bench

namespace zplan {

template <>
struct EnumNames<bench::CopyDirection> {
  static constexpr std::array<std::pair<bench::CopyDirection, std::string_view>, 2> table{
      {{bench::CopyDirection::host_to_device, "host_to_device"},
       {bench::CopyDirection::device_to_host, "device_to_host"}}};
};

template <>
struct EnumNames<bench::HostMemory> {
  static constexpr std::array<std::pair<bench::HostMemory, std::string_view>, 2> table{
      {{bench::HostMemory::pinned, "pinned"}, {bench::HostMemory::pageable, "pageable"}}};
};

}  // namespace zplan
