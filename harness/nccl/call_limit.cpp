#include "harness/nccl/call_limit.h"

#include <algorithm>
#include <utility>

#include "harness/nccl/wait.h"

namespace zplan::bench {

namespace {
std::int64_t now() { return Clock::now().time_since_epoch().count(); }
}  // namespace

CallLimit::CallLimit(Seconds limit, std::function<void()> bite)
    : limit_(limit), bite_(std::move(bite)), thread_([this] { run(); }) {}

CallLimit::~CallLimit() {
  {
    const std::scoped_lock lock(mutex_);
    over_ = true;
  }
  wake_.notify_all();
  thread_.join();
}

CallLimit::Watch::Watch(CallLimit& dog) : dog_(dog) { dog_.since_ = now(); }

CallLimit::Watch::~Watch() { dog_.since_ = 0; }

bool CallLimit::is_late() const {
  const std::int64_t since = since_;
  return since != 0 && now() - since > to_duration(limit_).count();
}

void CallLimit::run() {
  const Seconds interval(std::min(limit_.value / 8, 0.5));
  std::unique_lock lock(mutex_);
  while (!wake_.wait_for(lock, to_duration(interval), [this] { return over_; })) {
    if (!is_late()) continue;
    bitten_ = true;
    lock.unlock();
    bite_();
    return;
  }
}

}  // namespace zplan::bench
