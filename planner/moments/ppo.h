#pragma once
// Memory of PPOTrainer's own generation, and of scoring by reference, value and reward model, beside what is
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

/// Returns what the worst instant of a generation in chunks takes beyond what is held, which includes the
/// scores of the generation before. That instant is one of three: a chunk's prompts are computed; the scores
/// of its steps are stacked beside keys and values; the scores of all chunks are padded to one tensor.
/// `prompt` is the forward over a chunk's prompts.
[[nodiscard]] std::vector<Resident> worst_of_generation(const Model& model, const Training& training,
                                                        const Strategy& strategy, const Tape& prompt);
/// The worst of what scores a chunk, which lives by itself: log-probabilities of the generation's own scores
/// and of the reference's logits, values, rewards.
[[nodiscard]] Resident worst_of_scoring(const Model& model, const Training& training,
                                        const ScoringTapes& tapes);

/// GenerationPool is memory that PyTorch's allocator reserves for a generation beyond what is held when it
/// begins. Keys and values that grow by a token leave gaps behind, and each step's scores stay among them.
struct GenerationPool {
  Bytes reserved;  ///< taken from a device with memory to spare
  Bytes needed;    ///< the least that suffices: free segments are given back where memory ends
};
/// Returns the pool. `prompt` is the forward over a chunk's prompts.
[[nodiscard]] GenerationPool generation_pool(const Model& model, const Training& training,
                                             const Strategy& strategy, const Tape& prompt);

}  // namespace zplan
