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

/// What is resident at its worst; nothing where the training evaluates nothing. Without compute_metrics the
/// Trainer keeps losses alone.
[[nodiscard]] std::vector<Resident> evaluation(const RunInputs& inputs, const StepFigures& step);
/// What would need less.
[[nodiscard]] std::string_view evaluation_remedy(const Training& training);

/// What kept logits take of a process whose device is the CPU, at the instant that takes most: there no copy
/// is made to move them to the host.
[[nodiscard]] Bytes kept_logits_on_cpu(const StepInputs& inputs);

/// What the trainer's own model keeps of the samples that it generates at once. Source: transformers 5.23
/// cache_utils.py.
struct GenerationCache {
  Bytes token;  ///< keys and values of one token of each sample in one layer
  std::int64_t whole_layers{}, sliding_layers{}, window{};
  Bytes states;  ///< of linear attention, in fp32

  [[nodiscard]] std::int64_t in_window(std::int64_t tokens) const { return std::min(tokens, window); }
  /// Of all layers once samples have so many tokens; those that slide see a window.
  [[nodiscard]] Bytes keys_values(std::int64_t tokens) const {
    return token * (whole_layers * tokens + sliding_layers * in_window(tokens));
  }
};
[[nodiscard]] GenerationCache generation_cache(const Model& model, const Training& training,
                                               const Strategy& strategy, std::int64_t samples);

/// Nothing where no tokens are generated.
[[nodiscard]] std::vector<Resident> generation(const RunInputs& inputs, const StepFigures& step);

}  // namespace zplan
