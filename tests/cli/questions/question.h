#pragma once
// Questions as users might type them, over all options and made at random.

#include "random.h"

namespace zplan::test {

/// Words of a command line: "--model", "8B", …; most can be answered, some contradict themselves.
[[nodiscard]] std::vector<std::string> random_question(Random& random);

}  // namespace zplan::test
