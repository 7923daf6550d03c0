#pragma once
// Cases → records: what each statistic is compared with.

#include <vector>

#include "planner/check/case.h"
#include "planner/check/predict.h"

namespace zplan::check {

/// Shorter collectives are not judged on what was sent: too much of it is not theirs.
inline constexpr Bytes kLeastSent = kMiB;

/// Collectives of this size and more are a subset of their own.
inline constexpr Bytes kLongMessage = kMiB * 16;

/// One record per statistic of the case, in the order of statistics_of.
[[nodiscard]] std::vector<Record> judge(const Case& measured);
[[nodiscard]] std::vector<Record> judge(const std::vector<Case>& cases);

/// The prediction that a byte figure of a run is compared with:
///  allocated, active: the peak of live tensors ("active" is a little above "allocated": blocks that wait for
///  a
///    stream);
///  requested: what tensors asked for; reserved: the allocator's pool; device: that and what lies outside
///  PyTorch; host_pinned, host_pageable: what offload takes of the host; required: what the allocator must be
///  given, and what lies outside where the limit was a GPU's; unknown: anything from allocated to device, so
///  of these the figure nearest to the measurement.
[[nodiscard]] Bytes predicted_bytes(const MemoryPrediction& prediction, const MeasuredFigure& figure,
                                    Kind kind);

/// How far two schedules are apart: calls that only one of them has, as a share of those recorded; where all
/// counts agree, elements likewise. 0 only where every kind of call is equal in count and elements.
struct ScheduleDifference {
  std::int64_t planned{}, recorded{};  ///< calls
  double share{};                      ///< signed: negative where fewer calls, or elements, were planned
  bool equal{};
};
[[nodiscard]] ScheduleDifference compare_calls(const std::vector<CallTally>& planned,
                                               const std::vector<CallTally>& recorded);

}  // namespace zplan::check
