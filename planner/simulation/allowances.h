#pragma once
// Memory that a plan cannot derive: outside PyTorch's allocator and the allocator's own slack. Each is one
// named figure with its source, shown in every report, and the same for every model.

#include <string_view>

#include "models/base/quantity.h"

namespace zplan {

/// cuBLAS keeps one workspace per thread that multiplies: the forward's and autograd's. 8,519,680 B each, 32
/// MiB from compute capability 9.0; under ROCm 32 MiB, 128 MiB on MI300 and MI350 (gfx94x, gfx95x). Source:
/// torch 2.11 aten/src/ATen/cuda/CUDABlas.cpp; the first measured to the byte.
[[nodiscard]] Bytes cublas_workspaces(std::string_view compute_capability);

/// cuBLASLt's workspace of a thread that multiplies and adds a bias: 1 MiB.
/// Source: torch 2.11 aten/src/ATen/cuda/CublasHandlePool.cpp parseCUDABlasLtWorkspaceSize; measured.
[[nodiscard]] Bytes cublaslt_workspace();

/// Margin of a model planned by analogy, in tenths of the memory that its plan predicts: its activations are
/// another architecture's. It is an estimate, not a bound: no measurement stands behind it.
inline constexpr std::int64_t kAnalogyTenths = 14;

/// CUDA context with PyTorch's kernels loaded as they are first used (since CUDA 11.7; before, 1 GiB and
/// more). Compute capability 8.9: 426 MiB, measured on an RTX 6000 Ada with PyTorch 2.10 for CUDA 13
/// (nvidia-smi; unslothai/unsloth-zoo#1053). Others: 512 MiB, within the 0.3-0.6 GiB that idle processes
/// show.
[[nodiscard]] Bytes cuda_context(std::string_view compute_capability);

/// Returns NCCL's memory for one communicator of `ranks` GPUs; nothing for one GPU. Where the generation is
/// joined by NVLink (8.0, 9.0 and later) 544 MiB for two ranks and 688 MiB for more: measured on four A100
/// after an all-reduce (NVIDIA/nccl#964); eight H100 had 1.06 GB outside PyTorch, the context included
/// (NVIDIA/nccl#1685). Over PCIe, where fewer channels are opened, 256 MiB: up to 32 channels with a 4 MiB
/// buffer for each direction. Source: NCCL user guide, NCCL_BUFFSIZE and NCCL_MAX_CTAS.
[[nodiscard]] Bytes nccl_communicator(std::int64_t ranks, std::string_view compute_capability);

/// Returns NCCL's further memory for the connections of an all-to-all to each of `peers` other GPUs of the
/// node: 14 MiB for each and each channel (10 MiB to receive into and two blocks of 2 MiB), 32 channels over
/// NVLink, 2 over PCIe. Measured on eight H100: 3.28 GB, where this is 3.29 GB (NVIDIA/nccl#1685). Source:
/// NCCL 2.30 src/transport/p2p.cc p2pRecvSetup, p2pSendSetup; src/graph/paths.cc ncclTopoGetNchannels.
[[nodiscard]] Bytes nccl_connections(std::int64_t peers, std::string_view compute_capability);

/// Returns NCCL's memory for connections to peers on other nodes: two buffers that all peers share, of 16
/// steps of 128 KiB for each of 32 channels. Source: NCCL 2.30 src/transport/net.cc sharedNetBuffersInit.
[[nodiscard]] Bytes nccl_network_connections(std::int64_t peers);

}  // namespace zplan
