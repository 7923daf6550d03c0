#pragma once
// Memory of generating and scoring completions beside a step: the inference engine's part of the GPU, the
// weights handed to it, and log-probabilities computed before training. Arithmetic over published sizes: no
// run of an engine was measured. Source: vLLM v1/worker/gpu_worker.py; TRL 1.16
// generation/vllm_generation.py, trainer/grpo_trainer.py; docs/rl.md.

#include <cstdint>
#include <vector>

#include "planner/moments/moments.h"

namespace zplan {

struct Model;
struct Strategy;
struct Training;

/// An inference engine on each of its GPUs.
struct EngineMemory {
  Bytes share;            ///< what it takes of the GPU in all: weights, activations, keys and values
  Bytes weights;          ///< in 16 bits, or packed as they are trained over
  Bytes activations;      ///< of as many tokens as it runs at once (max_num_batched_tokens), estimated
  Bytes sequence;         ///< keys and values of one prompt with its completion
  std::int64_t wanted{};  ///< sequences that one generation asks of it

  /// Returns the bytes left for keys and values.
  [[nodiscard]] Bytes room() const { return share - weights - activations; }
  /// Sequences that it can run at once.
  [[nodiscard]] std::int64_t at_once() const;
};
/// On a GPU of which a process has `device` bytes. An engine of its own GPUs gets what they have by vLLM's
/// default share.
[[nodiscard]] EngineMemory engine_memory(const Model& model, const Training& training,
                                         const Strategy& strategy, Bytes device);
/// Returns the bytes of the engine on the GPU while the trainer computes: 0 for an engine that sleeps.
[[nodiscard]] Bytes engine_resident(const Training& training, Bytes device);
/// Returns the bytes of a sleeping engine on the host, for each rank: its weights at sleep level 1.
[[nodiscard]] Bytes engine_on_host(const Model& model, const Training& training);

/// Weights on their way to the engine.
[[nodiscard]] std::vector<Resident> weight_sync(const RunInputs& inputs, const StepFigures& step);
/// The engine at work beside the trainer, or the trainer's own generation.
[[nodiscard]] std::vector<Resident> rollout_generation(const RunInputs& inputs, const StepFigures& step);
/// Returns what would need less memory in generation.
[[nodiscard]] std::string_view rollout_remedy(const Training& training);
/// Log-probabilities of the policy and of a reference, of a micro-batch at a time; of PPO also values and
/// rewards, of a chunk at a time.
[[nodiscard]] std::vector<Resident> scoring(const RunInputs& inputs, const StepFigures& step);
/// Returns what would need less memory in scoring.
[[nodiscard]] std::string_view scoring_remedy(const Training& training);

}  // namespace zplan
