#pragma once
// zplan bench: hands over to zplan-bench, the program that measures, which lies beside this one.

#include <ostream>
#include <string>
#include <vector>

namespace zplan {

/// Whether the arguments begin with "bench".
[[nodiscard]] bool is_bench(const std::vector<std::string>& arguments);

/// Becomes zplan-bench; returns only where that could not be done. Throws InputError where it is not there.
[[nodiscard]] int bench_command(const std::vector<std::string>& arguments, std::ostream& err);

}  // namespace zplan
