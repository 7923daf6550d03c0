#pragma once
// Evaluation as the Hugging Face Trainer runs it: forwards without gradients, and logits that are kept for
// compute_metrics; generation with a cache of keys and values.

#include <string_view>
#include <vector>

#include "planner/moments/moments.h"

namespace zplan {

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

/// Nothing where no tokens are generated.
[[nodiscard]] std::vector<Resident> generation(const RunInputs& inputs, const StepFigures& step);

}  // namespace zplan
