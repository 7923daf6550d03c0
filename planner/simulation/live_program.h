#pragma once
// Live memory of one optimizer step as a program: what the framework makes and frees by itself, and between
// it the memory deltas of the tape, whose sizes alone depend on the micro-batch. A run writes it down once;
// its highest point is then found for any micro-batch without playing the run again.

#include <algorithm>
#include <cstdint>
#include <vector>

#include "planner/model_trace/condensed.h"
#include "planner/step/lanes.h"

namespace zplan {

/// A stretch of a step: first the framework makes and frees blocks, then model inputs come or go, then comes
/// a memory delta of the tape.
struct LiveEvent {
  Bytes highest, net;
  std::int32_t inputs{};   ///< so many are allocated, or freed (below 0)
  std::int32_t delta{-1};  ///< number in the tape
  bool operator==(const LiveEvent&) const = default;
};

struct LiveProgram {
  Bytes begin;  ///< live when the step begins
  std::vector<LiveEvent> events;
  bool operator==(const LiveProgram&) const = default;
};

/// Sizes that depend on the micro-batch, in bytes. T: double, or Lanes for eight micro-batch sizes at once.
template <class T>
struct LiveSizes {
  struct MemoryDelta {
    T highest{}, net{};
  };
  std::vector<MemoryDelta> deltas;  ///< by their number
  T inputs{};
};

/// Returns the bytes live at the worst moment of the step.
template <class T>
[[nodiscard]] T highest(const LiveProgram& program, const LiveSizes<T>& sizes) {
  T live = static_cast<double>(program.begin.value), most = live;
  for (const LiveEvent& each : program.events) {
    if (each.highest.value > 0) most = larger(most, live + T(static_cast<double>(each.highest.value)));
    live += static_cast<double>(each.net.value);
    if (each.inputs != 0) {
      live += sizes.inputs * static_cast<double>(each.inputs);
      most = larger(most, live);
    }
    if (each.delta < 0) continue;
    const auto& delta = sizes.deltas[static_cast<std::size_t>(each.delta)];
    most = larger(most, live + delta.highest);
    live += delta.net;
  }
  return most;
}

/// Writes the program of a step.
class LiveLog {
 public:
  void begin_step(Bytes live) { program_ = {.begin = live, .events = {}}, open_ = {}; }
  void allocate(Bytes size) {
    open_.net += size;
    open_.highest = std::max(open_.highest, open_.net);
  }
  void release(Bytes size) { open_.net -= size; }
  void inputs(std::int32_t change) { open_.inputs = change, close(); }
  void delta(std::int32_t number) { open_.delta = number, close(); }
  [[nodiscard]] LiveProgram take() {
    close();
    return std::move(program_);
  }

 private:
  void close() { program_.events.push_back(open_), open_ = {}; }

  LiveProgram program_;
  LiveEvent open_;
};

}  // namespace zplan
