#pragma once
// Collectives between NVIDIA GPUs, by NCCL. Header free of CUDA's.

#include <memory>

#include "harness/backend.h"
#include "harness/nccl/shared_library.h"

namespace zplan::bench {

struct NcclOptions {
  /// Ranks may share a GPU: NCCL, which refuses that, is told that each rank is on a host of its own
  /// (NCCL_HOSTID), so that data goes through the network stack. For tests of correctness alone.
  bool share_gpu{};
  Seconds timeout{60};  ///< until a call that makes no progress is given up
  LibraryPlaces places{library_places()};
};

/// Called by all ranks of `control`. Throws InputError where there is no driver, GPU or library, or ranks
/// share a GPU that were not to; BenchError, which names the rank, where NCCL does not come up.
[[nodiscard]] std::unique_ptr<Backend> make_nccl_backend(std::unique_ptr<Control> control,
                                                         const NcclOptions& options);

/// GPUs that this process can use; 0 where there is none, no driver or no runtime.
[[nodiscard]] int usable_gpus(const LibraryPlaces& places = library_places());
/// Throws InputError, with what to do, where there is no driver, GPU, CUDA runtime or NCCL.
void check_nccl(const LibraryPlaces& places = library_places());

}  // namespace zplan::bench
