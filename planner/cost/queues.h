#pragma once
// Computes how long the queues of a GPU, or of several ranks that send each other data, take for the programs
// of a step, and which waits that leaves.

#include <array>
#include <cstdint>
#include <vector>

#include "planner/cost/cost_model.h"
#include "planner/cost/run_time.h"
#include "planner/step/clock.h"
#include "planner/step/lanes.h"
#include "planner/step/step_schedule.h"

namespace zplan {

/// A load's device time by class, and the host's to issue it, in seconds.
template <class T>
struct LoadSeconds {
  T products{}, attention{}, other{}, host{};
};

/// Seconds that the parts of a program take. T: double, or Lanes for eight micro-batch sizes at once.
template <class T>
struct Durations {
  std::vector<LoadSeconds<T>> loads{};
  std::vector<T> calls{};            ///< by StepProgram::calls
  double memory_bytes_per_second{};  ///< of kernels that only read and write
};

/// Figures of RunTime, in its order; the phases' exposed communication last.
using RunFigures = std::array<double, 9 + kPhases>;

/// `once`: with the repeated micro-step played once; each more of it adds `repeated`.
struct PlayedStep {
  RunFigures once{}, repeated{};
};

/// Step and micro_steps alone, in seconds, for eight micro-batch sizes.
struct PlayedLanes {
  Lanes step, micro_steps;
  Lanes repeated;  ///< added to both
};

/// Runs one rank's program. Nothing is under way when the step begins: the optimizer step before it waited
/// for everything. What other ranks send is there at once.
[[nodiscard]] PlayedStep play(const StepProgram& program, const Durations<double>& durations);
[[nodiscard]] PlayedLanes play(const StepProgram& program, const Durations<Lanes>& durations);

/// One of several ranks that run together.
struct RankProgram {
  const StepProgram* program{};
  const Durations<double>* durations{};
};
/// Runs the programs of several ranks, each receive behind the send that it is for; the result is by rank,
/// with every repetition in `once`. ClockEvent::peer is a place in `ranks`. Sends from one rank to another
/// arrive in order, and none waits for its receive. Throws std::logic_error where ranks wait for each other.
[[nodiscard]] std::vector<PlayedStep> play(const std::vector<RankProgram>& ranks);

/// A stretch of one queue's work.
struct QueueSpan {
  enum class Lane : std::uint8_t {
    host,
    compute,      ///< the compute stream's kernels
    exchange,     ///< a collective for whose result the compute stream waits at once
    collectives,  ///< collectives that were issued ahead
    transfers,    ///< sends to other stages of a pipeline
  };
  Lane lane{Lane::host};
  ClockEvent::Kind kind{ClockEvent::Kind::compute};
  Phase phase{
      Phase::forward};        ///< of calls: the pass that issues them; else where nothing says more, forward
  std::int32_t event{};       ///< of the program
  std::int32_t repetition{};  ///< of a repeated micro-step: 1, 2, …; 0: the one that is written down
  double from{}, until{};     ///< seconds since the step began
};

/// Holds the work of one rank's queues in a step.
struct QueueHistory {
  std::vector<QueueSpan> spans;  ///< each lane's in order, none over another
  double step{}, micro_steps{};  ///< seconds, as run_time() has them
};

/// Returns it, with the repeated micro-step `repeats` times, at most `most_repetitions` of them written out:
/// the others are a gap.
[[nodiscard]] QueueHistory queue_history(const StepProgram& program, const Durations<double>& durations,
                                         std::int64_t repeats, std::int64_t most_repetitions);
/// Returns that of rank `rank` of several that run together.
[[nodiscard]] QueueHistory queue_history(const std::vector<RankProgram>& ranks, std::size_t rank);

/// Returns the seconds of the compute stream's own work before each event, without its waits for collectives,
/// and behind the last event.
[[nodiscard]] std::vector<double> own_work(const StepProgram& program, const Durations<double>& durations);

/// Returns the RunTime of a step in which the repeated micro-step comes `repeats` times (1 where nothing is
/// repeated).
[[nodiscard]] RunTime run_time(const PlayedStep& played, std::int64_t repeats);

/// Returns the durations, or the time, of a program by the cost model of its tape.
[[nodiscard]] Durations<double> durations(const StepProgram& program, CostModel& cost_model);
[[nodiscard]] RunTime run_time(const StepProgram& program, CostModel& cost_model, const Strategy& strategy);

}  // namespace zplan
