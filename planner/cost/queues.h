#pragma once
// How long the queues of a GPU take for the program of a step. What one waits for another shows.

#include <array>
#include <vector>

#include "planner/cost/cost_model.h"
#include "planner/cost/run_time.h"
#include "planner/step/clock.h"
#include "planner/step/lanes.h"

namespace zplan {

/// A load's device time by class, and the host's to issue it, in seconds.
template <class T>
struct LoadSeconds {
  T products{}, attention{}, other{}, host{};
};

/// What the parts of a program take. T: double, or Lanes for eight micro-batch sizes at once.
template <class T>
struct Durations {
  std::vector<LoadSeconds<T>> loads;
  std::vector<T> calls;              ///< by StepProgram::calls
  double memory_bytes_per_second{};  ///< of kernels that only read and write
};

/// Figures of RunTime, in its order; the phases' exposed communication last.
using RunFigures = std::array<double, 9 + kPhases>;

/// `once`: with the repeated micro-step played once; each more of it adds `repeated`.
struct PlayedStep {
  RunFigures once{}, repeated{};
};

/// The same of step and micro_steps alone, in seconds, for eight micro-batch sizes.
struct PlayedLanes {
  Lanes step, micro_steps;
  Lanes repeated;  ///< added to both
};

/// Nothing is under way when the step begins: the optimizer step before it waited for everything.
[[nodiscard]] PlayedStep play(const StepProgram& program, const Durations<double>& durations);
[[nodiscard]] PlayedLanes play(const StepProgram& program, const Durations<Lanes>& durations);

/// What the compute stream has done by itself before each event, in seconds, waiting for collectives not
/// counted; one more figure behind the last event.
[[nodiscard]] std::vector<double> own_work(const StepProgram& program, const Durations<double>& durations);

/// RunTime of a step in which the repeated micro-step comes `repeats` times (1 where nothing is repeated).
[[nodiscard]] RunTime run_time(const PlayedStep& played, std::int64_t repeats);

/// Of a program with the cost model of its tape.
[[nodiscard]] Durations<double> durations(const StepProgram& program, CostModel& cost_model);
[[nodiscard]] RunTime run_time(const StepProgram& program, CostModel& cost_model, const Strategy& strategy);

/// How often a micro-step is repeated: the first and the last are played by themselves.
[[nodiscard]] constexpr std::int64_t repeats_of(std::int64_t micro_steps) {
  return micro_steps > 2 ? micro_steps - 2 : 1;
}

}  // namespace zplan
