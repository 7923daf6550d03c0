#pragma once
// Collectives between NVIDIA GPUs through NCCL. Includes no header of CUDA.

#include <memory>

#include "harness/backend.h"
#include "harness/nccl/shared_library.h"

namespace zplan::bench {

struct NcclOptions {
  /// Lets ranks share a GPU, which NCCL refuses for ranks of one host: each gets an NCCL_HOSTID of its own,
  /// and data goes through the network stack. For tests of correctness, not of speed.
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
