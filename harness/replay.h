#pragma once
// Reads the schedule of a plan and issues the calls of its optimizer step.

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "harness/session.h"

namespace zplan::bench {

/// Equal calls of a plan that follow each other.
struct PlannedCall {
  Work work;
  Groups groups;
  std::int64_t times{1};
  Seconds compute;                           ///< of the compute units, before each
  bool exposed{};                            ///< true if later compute waits for its result
  std::string group, phase, dtype, purpose;  ///< as the plan names them
};

/// The schedule of one optimizer step.
struct PlannedStep {
  Json plan;  ///< as it was read, with the file's name
  std::int64_t ranks{};
  Bytes device_memory;
  std::vector<PlannedCall> calls{};
};

/// Reads the schedule from a report of zplan (`zplan … --json`), or from a file that holds it alone. Throws
/// InputError, which names file and place, also if the plan is for another number of ranks than `ranks`.
[[nodiscard]] PlannedStep read_plan(const std::string& path, std::int64_t ranks);

/// Checks each kind of call, then issues and times the step `Options::steps` times. Writes the recorder's
/// "replay". Returns false if a result was wrong or the memory could not be allocated.
[[nodiscard]] bool replay(Session& session, const PlannedStep& step);

}  // namespace zplan::bench
