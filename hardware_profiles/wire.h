#pragma once
// What an operation puts on the links, by which bus bandwidth is defined.

#include <cstdint>

#include "hardware_profiles/operation.h"
#include "models/base/quantity.h"

namespace zplan {

/// Bytes that a ring sends from each GPU for one operation on `bytes` over `ranks`: 2·(n−1)/n all_reduce,
/// (n−1)/n all_gather, reduce_scatter and all_to_all, 1 broadcast, reduce and send_recv. Source: nccl-tests
/// doc/PERFORMANCE.md.
[[nodiscard]] Bytes ring_wire_bytes(Operation operation, Bytes bytes, std::int64_t ranks);

}  // namespace zplan
