#pragma once

#include <string>
#include <string_view>

namespace zplan {

/// Writes the whole file or leaves what was there: a temporary file beside it, then renamed.
/// Throws InputError naming `option` where that cannot be done.
void write_file(const std::string& path, const std::string& text, std::string_view option);

}  // namespace zplan
