#include "tests/hostile/fuzz/fuzz.h"

#include <cstddef>
#include <cstdint>

#include "models/base/error.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  try {
    zplan::fuzz::read(std::string(reinterpret_cast<const char*>(data), size));
  } catch (const zplan::InputError&) {
    // What bad input is answered with.
  }
  return 0;
}
