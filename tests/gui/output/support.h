#pragma once
// Plans that the tests of output share.

#include <gtest/gtest.h>

#include <QWidget>
#include <sstream>

#include "../support.h"
#include "cli/run.h"
#include "gui/session/planned.h"

namespace zplan::gui::test {

inline Scenario readme() {
  return {.name = "8B on 5", .arguments = {"--model", "8B", "--gpus", "5", "--mem", "44"}};
}

/// Made once for each scenario.
inline PlannedPtr planned(const Scenario& scenario = readme()) {
  static std::vector<PlannedPtr> made;
  for (const PlannedPtr& each : made)
    if (each->scenario == scenario) return each;
  return made.emplace_back(plan_scenario(scenario, Environment{}, Depth::full));
}

inline Subject subject(const Scenario& scenario = readme(), std::size_t index = 0) {
  return {QString::fromStdString(scenario.name), planned(scenario), index};
}

/// Returns what `zplan` writes to stdout.
inline std::string printed(std::vector<std::string> arguments, const std::vector<std::string>& more = {}) {
  arguments.insert(arguments.end(), more.begin(), more.end());
  std::ostringstream out, err;
  (void)run(arguments, Environment{}, out, err);
  return out.str();
}

/// `zplan --json` saved below `folder`.
inline Scenario saved(const QString& folder) {
  const QString file = folder + "/then.json";
  (void)write(file, QByteArray::fromStdString(printed(readme().arguments, {"--json"})));
  return {.name = "then", .arguments = {}, .report = file.toStdString()};
}

/// Saves a picture to the folder that ZPLAN_TEST_PICTURES names, if it is set.
inline void keep_picture(QWidget& widget, const QString& name) {
  const QString folder = qEnvironmentVariable("ZPLAN_TEST_PICTURES");
  if (folder.isEmpty()) return;
  EXPECT_TRUE(widget.grab().save(folder + "/" + name + ".png"));
}

}  // namespace zplan::gui::test
