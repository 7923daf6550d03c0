#pragma once
// Many records as a few figures.

#include <map>
#include <string>
#include <vector>

#include "planner/check/record.h"

namespace zplan::check {

/// All records of one kind and one statistic. Errors are absolute, relative to the measurement, and of judged
/// records only; 0 where none was judged.
struct Group {
  Kind kind{Kind::measurement};
  Statistic statistic{Statistic::allocated};
  std::size_t records{}, judged{}, skipped{};
  double median_error{};  ///< the middle one; of an even number the mean of the middle two
  double p90_error{};     ///< the smallest error that at least nine in ten do not exceed
  double worst_error{};
  double under_predicted{};                         ///< share of the judged that are too low by more than 5 %
  double cautious{};                                ///< share of the judged that are not too low at all
  std::size_t exact{};                              ///< judged records that are equal
  std::size_t phase_judged{}, phase_right{};        ///< peaks whose phase was seen, and was foretold
  std::map<std::string, std::size_t> skip_reasons;  ///< feature → records that it keeps from being judged
  bool operator==(const Group&) const = default;
};

/// Too low by more than this counts as under-predicted.
inline constexpr double kUnderPredicted = 0.05;

/// One group per kind and statistic that occurs, in the order of the enums.
[[nodiscard]] std::vector<Group> summarise(const std::vector<Record>& records);

/// The same figures over bare signed errors.
struct ErrorFigures {
  double median{}, p90{}, worst{}, under_predicted{}, cautious{};
  bool operator==(const ErrorFigures&) const = default;
};
[[nodiscard]] ErrorFigures error_figures(const std::vector<double>& signed_errors);

/// The judged records of largest absolute error, worst first; ties keep their order.
[[nodiscard]] std::vector<Record> worst_records(const std::vector<Record>& records, std::size_t most);

}  // namespace zplan::check
