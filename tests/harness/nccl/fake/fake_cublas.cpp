// Stands in for libcublas: a matrix product is checked for its bounds and takes its time, nothing is
// multiplied.

#include <cublas_v2.h>

#include "fake_cuda.h"

struct cublasContext {
  cudaStream_t stream{};
};

namespace {

std::size_t bytes_of(cudaDataType type) { return type == CUDA_R_16BF || type == CUDA_R_16F ? 2 : 4; }

double rate_of(cudaDataType type, cublasComputeType_t compute) {
  if (bytes_of(type) == 2) return fake::kFlops16;
  return compute == CUBLAS_COMPUTE_32F_FAST_TF32 ? fake::kFlopsTf32 : fake::kFlops32;
}

/// A matrix of `columns` columns, each `rows` long and `leading` from the next, lies in device memory.
bool fits(const void* data, int rows, int columns, int leading, cudaDataType type) {
  const auto elements = static_cast<std::size_t>(leading) * static_cast<std::size_t>(columns - 1) +
                        static_cast<std::size_t>(rows);
  return leading >= rows && fake::is_device_memory(data, elements * bytes_of(type));
}

}  // namespace

extern "C" {
#pragma GCC visibility push(default)

cublasStatus_t cublasCreate_v2(cublasHandle_t* handle) {
  fake::record("cublasCreate");
  *handle = new cublasContext;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasDestroy_v2(cublasHandle_t handle) {
  delete handle;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasSetStream_v2(cublasHandle_t handle, cudaStream_t stream) {
  handle->stream = stream;
  return CUBLAS_STATUS_SUCCESS;
}

const char* cublasGetStatusString(cublasStatus_t status) {
  return status == CUBLAS_STATUS_INVALID_VALUE ? "CUBLAS_STATUS_INVALID_VALUE" : "CUBLAS_STATUS_OTHER";
}

cublasStatus_t cublasGemmEx(cublasHandle_t handle, cublasOperation_t op_a, cublasOperation_t op_b, int m,
                            int n, int k, const void* alpha, const void* a, cudaDataType type_a, int lda,
                            const void* b, cudaDataType type_b, int ldb, const void* beta, void* c,
                            cudaDataType type_c, int ldc, cublasComputeType_t compute, cublasGemmAlgo_t) {
  const bool a_turned = op_a != CUBLAS_OP_N, b_turned = op_b != CUBLAS_OP_N;
  const bool good = fits(a, a_turned ? k : m, a_turned ? m : k, lda, type_a) &&
                    fits(b, b_turned ? n : k, b_turned ? k : n, ldb, type_b) && fits(c, m, n, ldc, type_c) &&
                    *static_cast<const float*>(alpha) == 1 && *static_cast<const float*>(beta) == 0;
  if (!good) {
    fake::complain("cublasGemmEx: a matrix does not lie in device memory");
    return CUBLAS_STATUS_INVALID_VALUE;
  }
  const double flops = 2.0 * m * n * k;
  cudaStream_t stream = handle->stream;
  stream->enqueue([=] { stream->clock += flops / rate_of(type_a, compute); });
  return CUBLAS_STATUS_SUCCESS;
}

#pragma GCC visibility pop
}
