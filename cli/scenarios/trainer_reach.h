#pragma once
// Computes how far a run reaches under its trainer, and under the trainer that the same script runs without
// it.

#include <cstdint>
#include <optional>
#include <vector>

#include "cli/base/environment.h"
#include "cli/options/options.h"
#include "planner/search/search.h"

namespace zplan {

/// TrainerReach says what a run takes under a trainer, and the largest micro-batch and the longest sample,
/// in tokens, with which it fits, all else as asked. Absent: none fits.
struct TrainerReach {
  TrainerChoice trainer;
  bool fits{};
  Bytes required;  ///< of a GPU
  Seconds step;
  std::optional<std::int64_t> largest_micro_batch{}, longest_sequence{};
};

/// True if the first trainer of --trainer has a Trainer::beside: trainer_reaches() then returns at least its
/// own.
[[nodiscard]] bool has_trainer_beside(const Options& options);

/// Returns the memory, the step time, the largest micro-batch and the longest sample of a run under the first
/// trainer of --trainer, then of the same run under Trainer::beside, with the question's framework and
/// optimizer. Returns nothing for a trainer without Trainer::beside.
[[nodiscard]] std::vector<TrainerReach> trainer_reaches(const Options& options, const Question& question,
                                                        const Answer& answer, const Environment& environment);

}  // namespace zplan
