#include "harness/nccl/device_measurements.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <functional>
#include <new>
#include <optional>

#include "harness/control.h"
#include "harness/nccl/busy_stream.h"

namespace zplan::bench {

namespace {

/// Measures a GPU on one stream.
class Measurement {
 public:
  explicit Measurement(const DeviceMeasurementOptions& options)
      : options_(options),
        device_(load_cuda(options.places), options.device, options.who),
        stream_(device_.stream()),
        begin_(device_.timing_event()),
        end_(device_.timing_event()) {}

  void measure_copies(HostMemory memory);
  void measure_memory(Bytes size);
  void measure_products();
  [[nodiscard]] DeviceTimes take() { return std::move(times_); }

 private:
  [[nodiscard]] double time(const std::function<void()>& issue);
  [[nodiscard]] std::vector<double> samples(const std::function<void()>& issue);
  [[nodiscard]] Memory host_memory(HostMemory memory, Bytes size) const;
  void copy_both_ways(HostMemory memory, Bytes size);
  void measure_product(const MatrixProducts& products, const Product& product);
  [[nodiscard]] Memory numbers(ProductType type, std::int64_t count) const;
  void note(const std::string& text) { times_.notes.push_back(options_.who + ": " + text); }

  const DeviceMeasurementOptions& options_;
  Device device_;
  Stream stream_;
  Event begin_, end_;
  DeviceTimes times_;
};

double Measurement::time(const std::function<void()>& issue) {
  device_.record(begin_, stream_);
  issue();
  device_.record(end_, stream_);
  device_.finish(stream_, options_.timeout, "a measurement");
  return device_.between(begin_, end_).value;
}

std::vector<double> Measurement::samples(const std::function<void()>& issue) {
  static_cast<void>(time(issue));
  std::vector<double> seconds;
  for (int each = 0; each < options_.repetitions; ++each) seconds.push_back(time(issue));
  return seconds;
}

Memory Measurement::host_memory(HostMemory memory, Bytes size) const {
  if (memory == HostMemory::pinned) return device_.allocate_pinned(size);
  void* data = std::malloc(static_cast<std::size_t>(size.value));
  if (data == nullptr)
    throw OutOfMemory(fmt::format("{}: malloc of {} bytes: out of memory", options_.who, size.value));
  Memory owned(data, size, [](void* each) { std::free(each); });
  std::fill_n(owned.data(), size.value, std::byte{1});  // or its pages would first be made while it is timed
  return owned;
}

void Measurement::copy_both_ways(HostMemory memory, Bytes size) {
  const Memory host = host_memory(memory, size), on_device = device_.allocate(size);
  const auto add = [&](CopyDirection direction, void* to, const void* from, cudaMemcpyKind kind) {
    times_.copies.push_back({.direction = direction,
                             .memory = memory,
                             .bytes = size,
                             .samples = samples([&] { device_.copy(to, from, size, kind, stream_); })});
  };
  add(CopyDirection::host_to_device, on_device.data(), host.data(), cudaMemcpyHostToDevice);
  add(CopyDirection::device_to_host, host.data(), on_device.data(), cudaMemcpyDeviceToHost);
}

void Measurement::measure_copies(HostMemory memory) {
  std::vector<Bytes> sizes = options_.copy_sizes;
  std::sort(sizes.begin(), sizes.end());
  for (const Bytes size : sizes) try {
      copy_both_ways(memory, size);
    } catch (const OutOfMemory&) {
      return note(fmt::format("copies of {} bytes and more ({} memory) are left out: out of memory",
                              size.value, to_name(memory)));
    }
}

void Measurement::measure_memory(Bytes size) {
  for (Bytes fitting = size; fitting >= kMiB; fitting = Bytes(fitting.value / 2)) try {
      const Memory from = device_.allocate(fitting), to = device_.allocate(fitting);
      device_.fill(from.data(), 1, fitting, stream_);
      times_.memory.push_back({.bytes = fitting * 2, .samples = samples([&] {
                                                       device_.copy(to.data(), from.data(), fitting,
                                                                    cudaMemcpyDeviceToDevice, stream_);
                                                     })});
      if (fitting != size)
        note(
            fmt::format("memory is measured with {} bytes: out of memory for {}", fitting.value, size.value));
      return;
    } catch (const OutOfMemory&) {
      continue;
    }
  note(fmt::format("memory is not measured: out of memory for two buffers of {} bytes", kMiB.value));
}

Memory Measurement::numbers(ProductType type, std::int64_t count) const {
  Memory memory = device_.allocate(Bytes(count * size_of(type)));
  fill_with_numbers(device_, stream_, memory, type, options_.timeout);
  return memory;
}

void Measurement::measure_product(const MatrixProducts& products, const Product& product) {
  const Memory a = numbers(product.type, product.m * product.k),
               b = numbers(product.type, product.n * product.k);
  const Memory c = device_.allocate(Bytes(product.m * product.n * size_of(product.type)));
  const auto issue = [&] { products.issue(product, a.data(), b.data(), c.data()); };
  static_cast<void>(time(issue));  // cuBLAS chooses its kernel
  const double once = std::max(time(issue), 0.5e-6);
  const int batch = static_cast<int>(std::clamp(std::ceil(1e-3 / once), 1.0, 100.0));
  std::vector<double> seconds = samples([&] {
    for (int each = 0; each < batch; ++each) issue();
  });
  for (double& each : seconds) each /= batch;
  times_.products.push_back({.product = product, .samples = std::move(seconds)});
}

void Measurement::measure_products() {
  const Cublas blas = load_cublas(options_.places);
  const MatrixProducts products(device_, blas, stream_);
  for (const Product& product : options_.products) try {
      measure_product(products, product);
    } catch (const OutOfMemory&) {
      note(fmt::format("the {} product of {} x {} x {} is left out: out of memory", to_name(product.type),
                       product.m, product.n, product.k));
    }
}

}  // namespace

std::vector<Bytes> default_copy_sizes() {
  std::vector<Bytes> sizes;
  for (Bytes size = kMiB; size <= kGiB; size = size * 4) sizes.push_back(size);
  return sizes;
}

std::vector<Product> default_products() {
  std::vector<Product> products;
  for (const auto& [type, name] : EnumNames<ProductType>::table)
    for (const std::int64_t size : {1024, 2048, 4096, 8192})
      products.push_back({.type = type, .m = size, .n = size, .k = size});
  // (outputs, inputs): query, key and value in one; attention's output; gate and up in one; down; the head.
  constexpr std::array<std::pair<std::int64_t, std::int64_t>, 5> layers{
      {{6144, 4096}, {4096, 4096}, {28672, 4096}, {4096, 14336}, {128256, 4096}}};
  for (const std::int64_t tokens : {2048, 8192})
    for (const auto& [n, k] : layers)
      products.push_back({.type = ProductType::bfloat16, .m = tokens, .n = n, .k = k});
  return products;
}

DeviceTimes measure_device(const DeviceMeasurementOptions& options) {
  Measurement measurement(options);
  for (const HostMemory memory : {HostMemory::pinned, HostMemory::pageable})
    measurement.measure_copies(memory);
  for (const Bytes size : options.memory_sizes) measurement.measure_memory(size);
  if (!options.products.empty()) measurement.measure_products();
  return measurement.take();
}

}  // namespace zplan::bench
