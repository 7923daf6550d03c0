#pragma once
// Time of generation, from the bytes that an engine reads and the operations that it computes. It is
// arithmetic: no engine was measured, and schedulers' overhead is left out. A trainer's own generation, and
// PPO's scoring, are forwards as the cost model prices them, which were not measured either.

#include "models/base/quantity.h"

namespace zplan {

struct Cluster;
struct Model;
struct ScoringTapes;
struct Strategy;
struct Tape;
struct Training;

/// True if the trainer's own model generates, not an engine: PPO's always, and where --rollout says so.
[[nodiscard]] bool generates_itself(const Training& training);

/// Seconds that one optimizer step waits for generation on the average.
struct RolloutTime {
  Seconds prompts;      ///< computed once for each group of completions
  Seconds completions;  ///< token by token: weights, keys and values are read
  Seconds scoring;      ///< of PPO: reference, value and reward model; elsewhere the step has it
  [[nodiscard]] Seconds generation() const { return prompts + completions; }
  [[nodiscard]] Seconds total() const { return generation() + scoring; }
};

/// Seconds of the trainer's own work on the samples that it generates at once.
struct ChunkTime {
  Seconds prompt;  ///< the policy's forward over prompts
  Seconds token_device,
      token_host;   ///< of a token of each: kernels but for cached keys and values, and issuing
  Seconds scoring;  ///< of PPO: forwards of reference, value and reward model
};
/// Returns a chunk's time by its forwards: over prompts, of a token of each sample, and those that score.
[[nodiscard]] ChunkTime chunk_time(const Tape& prompt, const Tape& token, const ScoringTapes& scoring,
                                   const Training& training, const Cluster& cluster);
/// Returns the same, with the forwards of a question.
[[nodiscard]] ChunkTime chunk_time(const Model& model, const Training& training, const Strategy& strategy,
                                   const Cluster& cluster);
/// Returns the time of the trainer's own generation, whose chunks take `chunk`.
[[nodiscard]] RolloutTime rollout_time(const Model& model, const Training& training, const Strategy& strategy,
                                       const Cluster& cluster, const ChunkTime& chunk);
/// Returns the time of an engine in the trainer's processes, or of the trainer's own generation; nothing
/// where nothing is generated. A server is taken to have as many GPUs.
[[nodiscard]] RolloutTime rollout_time(const Model& model, const Training& training, const Strategy& strategy,
                                       const Cluster& cluster);

}  // namespace zplan
