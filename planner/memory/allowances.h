#pragma once
// What a plan cannot derive: memory outside PyTorch's allocator and the allocator's own slack. Each is one
// named figure with its source, shown in every report, and the same for every model.

#include <string_view>

#include "models/base/quantity.h"

namespace zplan {

/// cuBLAS keeps one workspace per thread that multiplies: the forward's and autograd's. 8,519,680 B each, 32
/// MiB from compute capability 9.0. Source: torch 2.11 aten/src/ATen/cuda/CUDABlas.cpp; the first measured to
/// the byte.
[[nodiscard]] Bytes cublas_workspaces(std::string_view compute_capability);

/// cuBLASLt's workspace of a thread that multiplies and adds a bias: 1 MiB.
/// Source: torch 2.11 aten/src/ATen/cuda/CublasHandlePool.cpp parseCUDABlasLtWorkspaceSize; measured.
[[nodiscard]] Bytes cublaslt_workspace();

/// CUDA context with PyTorch's kernels loaded: 0.5 GiB, within the 0.3-0.6 GiB seen in nvidia-smi for idle
/// processes.
[[nodiscard]] Bytes cuda_context();

/// NCCL's transport buffers: 0 for one GPU, else 0.25 GiB per communicator: up to 32 channels with a 4 MiB
/// buffer for each direction. Source: NCCL user guide, NCCL_BUFFSIZE and NCCL_MAX_CTAS.
[[nodiscard]] Bytes nccl_buffers(std::int64_t communicators);

}  // namespace zplan
