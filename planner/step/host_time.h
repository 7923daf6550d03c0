#pragma once
// Time of a host to issue work: where kernels are short, the device waits for it. Seconds of one core in the
// frameworks' own code, measured without a device (docs/step-time.md; tests/reference/host_time/): a
// model of 4 and of 12 layers, so that what is common cancels.

#include "models/base/quantity.h"
#include "planner/model_trace/load.h"

namespace zplan::host_time {

inline constexpr Seconds kOperator{6.0e-6};       ///< one of PyTorch's, called by a module of transformers
inline constexpr Seconds kCheckpointed{12.6e-6};  ///< the same, what it saves passing checkpoint's hooks
inline constexpr Seconds kNode{7.2e-6};           ///< of autograd's graph
inline constexpr Seconds kModuleHook{135e-6};     ///< ZeRO stage 3 at a module's begin or end
inline constexpr Seconds kGradientHook{76e-6};    ///< ZeRO stages 1 and 2 at a gradient that is ready
inline constexpr Seconds kGroupForward{1.0e-3};   ///< FSDP2 around the forward of a group
inline constexpr Seconds kGroupBackward{1.4e-3};  ///< and its backward
/// cudaLaunchKernel, which that measurement lacks. Source: NVIDIA, CUDA C++ Best Practices Guide: a launch
/// takes a few microseconds.
inline constexpr Seconds kLaunch{3e-6};

[[nodiscard]] inline Seconds of(const Load& load) {
  const auto times = [](std::int64_t n, Seconds each) { return each * static_cast<double>(n); };
  return times(load.operators - load.checkpointed, kOperator) + times(load.checkpointed, kCheckpointed) +
         times(load.nodes, kNode) + times(load.kernels, kLaunch);
}

}  // namespace zplan::host_time
