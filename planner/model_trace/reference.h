#pragma once

#include "planner/model_trace/tape.h"
#include "planner/question/strategy.h"

namespace zplan {

/// In the place of kReferenceBegins: a forward of the policy's own that only scores.
inline constexpr std::int32_t kScoringBegins = -3;

/// How the forward of the training's reference model is recorded: of a copy, the model without adapters.
[[nodiscard]] Training reference_training(const Training& training);
/// A reference model's forward is not checkpointed.
[[nodiscard]] Strategy reference_strategy(const Strategy& strategy);

/// `policy` with the forward of `reference`, a tape without a backward, where Event::Kind::reference stands;
/// before its own where it stands nowhere. What is hooked is the policy's own where adapters are switched
/// off; a copy's modules are listed in Tape::reference.
[[nodiscard]] Tape with_reference(Tape policy, const Tape& reference, ReferenceModel kind);

/// `policy` with a forward of its own before all others: `scores`, a tape without a backward.
[[nodiscard]] Tape with_scores(Tape policy, const Tape& scores);

/// The policy's micro-step with that of the model of values around it: its forward comes first and its
/// backward last. Its layers are numbered behind the policy's, its other parameters behind the
/// `parameters` that the policy has around its layers.
[[nodiscard]] Tape with_values(Tape policy, const Tape& values, std::int32_t parameters);

}  // namespace zplan
