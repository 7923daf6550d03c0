#pragma once
// What PPOTrainer's own generation and its scoring by reference, value and reward model take beside what is
// held between steps. Measured: tests/reference/ppo. Source: TRL 1.8 experimental/ppo/ppo_trainer.py;
// docs/rl.md.

#include <vector>

#include "planner/moments/moments.h"

namespace zplan {

struct Model;
struct ScoringTapes;
struct Strategy;
struct Tape;
struct Training;

/// The worst instant of a generation in chunks: what it takes over what is held, the scores of the generation
/// before among that. As a chunk's prompts are computed; as its scores, of which each step made its own, are
/// stacked beside its keys and values; as all chunks' are padded to one tensor. `prompt`: the forward over a
/// chunk's prompts.
[[nodiscard]] std::vector<Resident> worst_of_generation(const Model& model, const Training& training,
                                                        const Strategy& strategy, const Tape& prompt);
/// The worst of what scores a chunk, which lives by itself: log-probabilities of the generation's own scores
/// and of the reference's logits, values, rewards.
[[nodiscard]] Resident worst_of_scoring(const Model& model, const Training& training,
                                        const ScoringTapes& tapes);

}  // namespace zplan
