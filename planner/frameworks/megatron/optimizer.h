#pragma once
// Memory of Megatron's optimizer on the device: Transformer Engine's FusedAdam over fp32 master weights, its
// precision-aware form, or the host's optimizer (HybridDeviceOptimizer).

#include <vector>

#include "planner/frameworks/megatron/buckets.h"
#include "planner/simulation/device.h"
#include "planner/simulation/host_tally.h"

namespace zplan {
struct StepInputs;
}

namespace zplan::megatron {

/// Divides pieces between the device and the host: the host takes matrices, then the rest, until it has its
/// share of the elements. Source: Megatron-Core 0.19.2 core/optimizer/cpu_offloading/hybrid_optimizer.py
/// HybridDeviceOptimizer._get_sub_optimizer_param_groups.
struct DividedPieces {
  std::vector<Elements> on_device, on_host;
};
[[nodiscard]] DividedPieces divide(const std::vector<Piece>& pieces, const RankModel& model,
                                   const MegatronOptions& options);

/// Adds what the host holds of the pieces it updates: weights, moments and gradients in fp32.
void tally_host(const std::vector<Elements>& on_host, int moments, HostTally& tally);

/// Returns the bytes that the device holds of one element's master weight, and of its moments.
struct StateSizes {
  Bytes master, moments;
};
[[nodiscard]] StateSizes state_sizes(const MegatronOptions& options, int moments);

class OptimizerMemory {
 public:
  OptimizerMemory(const StepInputs& in, const std::vector<Piece>& pieces);

  /// Allocates what exists before the first step: master weights that Megatron itself makes.
  void initialise(Device& device);
  /// Releases the fp32 copies of gradients, as a step begins.
  void zero_gradients(Device& device);
  /// Allocates what a step takes and keeps; the first makes the states.
  void step(Device& device, bool first);

 private:
  void make_states(Device& device);
  void copy_gradients(Device& device);
  void widen_states(Device& device);
  void update_on_host(Device& device);

  const MegatronOptions& options_;
  int moments_;  ///< tensors of a parameter's size
  DividedPieces pieces_;
  std::vector<Device::Block> gradients_;  ///< fp32 copies of 16-bit sums, until the next step zeroes them
};

}  // namespace zplan::megatron
