#pragma once

#include <cstdint>

#include "hardware_profiles/operation.h"
#include "models/base/quantity.h"

namespace zplan {

/// Size over time, as seen by the caller of a collective: nccl-tests' "algbw". `bytes` is what nccl-tests
/// prints as the size: the whole buffer over all ranks for all_gather and reduce_scatter.
[[nodiscard]] BytesPerSecond algorithm_bandwidth(Bytes bytes, Seconds time);

/// Bytes that each rank's link carries over time: nccl-tests' "busbw", which can be compared with a
/// link's rating whatever the operation and the number of ranks. One rank carries nothing. Source: nccl-tests
/// doc/PERFORMANCE.md: algbw times 2(n−1)/n for all_reduce, (n−1)/n for all_gather, reduce_scatter and
/// all_to_all, 1 for broadcast, reduce and send/receive.
[[nodiscard]] BytesPerSecond bus_bandwidth(Operation operation, Bytes bytes, Seconds time,
                                           std::int64_t ranks);

}  // namespace zplan
