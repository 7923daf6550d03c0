#pragma once
// Readers of what others write, each given mutated inputs by libFuzzer. A reader answers or throws
// InputError.

#include <string>

namespace zplan::fuzz {

/// Reads one input. Each executable has one such function.
void read(const std::string& text);

}  // namespace zplan::fuzz
