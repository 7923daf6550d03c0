#pragma once
// One row of tests/reference/steps/steps.json as a run.

#include "planner/check/readers/fields.h"
#include "planner/plan/rank_run.h"
#include "tests/planner/support.h"

namespace zplan::testing {

inline RankRun measured_run(const Json& row) {
  const check::Setup setup = check::read_run(JsonReader(row, "row"), check::kTraining).setup;
  return {setup.model, setup.training, setup.strategy, {}};
}

}  // namespace zplan::testing
