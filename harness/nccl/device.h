#pragma once
// The GPU of a rank: memory, streams, events, copies.

#include <memory>
#include <string>

#include "harness/backend.h"
#include "harness/nccl/library.h"

namespace zplan::bench {

/// Owns a stream.
using Stream = std::unique_ptr<CUstream_st, cudaError_t (*)(cudaStream_t)>;
/// Owns an event.
using Event = std::unique_ptr<CUevent_st, cudaError_t (*)(cudaEvent_t)>;

/// Calls the CUDA runtime. Throws BenchError, which begins with `who` ("rank 2"), for calls that fail.
class Device {
 public:
  /// Makes the calling thread use GPU `index`. Throws BenchError.
  Device(CudaRuntime cuda, int index, std::string who);

  [[nodiscard]] const CudaRuntime& cuda() const { return cuda_; }
  [[nodiscard]] const std::string& who() const { return who_; }
  void check(cudaError_t result, const char* call) const;

  /// Throw OutOfMemory.
  [[nodiscard]] Memory allocate(Bytes size) const;
  [[nodiscard]] Memory allocate_pinned(Bytes size) const;

  [[nodiscard]] Stream stream() const;
  [[nodiscard]] Event event() const;  ///< for order alone
  [[nodiscard]] Event timing_event() const;
  void record(const Event& event, const Stream& stream) const;
  /// Makes all later work of `stream` wait for `event`.
  void wait(const Stream& stream, const Event& event) const;
  /// True if all work of `stream` has ended.
  [[nodiscard]] bool idle(const Stream& stream) const;
  /// True if a recorded `event` was reached.
  [[nodiscard]] bool reached(const Event& event) const;
  /// Returns the time between two timing events that were reached.
  [[nodiscard]] Seconds between(const Event& first, const Event& second) const;

  void copy(void* to, const void* from, Bytes size, cudaMemcpyKind kind, const Stream& stream) const;
  void fill(void* to, int byte, Bytes size, const Stream& stream) const;
  /// Waits until `stream` is idle. Throws BenchError, which names `what`, after `limit`.
  void finish(const Stream& stream, Seconds limit, const std::string& what) const;

 private:
  [[nodiscard]] bool is_ready(cudaError_t result, const char* call) const;
  [[nodiscard]] Event event_with(unsigned int flags) const;
  void check_memory(cudaError_t result, const char* call, Bytes size) const;

  CudaRuntime cuda_;
  std::string who_;
};

}  // namespace zplan::bench
