#pragma once
// Scenarios that the tests of models and charts share, each planned once.

#include <map>

#include "gui/session/planned.h"

namespace zplan::gui::test {

[[nodiscard]] inline PlannedPtr planned(const std::vector<std::string>& arguments, Depth depth = Depth::full,
                                        const std::string& name = "8B on 5") {
  static std::map<std::pair<std::vector<std::string>, Depth>, PlannedPtr> made;
  PlannedPtr& known = made[{arguments, depth}];
  if (!known || known->scenario.name != name)
    known = plan_scenario({.name = name, .arguments = arguments}, Environment{}, depth);
  return known;
}

/// Fits with ZeRO 3 alone.
[[nodiscard]] inline PlannedPtr readme(Depth depth = Depth::full) {
  return planned({"--model", "8B", "--gpus", "5", "--mem", "44"}, depth);
}
/// On two nodes, with offload and tensor parallelism among its plans, several micro-batches a step.
[[nodiscard]] inline PlannedPtr two_nodes() {
  return planned({"--model", "8B", "--gpus", "16", "--nodes", "2", "--mem", "80", "--grad-accum", "4"},
                 Depth::full, "two nodes");
}
/// Nothing fits.
[[nodiscard]] inline PlannedPtr too_small() {
  return planned({"--model", "8B", "--gpus", "2", "--mem", "16", "--offload", "none"}, Depth::full,
                 "too small");
}

[[nodiscard]] inline Subjects all_plans(const PlannedPtr& planned) {
  Subjects subjects;
  for (std::size_t i = 0; i < planned->answer.plans.size(); ++i)
    subjects.push_back({QString::fromStdString(planned->answer.plans[i].id()), planned, i});
  return subjects;
}

}  // namespace zplan::gui::test
