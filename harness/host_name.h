#pragma once

#include <string>

namespace zplan::bench {

/// The name of this host; "unknown" where it has none.
[[nodiscard]] std::string host_name();

}  // namespace zplan::bench
