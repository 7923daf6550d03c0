#pragma once
// Programs that are built and installed beside this one: zplan-bench, zplan-gui.

#include <string>
#include <vector>

namespace zplan {

/// The path of `name` in this program's folder. Where it is not there: InputError that names the command
/// which wants it and what is needed.
[[nodiscard]] std::string program_beside(const std::string& name, const std::string& command,
                                         const std::string& needed);

/// What exec and spawn take; `words` must outlive it.
[[nodiscard]] std::vector<char*> pointers(std::vector<std::string>& words);

/// Becomes the program that the first word names; throws InputError where that cannot be.
[[noreturn]] void become(std::vector<std::string> words, const std::string& command);

}  // namespace zplan
