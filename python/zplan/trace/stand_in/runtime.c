/* A CUDA runtime and cuBLAS without a GPU, loaded before PyTorch's (LD_PRELOAD).
 *
 * It hands out address space for device memory and launches nothing, so that PyTorch's own CUDA code (operators'
 * host side, autograd, the caching allocator) runs as it would on a GPU of compute capability 8.0: what it
 * allocates and frees is real, what it computes is not. Memory that is copied back reads as zeros. */
#define _GNU_SOURCE
#include <cuda_runtime_api.h>
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#undef cudaGetDeviceProperties

#define DONE return cudaSuccess
#define SUCCEEDS(name, ...) \
  cudaError_t name(__VA_ARGS__) { DONE; }

enum { kMajor = 8, kMinor = 0, kProcessors = 108 };
static const size_t kSpan = (size_t)62 << 40;   /* addresses, of which each is used once */
static const size_t kGranularity = 2 << 20;

/* Bytes that the device says it has. No request is refused for them. */
static size_t device_memory(void) {
  const char *given = getenv("ZPLAN_STAND_IN_MEMORY");
  return given ? strtoull(given, 0, 10) : (size_t)31 << 40;
}

/* ---- memory */

static pthread_mutex_t memory_lock = PTHREAD_MUTEX_INITIALIZER;
static char *first, *next;
static size_t held;

/* Blocks in the order of their addresses, which is the order in which they were asked for. */
static struct block {
  char *at;
  size_t size;
} *blocks;
static size_t block_count, block_capacity;

static void remember(char *at, size_t size) {
  if (block_count == block_capacity) {
    block_capacity = block_capacity ? 2 * block_capacity : 1024;
    if (!(blocks = realloc(blocks, block_capacity * sizeof *blocks))) abort();
  }
  blocks[block_count++] = (struct block){at, size};
  held += size;
}

static int by_address(const void *a, const void *b) {
  const char *left = ((const struct block *)a)->at, *right = ((const struct block *)b)->at;
  return (left > right) - (left < right);
}

static int is_device(const void *p) { return first && (const char *)p >= first && (const char *)p < first + kSpan; }

