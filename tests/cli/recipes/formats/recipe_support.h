#pragma once
// Plans a recipe that a test writes.

#include <string>

#include "tests/cli/support.h"

namespace zplan::test {

/// The report of the recipe on GPUs of 80 GB; `name` may hold folders.
inline json planned_as(const std::string& text, const std::string& name, const std::string& options = {}) {
  const Folder folder;
  const std::string file = folder.write(name, text);
  return report("--recipe " + file + " --mem 80 " +
                (options.find("--gpus") == std::string::npos ? "--gpus 1 " : "") + options);
}

inline json training_of(const std::string& text, const std::string& name, const std::string& options = {}) {
  return planned_as(text, name, options).at("training");
}

inline json strategy_of(const std::string& text, const std::string& name, const std::string& options = {}) {
  return planned_as(text, name, options).at("plans").at(0).at("strategy");
}

/// Keys that the first recipe lists as not planned, joined by blanks.
inline std::string not_planned(const json& report) {
  std::string keys;
  for (const json& each : report.at("recipes").at(0).at("not_planned"))
    keys += each.at("key").get<std::string>() + " ";
  return keys;
}

/// The message of a recipe that is refused.
inline std::string refused(const std::string& text, const std::string& name,
                           const std::string& options = {}) {
  const Folder folder;
  const Result result = in_process("--recipe " + folder.write(name, text) + " --gpus 1 --mem 80 " + options);
  EXPECT_EQ(result.status, kBadInput) << text;
  EXPECT_EQ(result.out, "") << text;
  return result.err;
}

}  // namespace zplan::test
