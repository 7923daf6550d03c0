#pragma once
// Predictions of measured runs. Only this part of check/ calls the engine.

#include <array>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "planner/check/case.h"
#include "planner/simulation/device.h"

namespace zplan::check {

/// Pinned host memory was measured in blocks of this size and more.
inline constexpr Bytes kLeastHostBlock = kMiB * 4;

/// Memory of the steady step, which is any after the first: then the optimizer's states exist.
struct MemoryPrediction {
  Bytes peak_requested, peak_allocated;
  Bytes held;                     ///< between steps, as requested
  Bytes peak_reserved;            ///< on a GPU with memory to spare
  std::optional<Bytes> required;  ///< the least that PyTorch's allocator must be given
  Bytes outside;                  ///< CUDA context and NCCL: on top of all of the above
  Bytes host_pinned;              ///< blocks of kLeastHostBlock and more of one rank
  Bytes host_pageable;            ///< of one rank
  Phase peak_phase{Phase::forward};
  std::array<PhasePeak, kPhases> phases{};  ///< by Phase
};
/// Predicts memory. `with_required`: also `required`, which takes a dozen simulated runs.
[[nodiscard]] MemoryPrediction predict_memory(const Setup& setup, bool with_required);

/// Returns the bytes of tensors that a node of CPU ranks holds at a moment, as device and as host.
/// `trained`: framework and optimizer have their states.
[[nodiscard]] Bytes predict_resident(const Setup& setup, RunMoment moment, bool trained);

/// Memory of an update of PPO while it generates or scores.
struct MomentPrediction {
  Bytes held;  ///< of `allocated`, bytes that are held between steps
  Bytes allocated;
  Bytes reserved;  ///< on a GPU with memory to spare
};
[[nodiscard]] MomentPrediction predict_moment(const Setup& setup, RunMoment moment);

/// Returns the bytes that rank `rank` of the world holds between steps.
[[nodiscard]] HeldBytes predict_held(const Setup& setup, std::int64_t rank);

/// Returns the collectives of one optimizer step in order of issue, with equal neighbours folded into one.
/// Calls within a group of one do nothing and are left out.
[[nodiscard]] std::vector<CallTally> predict_calls(const Setup& setup);

[[nodiscard]] double predict_tokens_per_second_per_gpu(const Setup& setup);

/// One collective over all GPUs of the cluster.
struct CallPrediction {
  Seconds time;      ///< as a plan has it: a measured curve where there is one, else NCCL's model
  Seconds by_model;  ///< NCCL's model alone
  bool measured{};   ///< `time` is of a curve
};
/// `record`: the id of the log that is judged; no curve is made of it.
[[nodiscard]] CallPrediction predict_call(const Cluster& cluster, Operation operation, Bytes size,
                                          std::string_view record = {});

/// Bytes that `calls` calls of one collective over all GPUs of a cluster send between its nodes.
struct SentPrediction {
  Bytes bytes;
  std::string way;  ///< NCCL's choice by its model: "ring Simple"
};
/// Bytes of the algorithm (wire_bytes; of a chain, which broadcasts and reductions are, the last node sends
/// nothing on), and its protocol's flags beside them: LL sends a flag with every 4 bytes, LL128 one of 8
/// bytes with every 120. Calls between pairs are handed over by Simple. Source: NVIDIA/nccl
/// src/include/device.h ncclLLFifoLine, NCCL_LL128_DATAELEMS.
[[nodiscard]] SentPrediction predict_sent(const Cluster& cluster, Operation operation, Bytes size,
                                          std::int64_t calls);

struct ActivationPrediction {
  ActivationFigures requested, allocated;
};
/// `first`: a run of the same process before this one, whose workspaces still exist; absent: there was none.
[[nodiscard]] ActivationPrediction predict_activations(const Setup& setup, const std::optional<Setup>& first);

/// Returns the features of this run that the engine does not model.
[[nodiscard]] Skip not_modelled(const Setup& setup, const Measured& measured);

}  // namespace zplan::check
