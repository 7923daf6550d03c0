#pragma once
// What a run asks of the allocator, in order, so that other GPUs can be tried without playing the run again.
// Nothing in a run looks at the allocator, so it asks the same on every GPU until memory runs out.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "models/base/quantity.h"

namespace zplan {

/// Written by a Device whose GPU has no limit: initialisation, then optimizer steps. A last step that asks
/// what the one before asked is written down once and read twice.
class AllocatorTrace {
 public:
  /// Names a block while it is held; small numbers, used again.
  using Slot = std::int32_t;
  static constexpr Slot kEmptyCache = -1;
  struct Request {
    Bytes size;  ///< 0: the block is released
    Slot slot{};
    std::int16_t stream{};
    bool is_spike{};  ///< the next request releases the block: there is none for that
    bool operator==(const Request&) const = default;
  };

  /// `size` > 0 bytes.
  void allocate(Slot slot, Bytes size, int stream) {
    requests_.push_back({size, slot, static_cast<std::int16_t>(stream)});
    slots_ = slot < static_cast<Slot>(slots_) ? slots_ : static_cast<std::size_t>(slot) + 1;
  }
  void release(Slot slot) {
    const bool is_next = requests_.size() > (steps_.empty() ? 0 : steps_.back()) &&
                         requests_.back().slot == slot && requests_.back().size.value > 0;
    if (is_next && !requests_.back().is_spike)
      requests_.back().is_spike = true;
    else
      requests_.push_back({.size = {}, .slot = slot});
  }
  void empty_cache() { requests_.push_back({.size = {}, .slot = kEmptyCache}); }
  void begin_step() { steps_.push_back(requests_.size()); }
  /// One more step asks what the last one asked, of the same slots.
  void repeat_last_step() {
    steps_.push_back(requests_.size()), repeated_ = requests_.size() - steps_.end()[-2];
  }

  [[nodiscard]] std::size_t size() const { return requests_.size() + repeated_; }
  [[nodiscard]] const Request& operator[](std::size_t i) const {
    return requests_[i < requests_.size() ? i : i - repeated_];
  }
  /// Where each step begins.
  [[nodiscard]] const std::vector<std::size_t>& steps() const { return steps_; }
  /// Whether the last step asks what the one before asked, of the same slots.
  [[nodiscard]] bool last_step_repeats() const;
  /// One more than the highest slot.
  [[nodiscard]] std::size_t slots() const { return slots_; }

  /// The run that starts as `start`, which has no steps, and then goes on as this one. Nothing where `start`
  /// leaves other blocks than this run's initialisation: both name them by the order in which they were made.
  [[nodiscard]] std::optional<AllocatorTrace> started_as(const AllocatorTrace& start) const;

 private:
  std::vector<Request> requests_;
  std::vector<std::size_t> steps_;
  std::size_t repeated_{};  ///< requests at the end that are read twice
  std::size_t slots_{};
};

}  // namespace zplan
