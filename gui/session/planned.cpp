#include "gui/session/planned.h"

namespace zplan::gui {

PlannedPtr plan_scenario(const Scenario& scenario, const Environment& environment, Depth depth,
                         const std::string& likely) {
  return std::make_shared<const Planned>(planned_scenario(scenario, environment, depth, likely));
}

}  // namespace zplan::gui
