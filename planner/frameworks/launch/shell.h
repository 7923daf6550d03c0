#pragma once

#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

namespace zplan {

/// The words of a command line, each as a POSIX shell reads it.
using Words = std::vector<std::string>;

/// One word for a POSIX shell: quoted where it has to be.
[[nodiscard]] std::string shell_word(std::string_view word);
[[nodiscard]] std::string join(const Words& words);
void add(Words& words, std::initializer_list<std::string> more);

/// Where the processes of several nodes meet.
inline constexpr std::string_view kPort = "29500";

}  // namespace zplan
