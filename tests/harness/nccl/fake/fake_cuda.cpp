// Stands in for the driver, libcuda.so.1.

#include <cuda.h>

#include <cstdlib>

extern "C" CUresult cuDriverGetVersion(int* version) {
  const char* text = std::getenv("FAKE_CUDA_DRIVER");
  *version = text == nullptr ? 13000 : std::atoi(text);
  return CUDA_SUCCESS;
}
