#include "planner/simulation/allowances.h"

#include "hardware_profiles/gpu.h"
#include "hardware_profiles/platform.h"

namespace zplan {

namespace {

/// True if GPUs of this generation are taken to be joined by links of their own.
bool joined_by_nvlink(std::string_view compute_capability) {
  const bool radeon = compute_capability.starts_with("gfx11");
  if (platform_of(compute_capability).platform != Platform::cuda) return !radeon;
  return compute_capability == "8.0" || capability_major(compute_capability) >= 9;
}

}  // namespace

Bytes cublas_workspaces(std::string_view compute_capability) {
  constexpr std::int64_t kThreads = 2;
  if (platform_of(compute_capability).platform == Platform::rocm) {
    const bool matrix_cores =
        compute_capability.starts_with("gfx94") || compute_capability.starts_with("gfx95");
    return kMiB * (kThreads * (matrix_cores ? 128 : 32));
  }
  const bool hopper_or_later = capability_major(compute_capability) >= 9;
  return hopper_or_later ? kMiB * (kThreads * 32) : Bytes(kThreads * 8'519'680);
}

Bytes cublaslt_workspace() { return kMiB; }

Bytes cuda_context(std::string_view compute_capability) {
  return kMiB * (compute_capability == "8.9" ? 426 : 512);
}

Bytes nccl_communicator(std::int64_t ranks, std::string_view compute_capability) {
  if (ranks < 2) return {};
  if (!joined_by_nvlink(compute_capability)) return kMiB * 256;
  return kMiB * (ranks == 2 ? 544 : 688);
}

Bytes nccl_connections(std::int64_t peers, std::string_view compute_capability) {
  constexpr std::int64_t kOverNvlink = 32, kOverPcie = 2;
  constexpr Bytes kChannel = kMiB * 14;
  return kChannel * (peers * (joined_by_nvlink(compute_capability) ? kOverNvlink : kOverPcie));
}

Bytes nccl_network_connections(std::int64_t peers) {
  constexpr std::int64_t kChannels = 32, kSteps = 16, kDirections = 2;
  constexpr Bytes kStep{128 << 10};
  return peers > 0 ? kStep * (kSteps * kChannels * kDirections) : Bytes{};
}

}  // namespace zplan
