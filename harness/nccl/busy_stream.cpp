#include "harness/nccl/busy_stream.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "harness/error.h"

namespace zplan::bench {

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
  // Events tell half a microsecond apart: nothing measures as no time at all.
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
