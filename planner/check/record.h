#pragma once
// One prediction compared with one measurement, and summaries of many.

#include <cmath>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "models/base/names.h"

namespace zplan::check {

/// The kind of source that a measurement comes from.
enum class Kind { measurement, speed, collectives, schedule, activation, step, log };

/// The measured quantity. Two statistics never share a group.
enum class Statistic {
  requested,          ///< bytes that tensors asked PyTorch's allocator for, at the peak
  allocated,          ///< torch.cuda.max_memory_allocated
  active,             ///< allocated, and blocks that wait for a stream
  reserved,           ///< torch.cuda.max_memory_reserved
  required,           ///< the smallest device on which the run does not end out of memory
  device,             ///< as nvidia-smi counts: reserved, CUDA context and libraries
  host_pinned,        ///< pinned host memory of the run, in blocks of 4 MiB and more
  host_pageable,      ///< pageable host memory of the run, in blocks of 4 MiB and more
  unknown,            ///< not stated: anything from allocated to device
  host_resident,      ///< anonymous memory of all ranks of a node at one moment of a run
  held,               ///< bytes of states and buffers that one rank holds between steps
  schedule,           ///< collectives of an optimizer step, call for call
  tokens_per_second,  ///< per GPU
  seconds,            ///< of one collective, as a plan has it
  seconds_by_model,   ///< the same, compared with NCCL's model alone
  sent,               ///< bytes between hosts, of all calls of a collective
};

/// A measured range. Without `high`: at least `low`.
struct Range {
  double low{};
  std::optional<double> high;
  bool operator==(const Range&) const = default;
};

/// Returns the error relative to the nearer end of `measured`, negative if the prediction is too low, and 0
/// inside the range. If that end is 0, any other prediction is an error of 1.
[[nodiscard]] double relative_error(double predicted, const Range& measured);

/// Reasons for not judging a record: features that are not modelled, by name, and what they are in this
/// record.
struct Skip {
  std::vector<std::string> features;
  std::string detail{};
  bool operator==(const Skip&) const = default;

  [[nodiscard]] bool any() const { return !features.empty(); }
  /// Adds a feature, once, and appends `said` to the detail.
  void add(const std::string& feature, const std::string& said = {});
  /// "torch.compile; float8 products: detail"
  [[nodiscard]] std::string text() const;
};

/// A point of a sweep: its runs are of one source and differ in one variable alone.
struct SweepPlace {
  std::string variable;  ///< "seq", "micro_batch"
  std::string runs;      ///< the same for all points of the sweep, and for no others
  double at{};           ///< the variable's value
  bool operator==(const SweepPlace&) const = default;
};

/// Properties by which the accuracy page groups runs.
struct Traits {
  std::string framework{}, method{};  ///< as zplan names them; empty: no training
  std::string card{};                 ///< the profile's name; empty: no GPU, or the source names none
  std::string grade{};                ///< that the source was given: "A", "B"; empty: none
  double attention_cost{1};           ///< of its modules: above 1 the source ran a slower attention kernel
  bool operator==(const Traits&) const = default;
};

/// One line of `zplan check`. Bytes, seconds, tokens per second or calls, as the statistic says.
struct Record {
  std::string id;
  std::string file{};
  Kind kind{Kind::measurement};
  Statistic statistic{Statistic::allocated};
  std::optional<double> predicted{};
  std::optional<Range> measured{};
  std::optional<double> error{};      ///< of the prediction; negative: too low
  bool exact{};                       ///< prediction and measurement are equal, to the byte and the call
  std::optional<bool> phase_right{};  ///< whether the peak comes in the phase in which it was seen
  std::string part{};                 ///< of several figures, the one that is furthest off: "forward peak"
  Skip skip{};                        ///< empty where it was judged
  std::string subset{};               ///< rows that are looked at by themselves: "grade A, full and LoRA"
  std::vector<SweepPlace> sweeps{};   ///< the one-variable sweeps that it is a point of
  std::optional<bool> ran{};          ///< on the GPU that was used; false: it ended out of memory
  std::optional<bool> fits{};         ///< whether it was predicted to run there
  std::string failure{};              ///< why the check fails, whatever the tolerance; empty: it does not
  Traits traits{};
  bool operator==(const Record&) const = default;

  [[nodiscard]] bool judged() const { return error.has_value(); }
};

// ---- summaries

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

namespace zplan {

template <>
struct EnumNames<check::Kind> {
  static constexpr std::array<std::pair<check::Kind, std::string_view>, 7> table{
      {{check::Kind::measurement, "measurement"},
       {check::Kind::speed, "speed"},
       {check::Kind::collectives, "collectives"},
       {check::Kind::schedule, "schedule"},
       {check::Kind::activation, "activation"},
       {check::Kind::step, "step"},
       {check::Kind::log, "log"}}};
};

template <>
struct EnumNames<check::Statistic> {
  static constexpr std::array<std::pair<check::Statistic, std::string_view>, 16> table{
      {{check::Statistic::requested, "requested"},
       {check::Statistic::allocated, "allocated"},
       {check::Statistic::active, "active"},
       {check::Statistic::reserved, "reserved"},
       {check::Statistic::required, "required"},
       {check::Statistic::device, "device"},
       {check::Statistic::host_pinned, "host_pinned"},
       {check::Statistic::host_pageable, "host_pageable"},
       {check::Statistic::host_resident, "host_resident"},
       {check::Statistic::unknown, "unknown"},
       {check::Statistic::held, "held"},
       {check::Statistic::schedule, "schedule"},
       {check::Statistic::tokens_per_second, "tokens_per_second"},
       {check::Statistic::seconds, "seconds"},
       {check::Statistic::seconds_by_model, "seconds_by_model"},
       {check::Statistic::sent, "sent"}}};
};

}  // namespace zplan
