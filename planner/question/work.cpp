#include "planner/question/work.h"

#include <utility>

namespace zplan {

namespace {

thread_local Work* here = nullptr;

}  // namespace

Work::Work(const std::atomic<bool>* stop, std::int64_t budget)
    : stop_(stop), budget_(budget), outer_(std::exchange(here, this)) {}
Work::~Work() { here = outer_; }
Work* Work::current() { return here; }

bool Work::stopped() const {
  for (const Work* each = this; each != nullptr; each = each->outer_)
    if (each->stop_ != nullptr && each->stop_->load(std::memory_order_relaxed)) return true;
  return false;
}

void Work::take_step() {
  if (stopped()) throw Stopped();
  for (Work* each = this; each != nullptr; each = each->outer_)
    if (each->steps_.fetch_add(1, std::memory_order_relaxed) >= each->budget_) throw OverBudget();
}

WorkOf::WorkOf(Work* work) : before_(std::exchange(here, work)) {}
WorkOf::~WorkOf() { here = before_; }

void take_step() {
  if (here != nullptr) here->take_step();
}

void stop_if_asked() {
  if (here != nullptr && here->stopped()) throw Stopped();
}

}  // namespace zplan
