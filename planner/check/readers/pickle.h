#pragma once
// Python's pickle format, as far as plain values need it. A pickle that would run code is refused.

#include <string>
#include <string_view>

#include "models/base/json_reader.h"

namespace zplan::check {

/// True if the file begins as a pickle of protocol 2 or later.
[[nodiscard]] bool begins_as_pickle(std::string_view file);

/// Returns the value as JSON. Lists under the key "frames", which a memory snapshot shares between thousands
/// of entries, are written once: to the list "stacks" of the outermost dict; "frames" is then their number
/// there. Throws InputError for anything but dicts, lists, tuples, texts and numbers, and for a file that is
/// cut off.
[[nodiscard]] Json read_pickle(std::string_view file, const std::string& source);

}  // namespace zplan::check
