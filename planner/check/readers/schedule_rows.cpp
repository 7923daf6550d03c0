#include "hardware_profiles/cluster.h"
#include "planner/check/readers/calls.h"
#include "planner/check/readers/readers.h"
#include "planner/check/readers/training_row.h"

namespace zplan::check {

std::vector<Case> read_schedule_rows(const JsonReader& rows) {
  std::vector<Case> cases;
  for (const JsonReader& row : rows.items()) {
    TrainingRow training = row.has("backend") ? read_routed_row(row) : read_training_row(row);
    MeasuredSchedule schedule;
    if (const auto sequence = row.find("sequence")) schedule.sequence = read_sequence(*sequence);
    schedule.routed = row.has("backend");
    schedule.calls = schedule.routed ? schedule.sequence
                                     : read_calls(row.at("collectives"), "elements_in", "elements_out");
    cases.push_back({.id = training.id,
                     .file = {},
                     .kind = Kind::schedule,
                     .measured = std::move(schedule),
                     .setup = std::move(training.setup),
                     .skip = training.skip});
  }
  return cases;
}

}  // namespace zplan::check
