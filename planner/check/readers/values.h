#pragma once
// Values of measured rows, whatever the format.

#include "models/base/json_reader.h"
#include "models/base/names.h"
#include "planner/check/case.h"

namespace zplan::check {

// Far beyond any run, and small enough that every figure stays within 64 bits.
inline constexpr std::int64_t kMostBytes = std::int64_t{1} << 50, kMostRanks = 1'000'000, kMostBatch = 65'536,
                              kMostSequence = 16'777'216, kMostCalls = std::int64_t{1} << 32;
inline constexpr double kMostSeconds = 1e6;

/// Returns bytes, which are a whole number.
[[nodiscard]] inline Bytes bytes_at(const JsonReader& value) { return Bytes(value.integer(0, kMostBytes)); }

/// Returns the value of an enum by its name.
template <class E>
[[nodiscard]] E named(const JsonReader& value) {
  return parse_name<E>(value.place(), value.text());
}

/// Returns a figure that is known to the byte.
[[nodiscard]] inline MeasuredFigure bytes_figure(Statistic statistic, const JsonReader& value) {
  const auto bytes = static_cast<double>(bytes_at(value).value);
  return {statistic, {bytes, bytes}};
}

/// Returns the planner's phases that a measured one can be. Under tensor parallelism the head is replaced,
/// and the first mark comes after the loss, so that two phases are one.
[[nodiscard]] std::vector<Phase> planned_phases(const JsonReader& phase, bool tensor_parallel);

}  // namespace zplan::check
