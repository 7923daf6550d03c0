#pragma once
// What a plan's figures say to the question that it answers.

#include "models/base/quantity.h"
#include "planner/plan/accuracy.h"

namespace zplan {

struct MomentMemory;
struct Plan;
struct Question;
struct Training;

/// How the plan trains: as the question says, unless it is a way of its own.
[[nodiscard]] const Training& training_of(const Plan& plan, const Question& question);

/// Bytes missing on the device; negative where that much is to spare.
[[nodiscard]] Bytes shortage(const Plan& plan, const Question& question);
/// Bytes of a node's host memory missing for the steps; negative where that much is to spare.
[[nodiscard]] Bytes host_shortage(const Plan& plan, const Question& question);
/// The first moment at which device or host memory does not suffice; null where both always do.
[[nodiscard]] const MomentMemory* short_moment(const Plan& plan, const Question& question);

/// What makes measured runs comparable to the plan.
[[nodiscard]] Comparable comparable_to(const Plan& plan, const Question& question);

}  // namespace zplan
