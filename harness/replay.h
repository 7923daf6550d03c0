#pragma once
// The calls of a plan's optimizer step, issued for real.

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "harness/session.h"

namespace zplan::bench {

/// Calls of a plan that are alike and follow each other.
struct PlannedCall {
  Work work;
  Groups groups;
  std::int64_t times{1};
  Seconds compute;                           ///< of the compute units, before each
  bool exposed{};                            ///< what is computed behind it waits for its result
  std::string group, phase, dtype, purpose;  ///< as the plan names them
};

struct PlannedStep {
  Json plan;  ///< as it was read, with the file's name
  std::int64_t ranks{};
  Bytes device_memory;
  std::vector<PlannedCall> calls{};
};

/// The schedule of a report of zplan (`zplan … --json`), or such a schedule by itself. Throws InputError
/// naming file and place, also where the plan is for another number of ranks than `ranks`.
[[nodiscard]] PlannedStep read_plan(const std::string& path, std::int64_t ranks);

/// Issues the step `Options::steps` times, checked before and timed. The result is the recorder's "replay".
/// False where a result was wrong or the memory is not there.
[[nodiscard]] bool replay(Session& session, const PlannedStep& step);

}  // namespace zplan::bench
