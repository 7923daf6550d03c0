// Stands in for libcudart. See fake_cuda.h.

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <utility>

#include "fake_cuda.h"

namespace {

std::mutex g_mutex;
std::string g_calls, g_complaints, g_calls_out, g_complaints_out;
std::map<const char*, std::size_t> g_device, g_pinned;
std::map<const char*, int> g_device_of;
std::atomic<int> g_streams{0}, g_events{0};
thread_local cudaError_t t_error = cudaSuccess;
thread_local int t_device = 0;

long number(const char* name, long otherwise) {
  const char* text = std::getenv(name);
  return text == nullptr ? otherwise : std::atol(text);
}

cudaError_t result(cudaError_t code) {
  if (code != cudaSuccess) t_error = code;
  return code;
}

/// The allocation that `data` lies in, with g_mutex held.
bool lies_in(const std::map<const char*, std::size_t>& memory, const void* data, std::size_t size) {
  const auto* first = static_cast<const char*>(data);
  auto next = memory.upper_bound(first);
  if (next == memory.begin()) return false;
  --next;
  return first + size <= next->first + next->second;
}

bool is_pinned(const void* data, std::size_t size) {
  const std::scoped_lock lock(g_mutex);
  return lies_in(g_pinned, data, size);
}

std::size_t used(int device) {
  std::size_t sum = 0;
  for (const auto& [data, size] : g_device)
    if (g_device_of[data] == device) sum += size;
  return sum;
}

double copy_seconds(const void* host, std::size_t size) {
  return static_cast<double>(size) / (is_pinned(host, size) ? fake::kPinnedRate : fake::kPageableRate);
}

}  // namespace

namespace fake {

void record(const std::string& call) {
  const std::scoped_lock lock(g_mutex);
  g_calls += call + '\n';
}

void complain(const std::string& what) {
  const std::scoped_lock lock(g_mutex);
  g_complaints += what + '\n';
}

cudaError_t pending_error() { return t_error; }

bool is_device_memory(const void* data, std::size_t size) {
  const std::scoped_lock lock(g_mutex);
  return lies_in(g_device, data, size);
}

}  // namespace fake

CUstream_st::CUstream_st() : thread_([this] { run(); }) { ++g_streams; }

CUstream_st::~CUstream_st() {
  {
    const std::scoped_lock lock(mutex_);
    over_ = true;
  }
  wake_.notify_all();
  thread_.join();
  --g_streams;
}

void CUstream_st::enqueue(std::function<void()> job) {
  const std::scoped_lock lock(mutex_);
  jobs_.push_back(std::move(job));
  wake_.notify_all();
}

bool CUstream_st::idle() {
  const std::scoped_lock lock(mutex_);
  return jobs_.empty() && !busy_;
}

void CUstream_st::run() {
  std::unique_lock lock(mutex_);
  while (true) {
    wake_.wait(lock, [this] { return over_ || !jobs_.empty(); });
    if (jobs_.empty()) return;
    if (std::getenv("FAKE_CUDA_HANG") != nullptr) {
      if (over_) return;
      wake_.wait_for(lock, std::chrono::milliseconds(5));
      continue;
    }
    const std::function<void()> job = std::move(jobs_.front());
    jobs_.pop_front();
    busy_ = true;
    lock.unlock();
    clock += fake::kLaunch;
    job();
    lock.lock();
    busy_ = false;
  }
}

/// Marks of an event. Work on a stream may refer to a destroyed event, so marks live as long as either.
struct Marks {
  std::mutex mutex;
  std::condition_variable reached;
  unsigned long recorded{}, done{};
  double time{};
};

struct CUevent_st {
  std::shared_ptr<Marks> marks{std::make_shared<Marks>()};
  bool with_time{};
};

