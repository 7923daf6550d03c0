#pragma once
// How long an engine generates, from what it has to read and compute. Arithmetic: no engine was measured, and
// what its scheduler adds is left out. PPOTrainer's own generation and scoring are forwards as the cost model
// prices them, of which none was measured either.

#include "models/base/quantity.h"

namespace zplan {

struct Cluster;
struct Model;
struct ScoringTapes;
struct Strategy;
struct Tape;
struct Training;

/// What one optimizer step has to wait for generation on the average.
struct RolloutTime {
  Seconds prompts;      ///< computed once for each group of completions
  Seconds completions;  ///< token by token: weights, keys and values are read
  Seconds scoring;      ///< of PPO: reference, value and reward model; elsewhere the step has it
  [[nodiscard]] Seconds generation() const { return prompts + completions; }
  [[nodiscard]] Seconds total() const { return generation() + scoring; }
};

/// What PPO does with one chunk of samples.
struct ChunkTime {
  Seconds prompt;  ///< the policy's forward over prompts
  Seconds token_device,
      token_host;   ///< of a token of each: kernels but for cached keys and values, and issuing
  Seconds scoring;  ///< forwards of reference, value and reward model
};
/// By its forwards: over prompts, of a token of each sample, and of what scores.
[[nodiscard]] ChunkTime chunk_time(const Tape& prompt, const Tape& token, const ScoringTapes& scoring,
                                   const Training& training, const Cluster& cluster);
/// Of PPO, whose chunks take so long.
[[nodiscard]] RolloutTime rollout_time(const Model& model, const Training& training, const Strategy& strategy,
                                       const Cluster& cluster, const ChunkTime& chunk);
/// Nothing where nothing is generated. Of an engine in the trainer's processes, or the trainer's own
/// generation, which takes no less; a server is taken to have as many GPUs.
[[nodiscard]] RolloutTime rollout_time(const Model& model, const Training& training, const Strategy& strategy,
                                       const Cluster& cluster);

}  // namespace zplan
