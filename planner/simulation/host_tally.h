#pragma once
// Host memory that offload takes, block by block.

#include <bit>
#include <cstdint>
#include <vector>

#include "models/base/quantity.h"

namespace zplan {

/// Host memory and disk of one node.
struct HostMemory {
  Bytes total;   ///< what DeepSpeed's offload takes of host memory
  Bytes pinned;  ///< of that, page-locked: each block rounded up to a power of two, as torch's pinned
                 ///< allocator does
  Bytes nvme;    ///< on disk
  bool operator==(const HostMemory&) const = default;
};

/// Returns the host memory of a pinned block of `size`: torch's pinned allocator hands out powers of two.
inline Bytes pinned_block(Bytes size) {
  if (size.value <= 0) return {};
  return Bytes(static_cast<std::int64_t>(std::bit_ceil(static_cast<std::uint64_t>(size.value))));
}

/// Host memory of one rank, as it is added up.
struct HostTally {
  HostMemory sum;
  std::vector<Bytes> pinned_blocks;  ///< as torch's pinned allocator hands them out
  void pinned(Bytes size) { pinned_blocks.push_back(pinned_block(size)), exact_pinned(pinned_blocks.back()); }
  /// DeepSpeed's own AIO buffers are not rounded.
  void exact_pinned(Bytes size) { sum.total += size, sum.pinned += size; }
  void pageable(Bytes size) { sum.total += size; }
  void nvme(Bytes size) { sum.nvme += size; }
};

}  // namespace zplan