extern "C" {
#pragma GCC visibility push(default)

const char* fake_calls() {
  const std::scoped_lock lock(g_mutex);
  return (g_calls_out = g_calls).c_str();
}

const char* fake_complaints() {
  const std::scoped_lock lock(g_mutex);
  return (g_complaints_out = g_complaints).c_str();
}

void fake_reset() {
  const std::scoped_lock lock(g_mutex);
  g_calls.clear(), g_complaints.clear();
}

int fake_left_behind() {
  const std::scoped_lock lock(g_mutex);
  return static_cast<int>(g_device.size() + g_pinned.size()) + g_streams + g_events;
}

cudaError_t cudaRuntimeGetVersion(int* version) {
  *version = 13000;
  return cudaSuccess;
}

cudaError_t cudaDriverGetVersion(int* version) {
  *version = static_cast<int>(number("FAKE_CUDA_DRIVER", 13000));
  return cudaSuccess;
}

cudaError_t cudaGetDeviceCount(int* count) {
  *count = 0;
  if (number("FAKE_CUDA_DRIVER", 13000) < 13000) return result(cudaErrorInsufficientDriver);
  *count = static_cast<int>(number("FAKE_CUDA_DEVICES", 8));
  return *count < 0 ? result(cudaErrorSystemNotReady) : *count == 0 ? result(cudaErrorNoDevice) : cudaSuccess;
}

cudaError_t cudaSetDevice(int device) {
  if (device < 0 || device >= number("FAKE_CUDA_DEVICES", 8)) return result(cudaErrorInvalidDevice);
  t_device = device;
  return cudaSuccess;
}

cudaError_t cudaGetDevice(int* device) {
  *device = t_device;
  return cudaSuccess;
}

cudaError_t cudaDeviceGetPCIBusId(char* text, int length, int device) {
  std::snprintf(text, static_cast<std::size_t>(length), "0000:%02x:00.0", 0x10 + device);
  return cudaSuccess;
}

const char* cudaGetErrorString(cudaError_t error) {
  switch (error) {
    case cudaErrorMemoryAllocation: return "out of memory";
    case cudaErrorInvalidDevice: return "invalid device ordinal";
    case cudaErrorSystemNotReady: return "system not yet initialized";
    default: return "an error of the stand-in";
  }
}

cudaError_t cudaGetLastError() { return std::exchange(t_error, cudaSuccess); }

cudaError_t cudaMalloc(void** data, std::size_t size) {
  const std::scoped_lock lock(g_mutex);
  const auto limit = static_cast<std::size_t>(number("FAKE_CUDA_MEMORY", 1L << 30));
  *data = nullptr;
  if (used(t_device) + size > limit) return result(cudaErrorMemoryAllocation);
  *data = std::malloc(size);  // not set to zero: a real device's is not, either
  g_device[static_cast<const char*>(*data)] = size;
  g_device_of[static_cast<const char*>(*data)] = t_device;
  return cudaSuccess;
}

cudaError_t cudaFree(void* data) {
  if (data == nullptr) return cudaSuccess;
  const std::scoped_lock lock(g_mutex);
  if (g_device.erase(static_cast<const char*>(data)) == 0) return result(cudaErrorInvalidValue);
  std::free(data);
  return cudaSuccess;
}

cudaError_t cudaHostAlloc(void** data, std::size_t size, unsigned int) {
  const std::scoped_lock lock(g_mutex);
  *data = nullptr;
  if (size > static_cast<std::size_t>(number("FAKE_CUDA_HOST_MEMORY", 1L << 30)))
    return result(cudaErrorMemoryAllocation);
  *data = std::malloc(size);
  g_pinned[static_cast<const char*>(*data)] = size;
  return cudaSuccess;
}

cudaError_t cudaFreeHost(void* data) {
  const std::scoped_lock lock(g_mutex);
  if (g_pinned.erase(static_cast<const char*>(data)) == 0) return result(cudaErrorInvalidValue);
  std::free(data);
  return cudaSuccess;
}

cudaError_t cudaMemcpyAsync(void* to, const void* from, std::size_t size, cudaMemcpyKind kind,
                            cudaStream_t stream) {
  const bool to_device = kind == cudaMemcpyHostToDevice || kind == cudaMemcpyDeviceToDevice;
  const bool from_device = kind == cudaMemcpyDeviceToHost || kind == cudaMemcpyDeviceToDevice;
  if (fake::is_device_memory(to, size) != to_device || fake::is_device_memory(from, size) != from_device) {
    fake::complain("cudaMemcpyAsync: kind does not match the pointers");
    return result(cudaErrorInvalidValue);
  }
  const double seconds = kind == cudaMemcpyDeviceToDevice ? 2 * static_cast<double>(size) / fake::kDeviceRate
                                                          : copy_seconds(to_device ? from : to, size);
  stream->enqueue([=] {
    // A rank that sends nothing may have no buffer; memcpy takes no null even then.
    if (size > 0) std::memcpy(to, from, size);
    stream->clock += seconds;
  });
  return cudaSuccess;
}

cudaError_t cudaMemsetAsync(void* to, int byte, std::size_t size, cudaStream_t stream) {
  if (!fake::is_device_memory(to, size)) return result(cudaErrorInvalidValue);
  stream->enqueue([=] {
    if (size > 0) std::memset(to, byte, size);
  });
  return cudaSuccess;
}

cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned int flags) {
  if (flags != cudaStreamNonBlocking) fake::complain("a stream that waits for the legacy default stream");
  *stream = new CUstream_st;
  return cudaSuccess;
}

cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  delete stream;
  return cudaSuccess;
}

cudaError_t cudaStreamQuery(cudaStream_t stream) {
  return stream->idle() ? cudaSuccess : result(cudaErrorNotReady);
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned int flags) {
  *event = new CUevent_st;
  (*event)->with_time = (flags & cudaEventDisableTiming) == 0;
  ++g_events;
  return cudaSuccess;
}

cudaError_t cudaEventDestroy(cudaEvent_t event) {
  delete event;
  --g_events;
  return cudaSuccess;
}

cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  const std::scoped_lock lock(event->marks->mutex);
  const unsigned long which = ++event->marks->recorded;
  stream->enqueue([marks = event->marks, stream, which] {
    stream->clock -= fake::kLaunch;  // costs nothing itself
    const std::scoped_lock inner(marks->mutex);
    marks->done = which;
    marks->time = stream->clock;
    marks->reached.notify_all();
  });
  return cudaSuccess;
}

cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned int) {
  const std::scoped_lock lock(event->marks->mutex);
  stream->enqueue([marks = event->marks, stream, wanted = event->marks->recorded] {
    std::unique_lock inner(marks->mutex);
    marks->reached.wait(inner, [&] { return marks->done >= wanted; });
    stream->clock = std::max(stream->clock - fake::kLaunch, marks->time);
  });
  return cudaSuccess;
}

cudaError_t cudaEventQuery(cudaEvent_t event) {
  const std::scoped_lock lock(event->marks->mutex);
  return event->marks->done == event->marks->recorded ? cudaSuccess : result(cudaErrorNotReady);
}

cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t begin, cudaEvent_t end) {
  const std::scoped_lock lock(begin->marks->mutex, end->marks->mutex);
  for (const auto* event : {begin, end}) {
    if (event->marks->recorded == 0 || !event->with_time) return result(cudaErrorInvalidResourceHandle);
    if (event->marks->done != event->marks->recorded) return result(cudaErrorNotReady);
  }
  *milliseconds = static_cast<float>((end->marks->time - begin->marks->time) * 1e3);
  return cudaSuccess;
}

#pragma GCC visibility pop
}
