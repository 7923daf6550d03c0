#pragma once
// Micro-batch and accumulation of a strategy: as they are given, or the largest that fits.

#include <cstdint>
#include <optional>
#include <string>

#include "planner/question/question.h"

namespace zplan {

class PlanContext;

/// Fills micro-batch and accumulation of `strategy` from what the question gives; the reason where the global
/// batch cannot be made so.
[[nodiscard]] std::optional<std::string> set_batch(const Question& question, Strategy& strategy,
                                                   std::int64_t micro_batch);

/// The most tokens of one micro-batch that are planned: byte counts stay far inside 64 bits.
inline constexpr std::int64_t kMostTokens = 268'435'456;

/// The largest micro-batch of `strategy` that fits, by bisection (memory grows with it); nothing where 1 does
/// not.
[[nodiscard]] std::optional<std::int64_t> largest_micro_batch(const Question& question, PlanContext& context,
                                                              const Strategy& strategy);

/// A candidate of the question with its micro-batch: where the question leaves it open, the largest that
/// fits.
[[nodiscard]] Strategy sized(const Question& question, PlanContext& context, Strategy strategy);

}  // namespace zplan
