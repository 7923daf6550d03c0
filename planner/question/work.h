#pragma once
// A question that is being worked on: what it has cost so far, how much it may cost, and whether anybody
// still waits for its answer. The engine takes a step of the work that its thread is at wherever it does
// something that takes time, so no search can forget to ask.

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <exception>
#include <limits>

namespace zplan {

/// Nobody waits for the answer any more: thrown out of a question, caught by who stopped it.
struct Stopped : std::exception {
  [[nodiscard]] const char* what() const noexcept override { return "stopped"; }
};
/// A question has taken all the steps that it may: thrown out of it, caught by who set the budget.
struct OverBudget : std::exception {
  [[nodiscard]] const char* what() const noexcept override { return "more steps than the budget has"; }
};

/// This thread's work from where it is made until it is gone, when what it interrupted goes on. Part of that:
/// what stops the outer one stops the inner one, and its steps count for both. Of no work at all nothing is
/// counted and nothing stops.
class Work {
 public:
  static constexpr std::int64_t kNoBudget = std::numeric_limits<std::int64_t>::max();

  /// `stop`: where others, a signal handler too, set that nobody waits any more; it outlives the work.
  /// `budget`: the most steps.
  explicit Work(const std::atomic<bool>* stop = nullptr, std::int64_t budget = kNoBudget);
  ~Work();
  Work(const Work&) = delete;
  Work& operator=(const Work&) = delete;

  /// Steps on all threads so far: runs played, GPUs and speeds tried, values of a search looked at.
  [[nodiscard]] std::int64_t steps() const { return steps_.load(std::memory_order_relaxed); }
  [[nodiscard]] bool stopped() const;
  /// Throws Stopped or OverBudget.
  void take_step();

  /// Returns this thread's work; null where nobody watches it.
  [[nodiscard]] static Work* current();

 private:
  const std::atomic<bool>* stop_;
  std::int64_t budget_;
  Work* outer_;
  std::atomic<std::int64_t> steps_{0};
};

/// Makes another thread's work this one's for as long as it lives.
class WorkOf {
 public:
  explicit WorkOf(Work* work);
  ~WorkOf();
  WorkOf(const WorkOf&) = delete;
  WorkOf& operator=(const WorkOf&) = delete;

 private:
  Work* before_;
};

/// One step of what this thread works on: throws Stopped where nobody waits for it any more, OverBudget where
/// it has had all its steps.
void take_step();
/// Between two steps, in what takes long: throws Stopped.
void stop_if_asked();

/// Returns the first of 0 … count − 1 for which `holds`, which must then hold for all greater ones; `count`
/// where it holds for none. Strides that double find a stretch with the answer, halves narrow it: `holds` is
/// called at most 2·log2(count) + 2 times, however it behaves.
template <class Holds>
[[nodiscard]] std::int64_t first_that(std::int64_t count, const Holds& holds) {
  const auto asked = [&holds](std::int64_t index) {
    take_step();
    return holds(index);
  };
  std::int64_t before = -1, found = 0;
  while (found < count && !asked(found)) before = found, found = found * 2 + 1;
  found = std::min(found, std::max<std::int64_t>(count, 0));
  while (found - before > 1) {
    const std::int64_t middle = before + (found - before) / 2;
    (asked(middle) ? found : before) = middle;
  }
  return found;
}

}  // namespace zplan