cudaError_t cudaMalloc(void **p, size_t size) {
  cudaError_t result = cudaSuccess;
  pthread_mutex_lock(&memory_lock);
  if (!first) {
    first = next = mmap(0, kSpan, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (first == MAP_FAILED) abort();
  }
  size = (size + kGranularity - 1) / kGranularity * kGranularity;
  if (size > (size_t)(first + kSpan - next)) {
    *p = 0;
    result = cudaErrorMemoryAllocation;
  } else {
    *p = next;
    next += size;
    remember(*p, size);
  }
  pthread_mutex_unlock(&memory_lock);
  return result;
}
cudaError_t cudaFree(void *p) {
  const struct block wanted = {p, 0};
  pthread_mutex_lock(&memory_lock);
  struct block *found = bsearch(&wanted, blocks, block_count, sizeof *blocks, by_address);
  if (found) {
    held -= found->size;
    found->size = 0;
  }
  pthread_mutex_unlock(&memory_lock);
  DONE;
}
cudaError_t cudaMallocAsync(void **p, size_t size, cudaStream_t s) { return cudaMalloc(p, size); }
cudaError_t cudaFreeAsync(void *p, cudaStream_t s) { return cudaFree(p); }
cudaError_t cudaMemGetInfo(size_t *free_bytes, size_t *total) {
  pthread_mutex_lock(&memory_lock);
  *total = device_memory();
  *free_bytes = held < *total ? *total - held : 0;
  pthread_mutex_unlock(&memory_lock);
  DONE;
}

static void copy(void *to, const void *from, size_t size) {
  if (is_device(to)) return;
  if (is_device(from))
    memset(to, 0, size);
  else
    memcpy(to, from, size);
}
cudaError_t cudaMemcpy(void *to, const void *from, size_t size, enum cudaMemcpyKind kind) {
  copy(to, from, size);
  DONE;
}
cudaError_t cudaMemcpyAsync(void *to, const void *from, size_t size, enum cudaMemcpyKind kind, cudaStream_t s) {
  copy(to, from, size);
  DONE;
}
SUCCEEDS(cudaMemcpyPeerAsync, void *to, int a, const void *from, int b, size_t size, cudaStream_t s)
SUCCEEDS(cudaMemcpy2DAsync, void *to, size_t tp, const void *from, size_t fp, size_t w, size_t h, enum cudaMemcpyKind k,
         cudaStream_t s)
SUCCEEDS(cudaMemcpyToSymbol, const void *symbol, const void *from, size_t size, size_t offset, enum cudaMemcpyKind kind)
cudaError_t cudaGetSymbolAddress(void **p, const void *symbol) { return cudaMalloc(p, 4096); }
SUCCEEDS(cudaMemset, void *p, int value, size_t size)
SUCCEEDS(cudaMemsetAsync, void *p, int value, size_t size, cudaStream_t s)
cudaError_t cudaHostAlloc(void **p, size_t size, unsigned flags) {
  return posix_memalign(p, 4096, size ? size : 1) ? cudaErrorMemoryAllocation : cudaSuccess;
}
cudaError_t cudaFreeHost(void *p) {
  free(p);
  DONE;
}
SUCCEEDS(cudaHostRegister, void *p, size_t size, unsigned flags)
SUCCEEDS(cudaHostUnregister, void *p)
cudaError_t cudaPointerGetAttributes(struct cudaPointerAttributes *about, const void *p) {
  memset(about, 0, sizeof *about);
  about->type = is_device(p) ? cudaMemoryTypeDevice : cudaMemoryTypeUnregistered;
  if (is_device(p))
    about->devicePointer = (void *)p;
  else
    about->hostPointer = (void *)p;
  DONE;
}

/* ---- the device */

#define SAYS(name, type, value) \
  cudaError_t name(type *v) {   \
    *v = value;                 \
    DONE;                       \
  }
SAYS(cudaGetDeviceCount, int, 1)
SAYS(cudaGetDevice, int, 0)
SAYS(cudaDriverGetVersion, int, CUDART_VERSION)
SAYS(cudaRuntimeGetVersion, int, CUDART_VERSION)
cudaError_t cudaSetDevice(int device) { return device == 0 ? cudaSuccess : cudaErrorInvalidDevice; }

cudaError_t cudaGetDeviceProperties(struct cudaDeviceProp *about, int device) {
  memset(about, 0, sizeof *about);
  strcpy(about->name, "stand-in");
  about->totalGlobalMem = device_memory();
  about->major = kMajor, about->minor = kMinor;
  about->warpSize = 32;
  about->maxThreadsPerBlock = about->maxThreadsDim[0] = about->maxThreadsDim[1] = 1024;
  about->maxThreadsDim[2] = 64;
  about->maxGridSize[0] = INT32_MAX;
  about->maxGridSize[1] = about->maxGridSize[2] = UINT16_MAX;
  about->multiProcessorCount = kProcessors;
  about->maxThreadsPerMultiProcessor = 2048, about->maxBlocksPerMultiProcessor = 32;
  about->sharedMemPerBlock = 48 << 10;
  about->sharedMemPerBlockOptin = 163 << 10, about->sharedMemPerMultiprocessor = 164 << 10;
  about->regsPerBlock = about->regsPerMultiprocessor = 65536;
  about->l2CacheSize = 40 << 20, about->totalConstMem = 65536;
  about->textureAlignment = 512, about->texturePitchAlignment = 32;
  about->concurrentKernels = about->unifiedAddressing = about->managedMemory = about->cooperativeLaunch = 1;
  about->memoryBusWidth = 5120, about->asyncEngineCount = 3, about->streamPrioritiesSupported = 1;
  DONE;
}

cudaError_t cudaDeviceGetAttribute(int *v, enum cudaDeviceAttr which, int device) {
  struct cudaDeviceProp about;
  cudaGetDeviceProperties(&about, device);
  switch (which) {
    case cudaDevAttrComputeCapabilityMajor: *v = kMajor; break;
    case cudaDevAttrComputeCapabilityMinor: *v = kMinor; break;
    case cudaDevAttrMultiProcessorCount: *v = kProcessors; break;
    case cudaDevAttrMaxSharedMemoryPerBlock: *v = (int)about.sharedMemPerBlock; break;
    case cudaDevAttrMaxSharedMemoryPerBlockOptin: *v = (int)about.sharedMemPerBlockOptin; break;
    case cudaDevAttrMaxSharedMemoryPerMultiprocessor: *v = (int)about.sharedMemPerMultiprocessor; break;
    case cudaDevAttrWarpSize: *v = about.warpSize; break;
    case cudaDevAttrMaxThreadsPerBlock: *v = about.maxThreadsPerBlock; break;
    case cudaDevAttrMaxThreadsPerMultiProcessor: *v = about.maxThreadsPerMultiProcessor; break;
    case cudaDevAttrMaxGridDimX: *v = about.maxGridSize[0]; break;
    case cudaDevAttrMaxGridDimY:
    case cudaDevAttrMaxGridDimZ: *v = about.maxGridSize[1]; break;
    case cudaDevAttrL2CacheSize: *v = about.l2CacheSize; break;
    default: *v = 0;
  }
  DONE;
}
cudaError_t cudaDeviceCanAccessPeer(int *v, int a, int b) {
  *v = 0;
  DONE;
}
SUCCEEDS(cudaDeviceEnablePeerAccess, int a, unsigned flags)
cudaError_t cudaDeviceGetPCIBusId(char *s, int n, int device) {
  strncpy(s, "0000:00:00.0", (size_t)n);
  DONE;
}
cudaError_t cudaDeviceGetStreamPriorityRange(int *least, int *greatest) {
  if (least) *least = 0;
  if (greatest) *greatest = -5;
  DONE;
}
SUCCEEDS(cudaDeviceSynchronize, void)
cudaError_t cudaDeviceGetDefaultMemPool(cudaMemPool_t *pool, int device) {
  *pool = (cudaMemPool_t)8;
  DONE;
}
cudaError_t cudaMemPoolGetAttribute(cudaMemPool_t pool, enum cudaMemPoolAttr which, void *v) {
  *(uint64_t *)v = 0;
  DONE;
}
SUCCEEDS(cudaMemPoolSetAttribute, cudaMemPool_t pool, enum cudaMemPoolAttr which, void *v)
SUCCEEDS(cudaMemPoolTrimTo, cudaMemPool_t pool, size_t size)

/* ---- streams and events: all that was asked for is done */

static void *handle(void) {
  static uintptr_t last = 0x1000;
  return (void *)__sync_add_and_fetch(&last, 16);
}
#define MAKES(name, type, ...)         \
  cudaError_t name(type *made, ##__VA_ARGS__) { \
    *made = (type)handle();            \
    DONE;                              \
  }
MAKES(cudaStreamCreate, cudaStream_t)
MAKES(cudaStreamCreateWithFlags, cudaStream_t, unsigned flags)
MAKES(cudaStreamCreateWithPriority, cudaStream_t, unsigned flags, int priority)
MAKES(cudaEventCreate, cudaEvent_t)
MAKES(cudaEventCreateWithFlags, cudaEvent_t, unsigned flags)
SUCCEEDS(cudaStreamDestroy, cudaStream_t s)
SUCCEEDS(cudaStreamQuery, cudaStream_t s)
SUCCEEDS(cudaStreamSynchronize, cudaStream_t s)
SUCCEEDS(cudaStreamWaitEvent, cudaStream_t s, cudaEvent_t e, unsigned flags)
cudaError_t cudaStreamGetPriority(cudaStream_t s, int *priority) {
  *priority = 0;
  DONE;
}
cudaError_t cudaStreamIsCapturing(cudaStream_t s, enum cudaStreamCaptureStatus *status) {
  *status = cudaStreamCaptureStatusNone;
  DONE;
}
#if CUDART_VERSION >= 13000
cudaError_t cudaStreamGetCaptureInfo(cudaStream_t s, enum cudaStreamCaptureStatus *status, unsigned long long *id,
                                     cudaGraph_t *graph, const cudaGraphNode_t **nodes, const cudaGraphEdgeData **edges,
                                     size_t *count) {
  *status = cudaStreamCaptureStatusNone;
  DONE;
}
#else
cudaError_t cudaStreamGetCaptureInfo_v2(cudaStream_t s, enum cudaStreamCaptureStatus *status, unsigned long long *id,
                                        cudaGraph_t *graph, const cudaGraphNode_t **nodes, size_t *count) {
  *status = cudaStreamCaptureStatusNone;
  DONE;
}
#endif
SUCCEEDS(cudaThreadExchangeStreamCaptureMode, enum cudaStreamCaptureMode *mode)
cudaError_t cudaStreamAddCallback(cudaStream_t s, cudaStreamCallback_t call, void *given, unsigned flags) {
  call(s, cudaSuccess, given);
  DONE;
}
cudaError_t cudaLaunchHostFunc(cudaStream_t s, cudaHostFn_t call, void *given) {
  call(given);
  DONE;
}
SUCCEEDS(cudaEventDestroy, cudaEvent_t e)
SUCCEEDS(cudaEventQuery, cudaEvent_t e)
SUCCEEDS(cudaEventRecord, cudaEvent_t e, cudaStream_t s)
SUCCEEDS(cudaEventRecordWithFlags, cudaEvent_t e, cudaStream_t s, unsigned flags)
SUCCEEDS(cudaEventSynchronize, cudaEvent_t e)
cudaError_t cudaEventElapsedTime(float *ms, cudaEvent_t a, cudaEvent_t b) {
  *ms = 1;
  DONE;
}
SUCCEEDS(cudaGetLastError, void)
SUCCEEDS(cudaPeekAtLastError, void)

/* ---- kernels */

SUCCEEDS(__cudaLaunchKernel, cudaKernel_t k, dim3 grid, dim3 block, void **args, size_t shared, cudaStream_t s)
SUCCEEDS(cudaLaunchKernel, const void *k, dim3 grid, dim3 block, void **args, size_t shared, cudaStream_t s)
SUCCEEDS(cudaLaunchKernelExC, const cudaLaunchConfig_t *config, const void *k, void **args)
SUCCEEDS(cudaLaunchCooperativeKernel, const void *k, dim3 grid, dim3 block, void **args, size_t shared, cudaStream_t s)
cudaError_t __cudaGetKernel(cudaKernel_t *kernel, const void *function) {
  *kernel = (cudaKernel_t)function;
  DONE;
}
char __cudaInitModule(void **module) { return 1; }
cudaError_t cudaFuncGetAttributes(struct cudaFuncAttributes *about, const void *function) {
  memset(about, 0, sizeof *about);
  about->maxThreadsPerBlock = 1024, about->numRegs = 64;
  about->ptxVersion = about->binaryVersion = 10 * kMajor + kMinor;
  about->maxDynamicSharedSizeBytes = 48 << 10;
  DONE;
}
SUCCEEDS(cudaFuncSetAttribute, const void *function, enum cudaFuncAttribute which, int value)
cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int *blocks, const void *function, int size,
                                                                   size_t shared, unsigned flags) {
  *blocks = 2;
  DONE;
}

