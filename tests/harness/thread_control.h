#pragma once
// Control of ranks that are threads of one process.

#include <chrono>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "harness/control.h"

namespace zplan::bench {

/// A barrier of threads that exchanges their texts.
class MeetingPlace {
 public:
  explicit MeetingPlace(int size) : texts_(static_cast<std::size_t>(size)) {}

  [[nodiscard]] std::vector<std::string> exchange(int rank, const std::string& mine) {
    std::unique_lock lock(mutex_);
    const int round = round_;
    texts_[static_cast<std::size_t>(rank)] = mine;
    if (++here_ == static_cast<int>(texts_.size())) {
      here_ = 0, ++round_, last_ = texts_;
      all_here_.notify_all();
    }
    if (!all_here_.wait_for(lock, std::chrono::seconds(60), [&] { return round_ != round; }))
      throw BenchError("a thread did not come");
    return last_;  // the next round cannot end before this one's threads are all back
  }

 private:
  std::mutex mutex_;
  std::condition_variable all_here_;
  std::vector<std::string> texts_, last_;
  int here_{}, round_{};
};

class ThreadControl final : public Control {
 public:
  ThreadControl(int rank, int size, std::shared_ptr<MeetingPlace> meeting)
      : rank_(rank), size_(size), meeting_(std::move(meeting)) {}
  [[nodiscard]] int rank() const override { return rank_; }
  [[nodiscard]] int size() const override { return size_; }
  [[nodiscard]] std::vector<std::string> all_gather(const std::string& mine) override {
    return meeting_->exchange(rank_, mine);
  }
  [[nodiscard]] std::string broadcast(const std::string& text) override {
    return meeting_->exchange(rank_, text).front();
  }
  void barrier() override { (void)meeting_->exchange(rank_, ""); }

 private:
  int rank_, size_;
  std::shared_ptr<MeetingPlace> meeting_;
};

}  // namespace zplan::bench
