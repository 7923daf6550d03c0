#pragma once
// The functions of NVIDIA's libraries that the harness calls: one table per library, with the types of their
// headers. Written out are the types of functions that the headers overload.

#include <cublas_v2.h>
#include <cuda.h>
#include <nccl.h>

#include <cstddef>
#include <string>

#include "harness/nccl/shared_library.h"

namespace zplan::bench {

/// libcudart.
struct CudaRuntime {
  decltype(&::cudaGetDeviceCount) device_count{};
  decltype(&::cudaSetDevice) set_device{};
  decltype(&::cudaDeviceGetPCIBusId) pci_bus_id{};
  decltype(&::cudaRuntimeGetVersion) runtime_version{};
  decltype(&::cudaDriverGetVersion) driver_version{};
  decltype(&::cudaGetErrorString) error_string{};
  decltype(&::cudaGetLastError) last_error{};  ///< also forgets it
  cudaError_t (*allocate)(void**, std::size_t){};
  decltype(&::cudaFree) release{};
  cudaError_t (*allocate_host)(void**, std::size_t, unsigned int){};
  decltype(&::cudaFreeHost) release_host{};
  decltype(&::cudaMemcpyAsync) copy{};
  decltype(&::cudaMemsetAsync) fill{};
  decltype(&::cudaStreamCreateWithFlags) create_stream{};
  decltype(&::cudaStreamDestroy) destroy_stream{};
  decltype(&::cudaStreamQuery) query_stream{};
  decltype(&::cudaStreamWaitEvent) stream_wait{};
  decltype(&::cudaEventCreateWithFlags) create_event{};
  decltype(&::cudaEventDestroy) destroy_event{};
  decltype(&::cudaEventRecord) record{};
  decltype(&::cudaEventQuery) query_event{};
  decltype(&::cudaEventElapsedTime) elapsed{};
  int devices{};     ///< that the process may use; load_cuda() finds at least one
  std::string path;  ///< of the library
};

struct Cublas {
  decltype(&::cublasCreate_v2) create{};
  decltype(&::cublasDestroy_v2) destroy{};
  decltype(&::cublasSetStream_v2) set_stream{};
  decltype(&::cublasGetStatusString) status_string{};
  cublasStatus_t (*gemm)(cublasHandle_t, cublasOperation_t, cublasOperation_t, int, int, int, const void*,
                         const void*, cudaDataType, int, const void*, cudaDataType, int, const void*, void*,
                         cudaDataType, int, cublasComputeType_t, cublasGemmAlgo_t){};
  std::string path;
};

struct Nccl {
  decltype(&::ncclGetVersion) version{};
  decltype(&::ncclGetUniqueId) unique_id{};
  decltype(&::ncclCommInitRankConfig) init{};
  decltype(&::ncclCommSplit) split{};
  decltype(&::ncclCommUserRank) user_rank{};
  decltype(&::ncclCommCount) count{};
  decltype(&::ncclCommFinalize) finalize{};
  decltype(&::ncclCommDestroy) destroy{};
  decltype(&::ncclCommAbort) abort{};
  decltype(&::ncclCommGetAsyncError) async_error{};
  decltype(&::ncclGetErrorString) error_string{};
  decltype(&::ncclGetLastError) last_error{};
  decltype(&::ncclGroupStart) group_start{};
  decltype(&::ncclGroupEnd) group_end{};
  decltype(&::ncclAllReduce) all_reduce{};
  decltype(&::ncclAllGather) all_gather{};
  decltype(&::ncclReduceScatter) reduce_scatter{};
  decltype(&::ncclBroadcast) broadcast{};
  decltype(&::ncclReduce) reduce{};
  decltype(&::ncclSend) send{};
  decltype(&::ncclRecv) receive{};
  std::string path;
};

/// Throws InputError, with what to do, where there is no driver, no device, no library or not all of it, or
/// the driver is older than the runtime.
[[nodiscard]] CudaRuntime load_cuda(const LibraryPlaces& places);
[[nodiscard]] Nccl load_nccl(const LibraryPlaces& places);
[[nodiscard]] Cublas load_cublas(const LibraryPlaces& places);

/// The tables of libraries that are open. Throw InputError where a function is missing.
[[nodiscard]] CudaRuntime cuda_of(const SharedLibrary& library);
[[nodiscard]] Nccl nccl_of(const SharedLibrary& library);
[[nodiscard]] Cublas cublas_of(const SharedLibrary& library);

/// The driver's own version, "580.65.06": of NVML, else of /proc/driver/nvidia/version; empty where neither
/// says.
[[nodiscard]] std::string driver_version(const LibraryPlaces& places);
/// The version that the text of /proc/driver/nvidia/version names.
[[nodiscard]] std::string driver_version_in(const std::string& text);

/// 13000 as "13.0".
[[nodiscard]] std::string cuda_version_text(int version);
/// 22809 as "2.28.9".
[[nodiscard]] std::string nccl_version_text(int version);

}  // namespace zplan::bench
