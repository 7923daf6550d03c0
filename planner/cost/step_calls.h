#pragma once
// The calls of one optimizer step in order of issue, each with what it takes: what can be issued again on
// real machines and compared with them.

#include <cstdint>
#include <vector>

#include "planner/step/call.h"

namespace zplan {

class CostModel;
struct StepProgram;

/// A call as it is issued; `call.times` equal ones follow each other.
struct IssuedCall {
  Call call;
  Seconds time;  ///< predicted, of one of them by itself
  /// Seconds of the compute stream between the call before (of each of `times`) and this one: kernels, and
  /// waits for the host to launch them, but no waits for collectives.
  Seconds compute;
  bool exposed{};  ///< what is behind it on the compute stream waits for its result at once
  bool operator==(const IssuedCall&) const = default;
};

/// One rank's calls over a whole optimizer step, all micro-steps. Every rank issues the same ones: what
/// differs between ranks is the root of a reduce, and which part of a result is kept.
struct StepCalls {
  std::vector<IssuedCall> calls;
  Seconds compute_behind;                       ///< of the compute stream, behind the last call
  bool complete{true};                          ///< false: more than kMostIssued entries, which are left out
  [[nodiscard]] Seconds communication() const;  ///< of all calls, hidden or not
};

/// Beyond this a list is of no use to anybody: thousands of micro-steps, written out.
inline constexpr std::size_t kMostIssued = 200'000;

/// Returns the calls of a step's program, written out: a micro-step that stands for others comes as often as
/// they do.
[[nodiscard]] StepCalls step_calls(const StepProgram& program, CostModel& cost_model,
                                   std::int64_t micro_steps);

}  // namespace zplan
