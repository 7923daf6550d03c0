#include <nlohmann/json.hpp>

#include "hardware_profiles/profiles.h"
#include "planner/check/readers/read.h"
#include "planner/explain/oom_message.h"
#include "tests/hostile/fuzz/fuzz.h"

/// Logs of DeepSpeed and nccl-tests, measurements, and error messages.
void zplan::fuzz::read(const std::string& text) {
  static_cast<void>(read_oom_messages(text));
  const check::Document document = check::recognised(text, "t.log");
  if (document.format && !check::needs_plan(*document.format))
    static_cast<void>(check::read_cases(document, {.hardware = built_in_profiles(), .machines = {}}));
}
