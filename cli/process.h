#pragma once

#include <string>
#include <vector>

namespace zplan {

/// The program as a process: run() with its environment and streams, every error one line on stderr. Returns
/// the exit status. `arguments` without the program's name.
[[nodiscard]] int run_process(const std::vector<std::string>& arguments) noexcept;

}  // namespace zplan
