#pragma once

#include "models/base/json_reader.h"

namespace zplan {

/// A document as it is printed and saved: indented, with a line's end behind it. What is no UTF-8, as in the
/// name of a file, is replaced.
[[nodiscard]] std::string json_text(const Json& json);

}  // namespace zplan
