#pragma once
// One run of tests/reference/deepspeed_runs/runs.json as the planner's own types.

#include <ostream>
#include <vector>

#include "planner/check/readers/read.h"
#include "tests/planner/support.h"

namespace zplan::testing {

struct RecordedRun {
  std::string name;
  Json row;
  Model model;
  Training training;
  Strategy strategy;
  std::vector<check::HeldBytes> held;   ///< by rank
  std::vector<check::CallTally> calls;  ///< of an optimizer step
};
inline void PrintTo(const RecordedRun& run, std::ostream* out) { *out << run.name; }

inline RecordedRun recorded_run(const Json& row) {
  const std::vector<check::Case> cases = check::read_recorded_runs(JsonReader(row, "run"));
  const check::Setup& setup = *cases.front().setup;
  return {cases.front().id,
          row,
          setup.model,
          setup.training,
          setup.strategy,
          std::get<check::MeasuredHeld>(cases.front().measured).ranks,
          std::get<check::MeasuredSchedule>(cases.back().measured).calls};
}

inline std::vector<RecordedRun> recorded_runs() {
  std::vector<RecordedRun> runs;
  for (const Json& row : test_json("reference/deepspeed_runs/runs.json")) runs.push_back(recorded_run(row));
  return runs;
}

}  // namespace zplan::testing
