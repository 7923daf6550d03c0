#pragma once
// The processors, memory and drives of a node, for what offload leaves to them.

#include <cstdint>

#include "models/base/quantity.h"

namespace zplan {

struct Host {
  std::int64_t threads{1};         ///< of each process: OMP_NUM_THREADS, or its part of the cores
  BytesPerSecond bandwidth{90e9};  ///< rated, of all memory channels of the node
  BytesPerSecond disk{3e9};        ///< what the drives of the node read, or write: one of PCIe 4 x4
  std::int64_t gpus_on_uplink{1};  ///< GPUs behind one PCIe switch, which share its link to the host
  friend bool operator==(const Host&, const Host&) = default;
};

/// What an optimizer's loop of one of `processes` on a node reads and writes per second: as much as its
/// threads keep in flight, and no more than its part of what such loops reach of the node's memory.
[[nodiscard]] BytesPerSecond update_rate(const Host& host, std::int64_t processes);

/// What pageable memory is copied to or from a GPU at: one thread moves it through pinned buffers.
[[nodiscard]] BytesPerSecond staging_rate();

}  // namespace zplan
