#pragma once
// Lines for people of what was measured.

#include <string>

#include "harness/measure.h"

namespace zplan::bench {

/// Heading and one line of the table of collectives, 100 columns wide.
[[nodiscard]] std::string table_head();
[[nodiscard]] std::string table_line(const Measurement& measurement);

/// What was run where: library, ranks, hosts.
[[nodiscard]] std::string opening_text(const Json& head);

/// Copies, products, memory and storage of the document; empty where none were measured.
[[nodiscard]] std::string machine_text(const Json& document);

/// Of the recorder's "replay": counts and times by kind of call, and the step.
[[nodiscard]] std::string replay_text(const Json& replay);

}  // namespace zplan::bench
