#pragma once
// One rank's collectives in the order in which a run issues them.

#include <array>
#include <cstdint>
#include <string_view>
#include <utility>
#include <vector>

#include "hardware_profiles/operation.h"
#include "models/base/names.h"
#include "models/base/quantity.h"
#include "planner/layout/parallel_layout.h"
#include "planner/question/terms.h"

namespace zplan {

/// Calls that are alike and follow each other.
struct Call {
  Operation operation{Operation::all_reduce};
  Group group{Group::data};
  std::int64_t group_size{1};
  std::int64_t stride{1};  ///< of its ranks among those of `group`: 1, or more where it is part of that
  Phase phase{Phase::backward};
  std::string_view dtype{};    ///< as torch names it
  Bytes element{};             ///< of one element
  std::string_view purpose{};  ///< what it moves: "gradients", "layer weights", "logits", …
  Elements elements{};  ///< of one call: output of an all_gather, input of a reduce_scatter, else the buffer
  std::int64_t times{1};

  /// Compares what mostly differs first: runs compare thousands of calls.
  friend bool operator==(const Call& a, const Call& b) {
    return a.elements == b.elements && a.operation == b.operation && a.phase == b.phase &&
           a.group == b.group && a.group_size == b.group_size && a.stride == b.stride &&
           a.element == b.element && a.times == b.times && a.purpose == b.purpose && a.dtype == b.dtype;
  }
};

/// Calls are named by the pass that issues them: the head and the loss belong to it.
[[nodiscard]] constexpr Phase pass_of(Phase phase) {
  if (phase == Phase::loss) return Phase::forward;
  return phase == Phase::loss_backward ? Phase::backward : phase;
}

/// Notes the calls of a step. Those of a group of one are none.
class CallLog {
 public:
  void begin_step() { calls_.clear(), repeats_ = 1; }
  /// Counts every call from here on `times` times: micro-steps that are alike are simulated once.
  void repeat(std::int64_t times) { repeats_ = times; }
  void add(Call call) {
    if (call.group_size <= 1) return;
    call.times *= repeats_;
    if (!calls_.empty()) {
      const std::int64_t times = std::exchange(calls_.back().times, call.times);
      const bool alike = calls_.back() == call;
      calls_.back().times = times + (alike ? call.times : 0);
      if (alike) return;
    }
    calls_.push_back(call);
  }
  [[nodiscard]] const std::vector<Call>& calls() const { return calls_; }

 private:
  std::vector<Call> calls_;
  std::int64_t repeats_{1};
};

}  // namespace zplan
