#pragma once
// The functions of NVIDIA's libraries that the harness calls: one table per library, under the signatures of
// their headers.

#include <cublas_v2.h>
#include <cuda.h>
#include <nccl.h>

#include <cstddef>
#include <string>

#include "harness/nccl/shared_library.h"

namespace zplan::bench {

/// libcudart.
struct CudaRuntime {
  cudaError_t (*device_count)(int*){};
  cudaError_t (*set_device)(int){};
  cudaError_t (*pci_bus_id)(char*, int, int){};
  cudaError_t (*runtime_version)(int*){};
  cudaError_t (*driver_version)(int*){};
  const char* (*error_string)(cudaError_t){};
  cudaError_t (*last_error)(){};  ///< also forgets it
  cudaError_t (*allocate)(void**, std::size_t){};
  cudaError_t (*release)(void*){};
  cudaError_t (*allocate_host)(void**, std::size_t, unsigned int){};
  cudaError_t (*release_host)(void*){};
  cudaError_t (*copy)(void*, const void*, std::size_t, cudaMemcpyKind, cudaStream_t){};
  cudaError_t (*fill)(void*, int, std::size_t, cudaStream_t){};
  cudaError_t (*create_stream)(cudaStream_t*, unsigned int){};
  cudaError_t (*destroy_stream)(cudaStream_t){};
  cudaError_t (*query_stream)(cudaStream_t){};
  cudaError_t (*stream_wait)(cudaStream_t, cudaEvent_t, unsigned int){};
  cudaError_t (*create_event)(cudaEvent_t*, unsigned int){};
  cudaError_t (*destroy_event)(cudaEvent_t){};
  cudaError_t (*record)(cudaEvent_t, cudaStream_t){};
  cudaError_t (*query_event)(cudaEvent_t){};
  cudaError_t (*elapsed)(float*, cudaEvent_t, cudaEvent_t){};
  int devices{};     ///< that the process may use; load_cuda() finds at least one
  std::string path;  ///< of the library
};

struct Cublas {
  cublasStatus_t (*create)(cublasHandle_t*){};
  cublasStatus_t (*destroy)(cublasHandle_t){};
  cublasStatus_t (*set_stream)(cublasHandle_t, cudaStream_t){};
  const char* (*status_string)(cublasStatus_t){};
  cublasStatus_t (*gemm)(cublasHandle_t, cublasOperation_t, cublasOperation_t, int, int, int, const void*,
                         const void*, cudaDataType, int, const void*, cudaDataType, int, const void*, void*,
                         cudaDataType, int, cublasComputeType_t, cublasGemmAlgo_t){};
  std::string path;
};

struct Nccl {
  ncclResult_t (*version)(int*){};
  ncclResult_t (*unique_id)(ncclUniqueId*){};
  ncclResult_t (*init)(ncclComm_t*, int, ncclUniqueId, int, ncclConfig_t*){};
  ncclResult_t (*split)(ncclComm_t, int, int, ncclComm_t*, ncclConfig_t*){};
  ncclResult_t (*user_rank)(ncclComm_t, int*){};
  ncclResult_t (*count)(ncclComm_t, int*){};
  ncclResult_t (*finalize)(ncclComm_t){};
  ncclResult_t (*destroy)(ncclComm_t){};
  ncclResult_t (*abort)(ncclComm_t){};
  ncclResult_t (*async_error)(ncclComm_t, ncclResult_t*){};
  const char* (*error_string)(ncclResult_t){};
  const char* (*last_error)(ncclComm_t){};
  ncclResult_t (*group_start)(){};
  ncclResult_t (*group_end)(){};
  ncclResult_t (*all_reduce)(const void*, void*, std::size_t, ncclDataType_t, ncclRedOp_t, ncclComm_t,
                             cudaStream_t){};
  ncclResult_t (*all_gather)(const void*, void*, std::size_t, ncclDataType_t, ncclComm_t, cudaStream_t){};
  ncclResult_t (*reduce_scatter)(const void*, void*, std::size_t, ncclDataType_t, ncclRedOp_t, ncclComm_t,
                                 cudaStream_t){};
  ncclResult_t (*broadcast)(const void*, void*, std::size_t, ncclDataType_t, int, ncclComm_t, cudaStream_t){};
  ncclResult_t (*reduce)(const void*, void*, std::size_t, ncclDataType_t, ncclRedOp_t, int, ncclComm_t,
                         cudaStream_t){};
  ncclResult_t (*send)(const void*, std::size_t, ncclDataType_t, int, ncclComm_t, cudaStream_t){};
  ncclResult_t (*receive)(void*, std::size_t, ncclDataType_t, int, ncclComm_t, cudaStream_t){};
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
