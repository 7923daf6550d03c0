#pragma once

#include <array>

#include "planner/question/terms.h"

namespace zplan {

/// Seconds of the compute stream in one optimizer step: its kernels, and what it waits for.
struct RunTime {
  Seconds step;                            ///< from the first micro-step's begin to the optimizer step's end
  Seconds micro_steps;                     ///< of that, until the last backward is through
  Seconds products, attention, other;      ///< kernels, by class; other: that only move bytes
  Seconds optimizer;                       ///< on the device
  Seconds launching;                       ///< the device waits for the host to issue kernels
  Seconds communication;                   ///< all collectives
  std::array<Seconds, kPhases> exposed{};  ///< of them, what the compute stream waits for, by phase
  Seconds exposed_tensor;                  ///< of that, tensor-parallel ones

  [[nodiscard]] Seconds exposed_communication() const {
    Seconds sum;
    for (const Seconds each : exposed) sum += each;
    return sum;
  }
  [[nodiscard]] Seconds compute() const { return products + attention + other; }
};

}  // namespace zplan
