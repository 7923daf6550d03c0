// --ds-config's view of the rules: the first finding that a plan cannot go past is thrown, others are
// sentences.

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>

#include "planner/frameworks/deepspeed/config/keys.h"
#include "planner/frameworks/deepspeed/config/lint.h"
#include "planner/frameworks/deepspeed/config/lint_context.h"

namespace zplan {

namespace {

/// DeepSpeed stops at them, or a setting is lost that a plan depends on: at the top level perhaps a whole
/// section.
constexpr std::array<std::string_view, 16> kStops{
    "unknown-key",           "unknown-section-key", "removed-key",
    "deprecated-beside-new", "two-names",           "optimizer-type",
    "optimizer-argument",    "scheduler-type",      "scheduler-argument",
    "missing-type",          "max-grad-norm",       "two-precisions",
    "odd-allgather-bucket",  "nvme-without-path",   "batch-autotp-zero3",
    "not-an-object"};
/// Said, and planned all the same.
constexpr std::array<std::string_view, 4> kSaid{"ignored-section-key", "deprecated-key", "shadowed-section",
                                                "auto-nobody-fills"};

std::string place(const JsonReader& config, const std::string& pointer) {
  return pointer.empty() ? config.place() : config.place() + "#" + pointer;
}

std::string object_of(const std::string& pointer) { return pointer.substr(0, pointer.rfind('/')); }

/// A key that should not be there is named in what was found, and its object is the place.
bool is_of_key(const Finding& finding) {
  return finding.rule.ends_with("-key") || finding.rule.ends_with("-argument") ||
         finding.rule == "max-grad-norm" || finding.rule == "two-names";
}

[[noreturn]] void fail(const JsonReader& config, const Finding& finding) {
  throw InputError(place(config, is_of_key(finding) ? object_of(finding.pointer) : finding.pointer),
                   finding.found, finding.advice);
}

std::string sentence(const JsonReader& config, const Finding& finding) {
  if (finding.rule == "auto-nobody-fills")
    return fmt::format("{}: neither the HF Trainer nor accelerate fills in this \"auto\"{}",
                       place(config, finding.pointer),
                       finding.outcome == Outcome::default_value ? ", and DeepSpeed takes its default" : "");
  if (finding.rule == "deprecated-key")
    return fmt::format("{} is deprecated: {}", place(config, finding.pointer), finding.advice);
  return fmt::format("{}: DeepSpeed ignores the {}, {}", place(config, object_of(finding.pointer)),
                     finding.found, finding.advice);
}

}  // namespace

std::vector<std::string> check_keys(const JsonReader& config) {
  std::vector<std::string> warnings;
  for (const Finding& finding : lint(config.raw().dump(), config.place())) {
    if (holds(kStops, finding.rule)) fail(config, finding);
    if (holds(kSaid, finding.rule)) warnings.push_back(sentence(config, finding));
  }
  return warnings;
}

}  // namespace zplan
