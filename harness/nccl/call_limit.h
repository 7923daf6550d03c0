#pragma once
// Limits how long a call may take that cannot be told when to give up.

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>
#include <thread>

#include "models/base/quantity.h"

namespace zplan::bench {

/// Runs `bite` on its own thread, once, where a watched piece of code takes longer than `limit`. To watch
/// costs two stores to memory.
class CallLimit {
 public:
  CallLimit(Seconds limit, std::function<void()> bite);
  CallLimit(const CallLimit&) = delete;
  CallLimit& operator=(const CallLimit&) = delete;
  CallLimit(CallLimit&&) = delete;
  CallLimit& operator=(CallLimit&&) = delete;
  ~CallLimit();

  /// Watches while it lives. One at a time.
  class Watch {
   public:
    explicit Watch(CallLimit& dog);
    Watch(const Watch&) = delete;
    Watch& operator=(const Watch&) = delete;
    Watch(Watch&&) = delete;
    Watch& operator=(Watch&&) = delete;
    ~Watch();

   private:
    CallLimit& dog_;
  };

  [[nodiscard]] bool has_bitten() const { return bitten_; }

 private:
  void run();
  [[nodiscard]] bool is_late() const;

  Seconds limit_;
  std::function<void()> bite_;
  std::atomic<std::int64_t> since_{0};  ///< ticks of the clock; 0: nothing is watched
  std::atomic<bool> bitten_{false};
  bool over_{false};
  std::mutex mutex_;
  std::condition_variable wake_;
  std::thread thread_;
};

}  // namespace zplan::bench
