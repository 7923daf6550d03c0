#pragma once

#include "planner/model_trace/tape.h"
#include "planner/question/strategy.h"

namespace zplan {

/// Stands in place of kReferenceBegins where the policy itself runs a forward that only scores.
inline constexpr std::int32_t kScoringBegins = -3;

/// Returns the settings that the reference model's forward is recorded with. A copy has no adapters.
[[nodiscard]] Training reference_training(const Training& training);
/// Returns `strategy` without checkpointing, which a reference model's forward does not use.
[[nodiscard]] Strategy reference_strategy(const Strategy& strategy);

/// Inserts the forward of `reference`, a tape without a backward, into `policy` where Event::Kind::reference
/// stands, or before its own forward. With adapters switched off the hooked modules are the policy's; a
/// copy's modules are listed in Tape::reference.
[[nodiscard]] Tape with_reference(Tape policy, const Tape& reference, ReferenceModel kind);

/// Puts `scores`, a forward of the policy without a backward, before all of `policy`.
[[nodiscard]] Tape with_scores(Tape policy, const Tape& scores);

/// Wraps the value model's micro-step around the policy's: its forward comes first and its backward last. Its
/// layers are numbered after the policy's, and its other parameters after the `parameters` that the policy
/// has around its layers.
[[nodiscard]] Tape with_values(Tape policy, const Tape& values, std::int32_t parameters);

}  // namespace zplan
