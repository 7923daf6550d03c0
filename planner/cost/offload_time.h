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

/// Seconds of a step's copies, host optimizer and drives that nothing hides, in the order in which they come.
struct OffloadTime {
  Seconds gradients;  ///< what is copied beside the micro-steps: gradients, parameters that are offloaded
  Seconds weights;    ///< what is copied behind them: updated weights, sums of micro-steps added on the host
  Seconds optimizer;  ///< on the host, and its drives
  [[nodiscard]] Seconds total() const { return gradients + weights + optimizer; }
};

/// Returns them. `micro_steps` are the seconds of device and collectives, beside which some copies run.
[[nodiscard]] OffloadTime offload_time(const Training& training, const Strategy& strategy,
                                       const Cluster& cluster, const Shard& shard, const Schedule& schedule,
                                       Seconds micro_steps);

}  // namespace zplan
