#pragma once
// Evaluation as the Hugging Face Trainer runs it: forwards without gradients, and logits that are kept for
// compute_metrics; generation with a cache of keys and values.

#include <algorithm>
#include <cstdint>
#include <string_view>
#include <vector>

#include "planner/moments/moments.h"

namespace zplan {

struct Model;
struct Strategy;
struct Tape;
struct Training;

/// The most that is live over a tape's forward.
[[nodiscard]] Bytes forward_peak(Tape tape);

/// Returns what is resident at the worst instant of an evaluation; nothing where the training has none.
/// Without compute_metrics the Trainer keeps losses alone.
[[nodiscard]] std::vector<Resident> evaluation(const RunInputs& inputs, const StepFigures& step);
/// Returns what would need less memory in evaluation.
[[nodiscard]] std::string_view evaluation_remedy(const Training& training);

/// Returns the bytes of kept logits at the worst instant of a process whose device is the CPU. There, no copy
/// moves them to the host.
[[nodiscard]] Bytes kept_logits_on_cpu(const StepInputs& inputs);

/// GenerationCache holds keys and values of the samples that the trainer's own model generates at once.
/// Source: transformers 5.23 cache_utils.py.
struct GenerationCache {
  Bytes token;  ///< keys and values of one token of each sample in one layer
  std::int64_t whole_layers{}, sliding_layers{}, window{};
  Bytes states;  ///< of linear attention, in fp32

  [[nodiscard]] std::int64_t in_window(std::int64_t tokens) const { return std::min(tokens, window); }
  /// Returns the keys and values of all layers for samples of `tokens`; sliding layers keep a window.
  [[nodiscard]] Bytes keys_values(std::int64_t tokens) const {
    return token * (whole_layers * tokens + sliding_layers * in_window(tokens));
  }
};
[[nodiscard]] GenerationCache generation_cache(const Model& model, const Training& training,
                                               const Strategy& strategy, std::int64_t samples);

/// Nothing where no tokens are generated.
[[nodiscard]] std::vector<Resident> generation(const RunInputs& inputs, const StepFigures& step);

}  // namespace zplan