/* ---- what PyTorch asks the driver for by name */

static int driver_succeeds(void) { return 0; }
static int driver_has_context(int device, unsigned *flags, int *active) {
  if (flags) *flags = 0;
  if (active) *active = 1;
  return 0;
}
static int driver_error(int error, const char **text) {
  *text = "stand-in";
  return 0;
}
static cudaError_t entry_point(const char *symbol, void **found, enum cudaDriverEntryPointQueryResult *result) {
  if (!strcmp(symbol, "cuDevicePrimaryCtxGetState"))
    *found = (void *)driver_has_context;
  else
    *found = !strcmp(symbol, "cuGetErrorString") ? (void *)driver_error : (void *)driver_succeeds;
  if (result) *result = cudaDriverEntryPointSuccess;
  DONE;
}
cudaError_t cudaGetDriverEntryPointByVersion(const char *symbol, void **found, unsigned version,
                                             unsigned long long flags, enum cudaDriverEntryPointQueryResult *result) {
  return entry_point(symbol, found, result);
}
cudaError_t cudaGetDriverEntryPoint(const char *symbol, void **found, unsigned long long flags,
                                    enum cudaDriverEntryPointQueryResult *result) {
  return entry_point(symbol, found, result);
}

/* ---- cuBLAS and cuBLASLt, whose headers are not needed */

