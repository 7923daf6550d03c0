#pragma once
// Summarises records in a few figures.

#include <cmath>
#include <map>
#include <string>
#include <vector>

#include "planner/check/record.h"

namespace zplan::check {

/// Returns the median of at least one figure in ascending order: of an even number the mean of the middle
/// two.
[[nodiscard]] double median_of(const std::vector<double>& sorted);

/// All records of one kind and one statistic. Errors are absolute, relative to the measurement, and of judged
/// records only; 0 where none was judged.
struct RecordGroup {
  Kind kind{Kind::measurement};
  Statistic statistic{Statistic::allocated};
  std::size_t records{}, judged{}, skipped{};
  double median_error{};  ///< the middle one; of an even number the mean of the middle two
  double p90_error{};     ///< the smallest error that at least nine in ten do not exceed
  double worst_error{};
  double under_predicted{};                         ///< share of the judged that are too low by more than 5 %
  double cautious{};                                ///< share of the judged that are not too low at all
  std::size_t exact{};                              ///< judged records that are equal
  std::size_t phase_judged{}, phase_right{};        ///< peaks whose phase was seen, and was predicted
  std::map<std::string, std::size_t> skip_reasons;  ///< feature → records that it keeps from being judged
  bool operator==(const RecordGroup&) const = default;
};

/// Too low by more than this counts as under-predicted.
inline constexpr double kUnderPredicted = 0.05;

/// One group per kind and statistic that occurs, in the order of the enums.
[[nodiscard]] std::vector<RecordGroup> summarise(const std::vector<Record>& records);

/// Records of one kind and one statistic that belong to one subset.
struct Subset {
  std::string name;
  RecordGroup figures;
  bool operator==(const Subset&) const = default;
};
/// The end of the names of pooled subsets.
inline constexpr std::string_view kPooled = ", every counted peak";
/// Returns one per kind, statistic and subset; records without a subset are left out. `pooled` appends, for
/// each subset, one more over all peaks that PyTorch or the driver counted (allocated, active, reserved,
/// device), whose statistic has no meaning.
[[nodiscard]] std::vector<Subset> summarise_subsets(const std::vector<Record>& records, bool pooled);

/// Runs whose GPU is known, by whether they ran and whether they were predicted to.
struct FitTally {
  std::size_t ran{}, ran_and_fits{};
  std::size_t failed{}, failed_and_fits{};
  bool operator==(const FitTally&) const = default;
};
[[nodiscard]] FitTally fit_tally(const std::vector<Record>& records);

/// Increase of a figure per unit of a variable, from the least to the greatest of its values in a sweep.
struct Slope {
  std::string variable;
  std::string from, to;  ///< ids of the two records
  Statistic statistic{Statistic::allocated};
  double predicted{}, measured{};  ///< per unit of the variable
  [[nodiscard]] double error() const { return (predicted - measured) / std::abs(measured); }
  bool operator==(const Slope&) const = default;
};
/// Returns the slope of every sweep of judged records whose figures are known to within 1 %. Sweeps whose
/// measurement changes by less than 1 % are left out.
[[nodiscard]] std::vector<Slope> slopes(const std::vector<Record>& records);

/// Figures of RecordGroup, computed from signed errors alone.
struct ErrorFigures {
  double median{}, p90{}, worst{}, under_predicted{}, cautious{};
  bool operator==(const ErrorFigures&) const = default;
};
[[nodiscard]] ErrorFigures error_figures(const std::vector<double>& signed_errors);

/// Returns the judged records of largest absolute error, worst first; ties keep their order.
[[nodiscard]] std::vector<Record> worst_records(const std::vector<Record>& records, std::size_t most);

}  // namespace zplan::check
