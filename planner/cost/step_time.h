#pragma once
// The time of an optimizer step: that of a run's queues, offload at the rates of host and PCIe, generation
// and scoring. For its limits see docs/step-time.md.

#include <array>
#include <string_view>
#include <utility>

#include "planner/cost/run_time.h"

namespace zplan {

struct Cluster;
struct Model;
struct Schedule;
struct Shard;
struct Strategy;
struct Training;

/// The largest part of a step's time.
enum class Bound { compute, launching, communication, offload, optimizer, generation };
template <>
struct EnumNames<Bound> {
  static constexpr std::array<std::pair<Bound, std::string_view>, 6> table{
      {{Bound::compute, "compute"},
       {Bound::launching, "kernel launches"},
       {Bound::communication, "communication"},
       {Bound::offload, "offload"},
       {Bound::optimizer, "optimizer"},
       {Bound::generation, "generation"}}};
};

struct StepTime {
  Seconds step;
  Seconds compute;                ///< kernels of the model
  Seconds launching;              ///< the device waits for the host to issue kernels
  Seconds communication;          ///< all of it
  Seconds exposed_communication;  ///< what compute does not hide
  Seconds offload;                ///< transfers and host optimizer that nothing hides
  Seconds optimizer;              ///< on the device
  Seconds generation;             ///< of completions, by arithmetic alone: RolloutTime
  Seconds scoring;                ///< likewise, of PPO, whose micro-steps have none
  double tokens_per_second{};
  double tokens_per_second_per_gpu{};
  double mfu{};  ///< model FLOPs utilisation: recomputation not counted
  double hfu{};  ///< hardware FLOPs utilisation: recomputation counted
  Bound bound{Bound::compute};
  RunTime run{};  ///< what that is made of, but for offload
};

/// Returns the parameters of matrix products that one token passes, without a tied head's.
[[nodiscard]] double parameters_of_token(const Model& model);

/// Floating-point operations of one micro-step of a whole model on one GPU, the average over its ranks.
/// Forward per token 2·P + 4·L·a·d·s with P the parameters of matrix products that a token passes; backward
/// twice that (once where weights are frozen); full checkpointing repeats the forward. For comparison with
/// published utilisations only. Source: PaLM appendix B; llm-foundry's definition.
struct MicroStepFlops {
  Flops model;     ///< without recomputation
  Flops hardware;  ///< with
};
[[nodiscard]] MicroStepFlops micro_step_flops(const Model& model, const Training& training,
                                              const Strategy& strategy);

[[nodiscard]] StepTime step_time(const Model& model, const Training& training, const Strategy& strategy,
                                 const Cluster& cluster, const Shard& shard, const Schedule& schedule,
                                 const RunTime& run);

}  // namespace zplan
