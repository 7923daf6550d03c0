#pragma once
// What the planner predicts of a measured run. The only file here that asks the planner's engine.

#include <array>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "planner/check/case.h"
#include "planner/simulation/device.h"

namespace zplan::check {

/// Runs counted pinned host memory in blocks of this size and more.
inline constexpr Bytes kLeastHostBlock = kMiB * 4;

/// Of the steady step: from the second one on, when the optimizer's states exist.
struct MemoryPrediction {
  Bytes peak_requested, peak_allocated;
  Bytes peak_reserved;            ///< on a GPU with memory to spare
  std::optional<Bytes> required;  ///< the least that PyTorch's allocator must be given
  Bytes outside;                  ///< CUDA context and NCCL: on top of all of the above
  Bytes host_pinned;              ///< blocks of kLeastHostBlock and more of one rank
  Bytes host_pageable;            ///< of one rank
  Phase peak_phase{Phase::forward};
  std::array<PhasePeak, kPhases> phases{};  ///< by Phase
};
/// `required` is asked for by itself: it takes a dozen runs.
[[nodiscard]] MemoryPrediction predict_memory(const Setup& setup, bool with_required);

/// Tensors in memory of a node of CPU ranks at a moment, whose device is the host, too: what both hold.
/// `trained`: framework and optimizer have their states.
[[nodiscard]] Bytes predict_resident(const Setup& setup, RunMoment moment, bool trained);

/// Of an update of PPO at its generation or its scoring.
struct MomentPrediction {
  Bytes held;  ///< between steps, of it
  Bytes allocated;
  Bytes reserved;  ///< on a GPU with memory to spare
};
[[nodiscard]] MomentPrediction predict_moment(const Setup& setup, RunMoment moment);

/// What rank `rank` of the world holds between steps.
[[nodiscard]] HeldBytes predict_held(const Setup& setup, std::int64_t rank);

/// Collectives of one optimizer step in order of issue, equal ones behind each other folded; those of a group
/// of one do nothing and are left out.
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

/// What `calls` of one collective over all GPUs of the cluster put on the links between its nodes.
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
/// `first`: what the process ran before, whose workspaces are still there; absent: nothing.
[[nodiscard]] ActivationPrediction predict_activations(const Setup& setup, const std::optional<Setup>& first);

/// What about this run the engine does not model; empty where it models all.
[[nodiscard]] Skip not_modelled(const Setup& setup, const Measured& measured);

}  // namespace zplan::check
