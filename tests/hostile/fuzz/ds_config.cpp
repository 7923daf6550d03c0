#include "planner/frameworks/deepspeed/config/lint.h"
#include "tests/hostile/fuzz/fuzz.h"

/// A repair of a repaired text changes nothing.
void zplan::fuzz::read(const std::string& text) {
  const std::string once = fix(text, "d.json").text;
  if (fix(once, "d.json").text != once) __builtin_trap();
}
