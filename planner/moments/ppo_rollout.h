#pragma once
// What PPOTrainer's own generation and its scoring by reference, value and reward model take beside what is
// held between steps. Measured: tests/reference/ppo. Source: TRL 1.8 experimental/ppo/ppo_trainer.py;
// docs/rl.md.

#include <vector>

#include "planner/moments/moments.h"

namespace zplan {

struct Model;
struct RolloutTapes;
struct Strategy;
struct Training;

/// Most that is live of a chunk's forwards, over what is held.
struct RolloutForwards {
  Bytes prompt;                      ///< of the policy over prompts, keys and values that stay included
  Bytes reference, values, rewards;  ///< of those that score
};
[[nodiscard]] RolloutForwards rollout_forwards(const RolloutTapes& tapes);

/// The worst instant of a generation in chunks: what it takes over what is held, the scores of the generation
/// before among that. As a chunk's prompts are computed; as its scores, of which each step made its own, are
/// stacked beside its keys and values; as all chunks' are padded to one tensor.
[[nodiscard]] std::vector<Resident> worst_of_generation(const Model& model, const Training& training,
                                                        const Strategy& strategy,
                                                        const RolloutForwards& forwards);
/// The worst of what scores a chunk, which lives by itself: log-probabilities of the generation's own scores
/// and of the reference's logits, values, rewards.
[[nodiscard]] Resident worst_of_scoring(const Model& model, const Training& training,
                                        const RolloutForwards& forwards);

}  // namespace zplan
