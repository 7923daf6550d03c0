#pragma once

#include <string_view>
#include <vector>

namespace zplan::embedded {

/// A data file compiled into the program, so that one file is the whole program.
struct EmbeddedFile {
  std::string_view name;  ///< relative to its target's folder
  std::string_view text;
};

}  // namespace zplan::embedded
