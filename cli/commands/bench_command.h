#pragma once
// zplan bench: hands over to zplan-bench, the program that measures, which lies beside this one.

#include <string>
#include <vector>

#include "cli/environment.h"

namespace zplan {

/// Whether the arguments begin with "bench".
[[nodiscard]] bool is_bench(const std::vector<std::string>& arguments);

/// Becomes zplan-bench. With --profile FILE it waits for it instead, and imports what it measured into that
/// file as `zplan hardware import` does; the exit status is then the first one that is not 0. Throws
/// InputError where zplan-bench is not there, or --profile is given without a file.
[[nodiscard]] int bench_command(const std::vector<std::string>& arguments, const Environment& environment,
                                std::ostream& out, std::ostream& err);

}  // namespace zplan
