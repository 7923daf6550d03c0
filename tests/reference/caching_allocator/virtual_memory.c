// What expandable segments ask of the driver, for the stand-in for the CUDA runtime: cuMemCreate takes from the same
// NULLCUDA_MEM as cudaMalloc. Compiled over the stand-in's source: cc -DNULLCUDA='"nullcuda.c"' -shared -fPIC
#define cudaGetDriverEntryPointByVersion nullcuda_entry_point
#include NULLCUDA
#undef cudaGetDriverEntryPointByVersion

static size_t reserved_space;
static void start(void) {
  if (base) return;
  void* first;
  cudaMalloc(&first, 1);
  cudaFree(first);
}
// Address space lies in the upper half of the device's, cudaMalloc's in the lower.
static int reserve(unsigned long long* p, size_t n, size_t align, unsigned long long at, unsigned long long flags) {
  start();
  *p = (unsigned long long)(base + SPAN / 2 + reserved_space);
  reserved_space += n;
  return SPAN / 2 < reserved_space ? 2 : 0;
}
static int create(unsigned long long* handle, size_t n, const void* properties, unsigned long long flags) {
  if (used + n > cap()) return 2;  // CUDA_ERROR_OUT_OF_MEMORY
  used += n;
  *handle = n;  // its size: enough to give it back
  return 0;
}
static int release(unsigned long long handle) {
  used -= handle;
  return 0;
}
cudaError_t cudaGetDriverEntryPointByVersion(const char* name, void** f, unsigned v, unsigned long long flags,
                                             enum cudaDriverEntryPointQueryResult* r) {
  cudaError_t e = nullcuda_entry_point(name, f, v, flags, r);
  if (!strcmp(name, "cuMemAddressReserve")) *f = (void*)reserve;
  if (!strcmp(name, "cuMemCreate")) *f = (void*)create;
  if (!strcmp(name, "cuMemRelease")) *f = (void*)release;
  return e;
}
