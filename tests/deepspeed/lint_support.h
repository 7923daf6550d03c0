#pragma once

#include <algorithm>
#include <string>
#include <vector>

#include "planner/frameworks/deepspeed/config/lint.h"
#include "support.h"

namespace zplan::testing {

inline std::vector<Finding> linted(const Json& config, const LintOptions& options = {}) {
  return lint(config.dump(1), "ds.json", options);
}

/// "rule pointer" of each finding, in order.
inline std::vector<std::string> named(const std::vector<Finding>& findings) {
  std::vector<std::string> names;
  for (const Finding& each : findings) names.push_back(each.rule + " " + each.pointer);
  return names;
}

/// Returns the findings of one rule.
inline std::vector<Finding> of_rule(const std::vector<Finding>& findings, std::string_view rule) {
  std::vector<Finding> some;
  std::copy_if(findings.begin(), findings.end(), std::back_inserter(some),
               [rule](const Finding& each) { return each.rule == rule; });
  return some;
}

/// One line per finding, for messages of failing tests.
inline std::string lines(const std::vector<Finding>& findings) {
  std::string text;
  for (const Finding& each : findings)
    text += std::string(to_name(each.severity)) + " " + each.rule + " " + each.pointer + ": " + each.found +
            "; " + each.effect + "; " + each.advice + "\n";
  return text;
}

}  // namespace zplan::testing
