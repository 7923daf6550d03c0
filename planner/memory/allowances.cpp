#include "planner/memory/allowances.h"

#include "hardware_profiles/gpu.h"

namespace zplan {

Bytes cublas_workspaces(std::string_view compute_capability) {
  const bool hopper_or_later = capability_major(compute_capability) >= 9;
  return hopper_or_later ? kMiB * 64 : Bytes(std::int64_t{2} * 8'519'680);
}

Bytes cublaslt_workspace() { return kMiB; }

Bytes cuda_context(std::string_view compute_capability) {
  return kMiB * (compute_capability == "8.9" ? 426 : 512);
}

Bytes nccl_communicator(std::int64_t ranks, std::string_view compute_capability) {
  if (ranks < 2) return {};
  const bool over_nvlink = compute_capability == "8.0" || capability_major(compute_capability) >= 9;
  if (!over_nvlink) return kMiB * 256;
  return kMiB * (ranks == 2 ? 544 : 688);
}

}  // namespace zplan
