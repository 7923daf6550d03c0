#pragma once
// A GPU's driver and runtime as far as the harness calls them: device memory is memory of the host, a stream
// is a thread that does what it is given in order. Time is counted, not measured: every job adds what it
// would take at the rates below, and events read that clock, so that a test knows each duration to the digit.
//
// Faults, by environment variables that are read when a call needs them:
//   FAKE_CUDA_DEVICES   number of devices, 8 if unset
//   FAKE_CUDA_DRIVER    version that the driver serves, 13000 if unset
//   FAKE_CUDA_MEMORY    bytes of each device, 1 GiB if unset; FAKE_CUDA_HOST_MEMORY of pinned memory
//   FAKE_CUDA_HANG      streams no longer do what they are given

#include <cuda_runtime_api.h>

#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <string>
#include <thread>

namespace fake {

inline constexpr double kLaunch = 1e-6;           // s, of anything on a stream
inline constexpr double kPinnedRate = 50e9;       // B/s
inline constexpr double kPageableRate = 10e9;     // B/s
inline constexpr double kDeviceRate = 2000e9;     // B/s, read and written together
inline constexpr double kCollectiveRate = 100e9;  // B/s of the largest buffer
inline constexpr double kFlops16 = 800e12, kFlopsTf32 = 400e12, kFlops32 = 50e12;

/// Record a call with its arguments, and a violation of the library's rules.
void record(const std::string& call);
void complain(const std::string& what);
/// The calling thread's error that no one has asked for yet.
[[nodiscard]] cudaError_t pending_error();
/// `size` bytes from `data` on lie in one allocation of a device.
[[nodiscard]] bool is_device_memory(const void* data, std::size_t size);

}  // namespace fake

struct CUstream_st {
  CUstream_st();
  CUstream_st(const CUstream_st&) = delete;
  CUstream_st& operator=(const CUstream_st&) = delete;
  ~CUstream_st();

  /// `job` runs on the stream's thread, which alone touches `clock`.
  void enqueue(std::function<void()> job);
  [[nodiscard]] bool idle();

  double clock{};  ///< seconds

 private:
  void run();
  std::mutex mutex_;
  std::condition_variable wake_;
  std::deque<std::function<void()>> jobs_;
  bool over_{}, busy_{};
  std::thread thread_;
};

extern "C" {
/// For tests: everything since the last reset, a line each; valid until the next call of the same function.
const char* fake_calls();
const char* fake_complaints();
void fake_reset();
/// Allocations of device and pinned memory, streams and events that are still there.
int fake_left_behind();
}
