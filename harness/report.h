#pragma once
// Prints measurements as text.

#include <string>

#include "harness/measure.h"

namespace zplan::bench {

/// Return the heading and one line of the table of collectives, 100 columns wide.
[[nodiscard]] std::string table_head();
[[nodiscard]] std::string table_line(const Measurement& measurement);

/// Returns a line that names library, ranks and hosts.
[[nodiscard]] std::string opening_text(const Json& head);

/// Returns the table of copies, products, memory and storage; empty if none was measured.
[[nodiscard]] std::string machine_text(const Json& document);

/// Returns the table of a replay: counts and times of each call, and the step's time.
[[nodiscard]] std::string replay_text(const Json& replay);

}  // namespace zplan::bench