#define BLAS(name) \
  int name() { return 0; }
#define BLAS_MAKES(name)   \
  int name(void **made) {  \
    *made = handle();      \
    return 0;              \
  }
#define BLAS_SAYS_0(name)         \
  int name(void *h, int *mode) {  \
    *mode = 0;                    \
    return 0;                     \
  }
BLAS_MAKES(cublasCreate_v2)
BLAS(cublasDestroy_v2)
BLAS(cublasSetStream_v2)
BLAS(cublasSetWorkspace_v2)
BLAS(cublasSetMathMode)
BLAS_SAYS_0(cublasGetMathMode)
BLAS(cublasSetPointerMode_v2)
BLAS_SAYS_0(cublasGetPointerMode_v2)
BLAS(cublasGemmEx)
BLAS(cublasGemmStridedBatchedEx)
BLAS(cublasSgemm_v2)
BLAS(cublasSgemmEx)
BLAS(cublasSgemmStridedBatched)
BLAS(cublasDgemm_v2)
BLAS(cublasDgemmStridedBatched)
BLAS(cublasSgemv_v2)
BLAS(cublasDgemv_v2)
BLAS(cublasDotEx)
BLAS(cublasSdot_v2)
BLAS(cublasDdot_v2)
BLAS(cublasStrsm_v2)
BLAS(cublasStrsmBatched)
BLAS_MAKES(cublasLtCreate)
BLAS_MAKES(cublasLtMatmulDescCreate)
BLAS_MAKES(cublasLtMatmulPreferenceCreate)
BLAS_MAKES(cublasLtMatrixLayoutCreate)
BLAS(cublasLtMatmulDescDestroy)
BLAS(cublasLtMatmulPreferenceDestroy)
BLAS(cublasLtMatrixLayoutDestroy)
BLAS(cublasLtMatmulDescSetAttribute)
BLAS(cublasLtMatmulPreferenceSetAttribute)
BLAS(cublasLtMatrixLayoutSetAttribute)
BLAS(cublasLtMatmul)
/* One algorithm that needs no workspace: zeros are just that. */
int cublasLtMatmulAlgoGetHeuristic(void *h, void *d, void *a, void *b, void *c, void *r, void *preference, int wanted,
                                   void *results, int *found) {
  enum { kResult = 96 }; /* bytes of cublasLtMatmulHeuristicResult_t */
  memset(results, 0, kResult);
  *found = 1;
  return 0;
}
