#pragma once
// The parts of this build, put together for run().

#include "harness/options.h"
#include "harness/run.h"

namespace zplan::bench {

[[nodiscard]] Machine machine_of(const Options& options, BackendChoice choice);

/// What this host is and how its parts are joined, for people or as JSON, and the options of zplan that say
/// so.
[[nodiscard]] std::string topology_text(bool json);

}  // namespace zplan::bench
