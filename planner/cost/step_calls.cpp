#include "planner/cost/step_calls.h"

#include <algorithm>
#include <cmath>

#include "planner/cost/queues.h"
#include "planner/step/clock.h"

namespace zplan {

namespace {

/// Times that differ by less are the same, worked out in another order.
constexpr double kSame = 1e-9;

bool alike(const IssuedCall& a, const IssuedCall& b) {
  Call once = a.call;
  once.times = b.call.times;
  return once == b.call && a.exposed == b.exposed && std::abs(a.compute.value - b.compute.value) < kSame;
}

class Issue {
 public:
  Issue(const StepProgram& program, CostModel& cost_model, std::int64_t repeats)
      : program_(program),
        takes_(durations(program, cost_model)),
        done_(own_work(program, takes_)),
        repeats_(repeats) {
    call_of_.push_back(kNone);  // the begin of the step
  }

  [[nodiscard]] StepCalls calls() {
    for (std::size_t i = 0; i < program_.events.size() && result_.complete; ++i) take(program_.events[i], i);
    result_.compute_behind = std::max(Seconds{}, until(program_.events.size()));
    fold();
    return std::move(result_);
  }

 private:
  static constexpr std::ptrdiff_t kNone = -1;

  void take(const ClockEvent& event, std::size_t at) {
    using Kind = ClockEvent::Kind;
    switch (event.kind) {
      case Kind::compute:
      case Kind::move:
      case Kind::optimize: ++worked_; return;
      case Kind::note:
      case Kind::receive: call_of_.push_back(kNone); return;
      case Kind::send:
      case Kind::issue: call_of_.push_back(std::ssize(result_.calls)); return add(event, at, false);
      case Kind::exchange: return add(event, at, true);
      case Kind::carry:
        call_of_[static_cast<std::size_t>(event.instant)] = call_of_[static_cast<std::size_t>(event.index)];
        return;
      case Kind::wait: return wait(static_cast<std::size_t>(event.instant));
      case Kind::begin_repeated: first_ = result_.calls.size(), began_ = until(at); return;
      case Kind::end_repeated: return repeat(at);
      case Kind::host:
      case Kind::read_back:
      case Kind::end_micro_steps: return;
    }
  }
  /// The compute stream's own work since the call before.
  [[nodiscard]] Seconds until(std::size_t event) const { return Seconds(done_[event] - since_) + carried_; }

  void add(const ClockEvent& event, std::size_t at, bool exposed) {
    const auto index = static_cast<std::size_t>(event.index);
    result_.calls.push_back({.call = program_.calls[index].call,
                             .time = Seconds(takes_.calls[index]),
                             .compute = std::max(Seconds{}, until(at)),  // a difference of sums
                             .exposed = exposed});
    result_.calls.back().call.times = 1;
    worked_at_.push_back(worked_);
    since_ = done_[at], carried_ = {};
    check_size();
  }
  void wait(std::size_t instant) {
    const std::ptrdiff_t call = call_of_[instant];
    if (call == kNone || worked_at_[static_cast<std::size_t>(call)] != worked_) return;
    result_.calls[static_cast<std::size_t>(call)].exposed = true;
  }
  /// The micro-step that was just played, as often as it stands for others. Between the last call of one and
  /// the first of the next lies the end of the one and the begin of the other.
  void repeat(std::size_t at) {
    const std::vector<IssuedCall> once(result_.calls.begin() + static_cast<std::ptrdiff_t>(first_),
                                       result_.calls.end());
    if (once.empty()) {
      carried_ += (until(at) - began_) * static_cast<double>(repeats_ - 1);
      return;
    }
    for (std::int64_t i = 1; i < repeats_ && result_.complete; ++i) {
      result_.calls.insert(result_.calls.end(), once.begin(), once.end());
      result_.calls[result_.calls.size() - once.size()].compute = once.front().compute - began_ + until(at);
      worked_at_.resize(result_.calls.size(), worked_);
      check_size();
    }
  }
  void check_size() {
    if (result_.calls.size() <= kMostIssued) return;
    result_.complete = false;
    result_.calls.clear();
  }
  void fold() {
    std::vector<IssuedCall> folded;
    for (const IssuedCall& each : result_.calls) {
      if (!folded.empty() && alike(folded.back(), each))
        ++folded.back().call.times;
      else
        folded.push_back(each);
    }
    result_.calls = std::move(folded);
  }

  const StepProgram& program_;
  Durations<double> takes_;
  std::vector<double> done_;
  std::int64_t repeats_;
  StepCalls result_;
  std::vector<std::ptrdiff_t> call_of_;  ///< by instant
  std::vector<std::int64_t> worked_at_;  ///< by call: how much the compute stream had been given
  std::int64_t worked_{};
  double since_{};
  Seconds carried_;  ///< of repeated micro-steps without calls
  std::size_t first_{};
  Seconds began_;
};

}  // namespace

Seconds StepCalls::communication() const {
  Seconds sum;
  for (const IssuedCall& each : calls) sum += each.time * static_cast<double>(each.call.times);
  return sum;
}

StepCalls step_calls(const StepProgram& program, CostModel& cost_model, std::int64_t micro_steps) {
  return Issue(program, cost_model, repeats_of(micro_steps)).calls();
}

}  // namespace zplan
