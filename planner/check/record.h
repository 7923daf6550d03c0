#pragma once
// One prediction compared with one measurement.

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
