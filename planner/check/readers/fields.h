#pragma once
// The fields by which rows describe a training run: one table for all formats of steps and runs, and the
// reader that follows it.

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "models/base/json_reader.h"
#include "planner/check/case.h"

namespace zplan::check {

/// Formats of rows. A set of them is the sum of their bits.
enum RowFormat : unsigned {
  kPublished = 1,   ///< zplan.measurement/1 and zplan.speed/1
  kTraining = 2,    ///< steps, capacities, schedules and zplan.runs/1
  kRouted = 4,      ///< schedules of a mixture on CPUs whose tokens were routed by their values
  kHost = 8,        ///< host memory of CPU ranks
  kRecorded = 16,   ///< recorded runs of DeepSpeed, with `spec` in the place of `options`
  kActivation = 32  ///< activations, whose fields are the row's own
};

/// A run while its row is read. Fields are read in the order of the table, so that a later one may depend on
/// the values of an earlier one.
struct Run {
  RowFormat format{};
  JsonReader row;
  JsonReader options;  ///< the object that holds most fields
  std::string id{};    ///< empty: the format has none
  std::int64_t gpus{1};
  Setup setup{};
  bool has_model{};  ///< false: `skip` says why not, and reading stopped there
  Skip skip{};

  /// Returns the question, or nothing where the model is not known.
  [[nodiscard]] std::optional<Setup> question() const {
    return has_model ? std::optional(setup) : std::nullopt;
  }
};

/// One field of a row.
struct Field {
  std::string_view key;  ///< in the run's options; with a slash in front, in the row itself
  unsigned formats{};    ///< that have it
  unsigned needed{};     ///< of these, the formats in which it must be there; null counts as absent
  void (*read)(const JsonReader& value, Run& run){};
  std::string_view meaning{};         ///< with its unit
  bool (*applies)(const Run& run){};  ///< false: the field is not looked at; null: it always is
};

/// The table. A key occurs twice where formats give it different meanings.
[[nodiscard]] std::span<const Field> fields();

/// Reads a row of `format`. What a row leaves open is the format's default (docs/check.md). Throws InputError
/// with the place, the value and what is accepted.
[[nodiscard]] Run read_run(const JsonReader& row, RowFormat format);

/// Returns the case of a run and its measurement.
[[nodiscard]] Case case_of(const Run& run, Kind kind, Measured measured);
/// Returns the cases of a list, one an entry.
[[nodiscard]] std::vector<Case> cases_of(const JsonReader& rows, Case (*case_at)(const JsonReader&));

}  // namespace zplan::check
