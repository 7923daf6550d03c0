#pragma once
// Times of a schedule's calls on a cluster's links.

#include <vector>

#include "planner/cost/queues.h"
#include "planner/cost/schedule.h"

namespace zplan {

/// Fills in bytes by link, time and algorithm of every kind from the calls that the schedule was made of.
void price(Schedule& schedule, const std::vector<Call>& calls, CostModel& cost_model);

/// Traffic of one optimizer step in one phase and group, per GPU.
struct Traffic {
  Phase phase{Phase::backward};  ///< forward, backward or step: the head and the loss belong to theirs
  Group group{Group::data};
  std::int64_t calls{};
  Bytes inside{}, outside{};
  Seconds time{};     ///< of all its calls
  Seconds exposed{};  ///< of that, what the compute stream waits for
  friend bool operator==(const Traffic&, const Traffic&) = default;
};

/// By pass and group, in the order of a step. Tensor-parallel calls show whole (Clock::exchange); what else
/// shows in a phase is the data-parallel group's, also where the call was issued in the phase before.
[[nodiscard]] std::vector<Traffic> traffic(const Schedule& schedule, const RunTime& run);

/// Returns the compute stream's waits in a phase as reports name it.
[[nodiscard]] Seconds exposed_in(const RunTime& run, Phase phase);

}  // namespace zplan
