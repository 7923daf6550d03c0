#include "harness/nccl/library.h"

#include <fmt/format.h>

#include <array>
#include <fstream>
#include <iterator>

#include "models/base/error.h"
#include "models/base/pattern.h"

namespace zplan::bench {

namespace {

constexpr const char* place = "--backend nccl";

[[noreturn]] void refuse(std::string found, std::string accepted) {
  throw InputError(place, std::move(found), std::move(accepted));
}

SharedLibrary need(const std::vector<std::string>& names, const LibraryPlaces& places) {
  SharedLibrary library = open_library(names, places);
  if (library.handle != nullptr) return library;
  if (!library.trouble.empty())
    refuse(fmt::format("{} does not load: {}", names.front(), library.trouble), "use --backend mpi");
  refuse(fmt::format("{} was not found in {}", names.front(), to_text(places)),
         "set ZPLAN_CUDA_PATH to its folder, or use --backend mpi");
}

template <class Function>
void bind(Function& member, const SharedLibrary& library, const char* symbol, const char* since) {
  member = reinterpret_cast<Function>(find_symbol(library, symbol));
  if (member == nullptr) refuse(fmt::format("{} has no {}", library.path, symbol), since);
}

#define ZPLAN_BIND(member, symbol) bind(member, library, #symbol, since)

void bind_copies(CudaRuntime& cuda, const SharedLibrary& library, const char* since) {
  static_assert(requires { cuda.allocate = &::cudaMalloc, cuda.allocate_host = &::cudaHostAlloc; });
  ZPLAN_BIND(cuda.allocate, cudaMalloc);
  ZPLAN_BIND(cuda.release, cudaFree);
  ZPLAN_BIND(cuda.allocate_host, cudaHostAlloc);
  ZPLAN_BIND(cuda.release_host, cudaFreeHost);
  ZPLAN_BIND(cuda.copy, cudaMemcpyAsync);
  ZPLAN_BIND(cuda.fill, cudaMemsetAsync);
}

void bind_streams(CudaRuntime& cuda, const SharedLibrary& library, const char* since) {
  ZPLAN_BIND(cuda.create_stream, cudaStreamCreateWithFlags);
  ZPLAN_BIND(cuda.destroy_stream, cudaStreamDestroy);
  ZPLAN_BIND(cuda.query_stream, cudaStreamQuery);
  ZPLAN_BIND(cuda.stream_wait, cudaStreamWaitEvent);
  ZPLAN_BIND(cuda.create_event, cudaEventCreateWithFlags);
  ZPLAN_BIND(cuda.destroy_event, cudaEventDestroy);
  ZPLAN_BIND(cuda.record, cudaEventRecord);
  ZPLAN_BIND(cuda.query_event, cudaEventQuery);
  ZPLAN_BIND(cuda.elapsed, cudaEventElapsedTime);
}

void bind_communicators(Nccl& nccl, const SharedLibrary& library, const char* since) {
  ZPLAN_BIND(nccl.version, ncclGetVersion);
  ZPLAN_BIND(nccl.unique_id, ncclGetUniqueId);
  ZPLAN_BIND(nccl.init, ncclCommInitRankConfig);
  ZPLAN_BIND(nccl.user_rank, ncclCommUserRank);
  ZPLAN_BIND(nccl.count, ncclCommCount);
  ZPLAN_BIND(nccl.finalize, ncclCommFinalize);
  ZPLAN_BIND(nccl.destroy, ncclCommDestroy);
  ZPLAN_BIND(nccl.abort, ncclCommAbort);
  ZPLAN_BIND(nccl.async_error, ncclCommGetAsyncError);
  ZPLAN_BIND(nccl.error_string, ncclGetErrorString);
  ZPLAN_BIND(nccl.last_error, ncclGetLastError);
  ZPLAN_BIND(nccl.split, ncclCommSplit);
}

void bind_collectives(Nccl& nccl, const SharedLibrary& library, const char* since) {
  ZPLAN_BIND(nccl.group_start, ncclGroupStart);
  ZPLAN_BIND(nccl.group_end, ncclGroupEnd);
  ZPLAN_BIND(nccl.all_reduce, ncclAllReduce);
  ZPLAN_BIND(nccl.all_gather, ncclAllGather);
  ZPLAN_BIND(nccl.reduce_scatter, ncclReduceScatter);
  ZPLAN_BIND(nccl.broadcast, ncclBroadcast);
  ZPLAN_BIND(nccl.reduce, ncclReduce);
  ZPLAN_BIND(nccl.send, ncclSend);
  ZPLAN_BIND(nccl.receive, ncclRecv);
}

/// Returns the newest version of CUDA that the driver supports.
int served_version(const LibraryPlaces& places) {
  const SharedLibrary driver = open_library({"libcuda.so.1"}, places);
  if (driver.handle == nullptr && driver.trouble.empty())
    refuse("no NVIDIA driver: libcuda.so.1 was not found", "use --backend mpi");
  if (driver.handle == nullptr)
    refuse(fmt::format("no NVIDIA driver: libcuda.so.1 does not load: {}", driver.trouble),
           "use --backend mpi");
  decltype(&::cuDriverGetVersion) get{};
  bind(get, driver, "cuDriverGetVersion", "a driver of NVIDIA");
  int version = 0;
  return get(&version) == CUDA_SUCCESS ? version : 0;
}

/// Returns "libcudart.so.13" and so on, those that a driver for CUDA `version` supports first.
std::vector<std::string> of_versions(const std::string& name, int version, const std::string& of_cuda_11) {
  std::vector<std::string> served, newer;
  for (const int major : {13, 12, 11}) {
    const std::string suffix = major == 11 ? of_cuda_11 : std::to_string(major);
    (major <= version / 1000 ? served : newer).push_back(fmt::format("{}.so.{}", name, suffix));
  }
  served.insert(served.end(), newer.begin(), newer.end());
  return served;
}

[[noreturn]] void refuse_old_driver(const CudaRuntime& cuda) {
  int runtime = 0, driver = 0;
  cuda.runtime_version(&runtime), cuda.driver_version(&driver);
  refuse(fmt::format("the NVIDIA driver serves CUDA {}, {} is of CUDA {}", cuda_version_text(driver),
                     cuda.path, cuda_version_text(runtime)),
         fmt::format("install a newer driver, or set ZPLAN_CUDA_PATH to a folder with CUDA {}'s libraries",
                     driver / 1000));
}

int count_devices(const CudaRuntime& cuda) {
  int devices = 0;
  const cudaError_t result = cuda.device_count(&devices);
  if (result == cudaErrorInsufficientDriver) refuse_old_driver(cuda);
  if (result == cudaErrorNoDevice) devices = 0;
  if (result != cudaSuccess && result != cudaErrorNoDevice)
    refuse(fmt::format("no NVIDIA GPU: cudaGetDeviceCount fails: {} ({})", cuda.error_string(result),
                       static_cast<int>(result)),
           "use --backend mpi");
  if (devices == 0) refuse("no NVIDIA GPU: cudaGetDeviceCount says 0", "use --backend mpi");
  return devices;
}

std::string version_of_nvml(const LibraryPlaces& places) {
  const SharedLibrary library = open_library({"libnvidia-ml.so.1"}, places);
  if (library.handle == nullptr) return "";
  const auto init = reinterpret_cast<int (*)()>(find_symbol(library, "nvmlInit_v2"));
  const auto shutdown = reinterpret_cast<int (*)()>(find_symbol(library, "nvmlShutdown"));
  const auto version =
      reinterpret_cast<int (*)(char*, unsigned int)>(find_symbol(library, "nvmlSystemGetDriverVersion"));
  if (init == nullptr || shutdown == nullptr || version == nullptr || init() != 0) return "";
  std::array<char, 96> text{};
  const bool known = version(text.data(), text.size() - 1) == 0;
  shutdown();
  return known ? text.data() : "";
}

}  // namespace

CudaRuntime cuda_of(const SharedLibrary& library) {
  const char* since = "CUDA 11 or newer";
  CudaRuntime cuda;
  cuda.path = library.path;
  ZPLAN_BIND(cuda.device_count, cudaGetDeviceCount);
  ZPLAN_BIND(cuda.set_device, cudaSetDevice);
  ZPLAN_BIND(cuda.pci_bus_id, cudaDeviceGetPCIBusId);
  ZPLAN_BIND(cuda.runtime_version, cudaRuntimeGetVersion);
  ZPLAN_BIND(cuda.driver_version, cudaDriverGetVersion);
  ZPLAN_BIND(cuda.error_string, cudaGetErrorString);
  ZPLAN_BIND(cuda.last_error, cudaGetLastError);
  bind_copies(cuda, library, since);
  bind_streams(cuda, library, since);
  return cuda;
}

Nccl nccl_of(const SharedLibrary& library) {
  const char* since = "NCCL 2.18 or newer";
  Nccl nccl;
  nccl.path = library.path;
  bind_communicators(nccl, library, since);
  bind_collectives(nccl, library, since);
  return nccl;
}

Cublas cublas_of(const SharedLibrary& library) {
  const char* since = "cuBLAS 11.4.2 or newer";
  Cublas blas;
  blas.path = library.path;
  ZPLAN_BIND(blas.create, cublasCreate_v2);
  ZPLAN_BIND(blas.destroy, cublasDestroy_v2);
  ZPLAN_BIND(blas.set_stream, cublasSetStream_v2);
  ZPLAN_BIND(blas.status_string, cublasGetStatusString);
  static_assert(requires { blas.gemm = &::cublasGemmEx; });
  ZPLAN_BIND(blas.gemm, cublasGemmEx);
  return blas;
}

CudaRuntime load_cuda(const LibraryPlaces& places) {
  const int version = served_version(places);
  CudaRuntime cuda = cuda_of(need(of_versions("libcudart", version, "11.0"), places));
  cuda.devices = count_devices(cuda);
  return cuda;
}

Nccl load_nccl(const LibraryPlaces& places) { return nccl_of(need({"libnccl.so.2"}, places)); }

Cublas load_cublas(const LibraryPlaces& places) {
  return cublas_of(need(of_versions("libcublas", served_version(places), "11"), places));
}

std::string driver_version_in(const std::string& text) {
  static const Pattern number(R"(\s(\d+\.\d+(\.\d+)?)\s)");
  const auto match = number.find(text);
  return match ? std::string((*match)[1]) : "";
}

std::string driver_version(const LibraryPlaces& places) {
  if (std::string version = version_of_nvml(places); !version.empty()) return version;
  std::ifstream file("/proc/driver/nvidia/version");
  return driver_version_in({std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()});
}

std::string cuda_version_text(int version) {
  return fmt::format("{}.{}", version / 1000, version % 1000 / 10);
}

std::string nccl_version_text(int version) {
  return fmt::format("{}.{}.{}", version / 10000, version % 10000 / 100, version % 100);
}

}  // namespace zplan::bench
