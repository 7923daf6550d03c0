#include "planner/memory/allowances.h"

#include "hardware_profiles/gpu.h"

namespace zplan {

Bytes cublas_workspaces(std::string_view compute_capability) {
  const bool hopper_or_later = capability_major(compute_capability) >= 9;
  return hopper_or_later ? kMiB * 64 : Bytes(std::int64_t{2} * 8'519'680);
}

Bytes cublaslt_workspace() { return kMiB; }

Bytes cuda_context() { return kMiB * 512; }

Bytes nccl_buffers(std::int64_t communicators) { return kMiB * (256 * communicators); }

}  // namespace zplan
