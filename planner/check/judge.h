#pragma once
// Compares each case with its prediction: cases → records.

#include <vector>

#include "planner/check/case.h"
#include "planner/check/predict.h"

namespace zplan::check {

/// Shorter collectives are not judged on bytes sent: other traffic is too large a part of them.
inline constexpr Bytes kLeastSent = kMiB;

/// Collectives of this size and more are a subset of their own.
inline constexpr Bytes kLongMessage = kMiB * 16;

/// Returns one record per statistic of the case, in the order of statistics_of.
[[nodiscard]] std::vector<Record> judge(const Case& measured);
[[nodiscard]] std::vector<Record> judge(const std::vector<Case>& cases);

/// Returns the predicted bytes that a measured figure is compared with:
///  allocated, active: the peak of live tensors ("active" is slightly above "allocated": it counts blocks
///  that
///    wait for a stream);
///  requested: bytes that tensors request; reserved: the allocator's pool;
///  device: the pool and memory outside PyTorch;
///  host_pinned, host_pageable: host memory of offload;
///  required: the smallest pool, and memory outside PyTorch where the limit was a GPU's;
///  unknown: of all figures from allocated to device the one nearest to the measurement.
[[nodiscard]] Bytes predicted_bytes(const MemoryPrediction& prediction, const MeasuredFigure& figure,
                                    Kind kind);

/// Difference of two schedules: calls that only one of them has, as a share of the recorded calls. If all
/// counts agree, elements are compared in the same way. 0 only if every kind of call is equal in both.
struct ScheduleDifference {
  std::int64_t planned{}, recorded{};  ///< calls
  double share{};                      ///< signed: negative where fewer calls, or elements, were planned
  bool equal{};
};
[[nodiscard]] ScheduleDifference compare_calls(const std::vector<CallTally>& planned,
                                               const std::vector<CallTally>& recorded);

}  // namespace zplan::check
