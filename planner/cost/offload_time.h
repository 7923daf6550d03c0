#pragma once
// Time that offload adds to a step: copies between device and host, the optimizer there, and drives.

#include "models/base/quantity.h"

namespace zplan {

struct Cluster;
struct Schedule;
struct Shard;
struct Strategy;
struct Training;

/// Bytes that the processors of a rank's host read and write in its optimizer step: gradients scaled and
/// clipped in place, the optimizer's own pass, weights cast to 16 bits.
[[nodiscard]] Bytes host_update_traffic(const Training& training, const Shard& shard);

/// Returns the seconds of a step's copies, host optimizer and drives that nothing hides. `micro_steps` are
/// the seconds of device and collectives, beside which some copies run.
[[nodiscard]] Seconds offload_time(const Training& training, const Strategy& strategy, const Cluster& cluster,
                                   const Shard& shard, const Schedule& schedule, Seconds micro_steps);

}  // namespace zplan
