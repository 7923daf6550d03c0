#include "harness/nccl/device.h"

#include <fmt/format.h>

#include <utility>

#include "harness/control.h"
#include "harness/timing.h"

namespace zplan::bench {

namespace {

std::size_t size_in(Bytes size) { return static_cast<std::size_t>(size.value); }

}  // namespace

Device::Device(CudaRuntime cuda, int index, std::string who) : cuda_(std::move(cuda)), who_(std::move(who)) {
  check(cuda_.set_device(index), "cudaSetDevice");
  // Before CUDA 12 cudaSetDevice alone creates no context, which NCCL's own runtime needs.
  check(cuda_.release(nullptr), "cudaFree");
}

void Device::check(cudaError_t result, const char* call) const {
  if (result == cudaSuccess) return;
  cuda_.last_error();
  throw BenchError(
      fmt::format("{}: {} fails: {} ({})", who_, call, cuda_.error_string(result), static_cast<int>(result)));
}

void Device::check_memory(cudaError_t result, const char* call, Bytes size) const {
  if (result != cudaErrorMemoryAllocation) return check(result, call);
  cuda_.last_error();  // or the next call, NCCL's too, would report it again
  throw OutOfMemory(fmt::format("{}: {} of {} bytes: out of memory", who_, call, size.value));
}

Memory Device::allocate(Bytes size) const {
  void* data = nullptr;
  check_memory(cuda_.allocate(&data, size_in(size)), "cudaMalloc", size);
  return {data, size, [release = cuda_.release](void* each) { release(each); }};
}

Memory Device::allocate_pinned(Bytes size) const {
  void* data = nullptr;
  check_memory(cuda_.allocate_host(&data, size_in(size), cudaHostAllocDefault), "cudaHostAlloc", size);
  return {data, size, [release = cuda_.release_host](void* each) { release(each); }};
}

Stream Device::stream() const {
  cudaStream_t stream = nullptr;
  check(cuda_.create_stream(&stream, cudaStreamNonBlocking), "cudaStreamCreateWithFlags");
  return {stream, cuda_.destroy_stream};
}

Event Device::event_with(unsigned int flags) const {
  cudaEvent_t event = nullptr;
  check(cuda_.create_event(&event, flags), "cudaEventCreateWithFlags");
  return {event, cuda_.destroy_event};
}

Event Device::event() const { return event_with(cudaEventDisableTiming); }
Event Device::timing_event() const { return event_with(cudaEventDefault); }

void Device::record(const Event& event, const Stream& stream) const {
  check(cuda_.record(event.get(), stream.get()), "cudaEventRecord");
}

void Device::wait(const Stream& stream, const Event& event) const {
  check(cuda_.stream_wait(stream.get(), event.get(), 0), "cudaStreamWaitEvent");
}

bool Device::is_ready(cudaError_t result, const char* call) const {
  if (result == cudaErrorNotReady) {
    cuda_.last_error();
    return false;
  }
  check(result, call);
  return true;
}

bool Device::idle(const Stream& stream) const {
  return is_ready(cuda_.query_stream(stream.get()), "cudaStreamQuery");
}

bool Device::reached(const Event& event) const {
  return is_ready(cuda_.query_event(event.get()), "cudaEventQuery");
}

Seconds Device::between(const Event& first, const Event& second) const {
  float milliseconds = 0;
  check(cuda_.elapsed(&milliseconds, first.get(), second.get()), "cudaEventElapsedTime");
  return Seconds(static_cast<double>(milliseconds) / 1000);
}

void Device::copy(void* to, const void* from, Bytes size, cudaMemcpyKind kind, const Stream& stream) const {
  check(cuda_.copy(to, from, size_in(size), kind, stream.get()), "cudaMemcpyAsync");
}

void Device::fill(void* to, int byte, Bytes size, const Stream& stream) const {
  check(cuda_.fill(to, byte, size_in(size), stream.get()), "cudaMemsetAsync");
}

void Device::finish(const Stream& stream, Seconds limit, const std::string& what) const {
  if (!wait_until(limit, [&] { return idle(stream); }))
    throw BenchError(fmt::format("{}: {} did not end within {} s", who_, what, limit.value));
}

}  // namespace zplan::bench
