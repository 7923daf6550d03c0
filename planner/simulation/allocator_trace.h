#pragma once
// The allocator's requests of a run, in order, and their replay: other GPUs are tried without simulating the
// run again. Nothing in a run looks at the allocator, so its requests are the same on every GPU until memory
// runs out.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "models/base/quantity.h"
#include "planner/simulation/caching_allocator.h"

namespace zplan {

/// Requests of initialisation, then of optimizer steps, which a Device whose GPU has no limit writes. A last
/// step with the requests of the one before is written once and read twice.
class AllocatorTrace {
 public:
  /// A block's name while it is held: a small number, which is used again.
  using Slot = std::int32_t;
  static constexpr Slot kEmptyCache = -1;
  struct Request {
    Bytes size;  ///< 0: the block is released
    Slot slot{};
    std::int16_t stream{};
    bool is_spike{};  ///< the next request releases the block: there is none for that
    bool operator==(const Request&) const = default;
  };

  /// Adds a request for `size` > 0 bytes.
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
  /// Adds one more step with the requests of the last one, of the same slots.
  void repeat_last_step() {
    steps_.push_back(requests_.size()), repeated_ = requests_.size() - steps_.end()[-2];
  }

  [[nodiscard]] std::size_t size() const { return requests_.size() + repeated_; }
  [[nodiscard]] const Request& operator[](std::size_t i) const {
    return requests_[i < requests_.size() ? i : i - repeated_];
  }
  /// Returns the number of the first request of each step.
  [[nodiscard]] const std::vector<std::size_t>& steps() const { return steps_; }
  /// True if the last step has the requests of the one before, of the same slots.
  [[nodiscard]] bool last_step_repeats() const;
  /// Returns one more than the highest slot.
  [[nodiscard]] std::size_t slots() const { return slots_; }

  /// Returns the run that starts as `start`, which has no steps, and then goes on as this one. Nothing where
  /// `start` leaves other blocks than this run's initialisation: both name them by the order in which they
  /// were made.
  [[nodiscard]] std::optional<AllocatorTrace> started_as(const AllocatorTrace& start) const;

 private:
  std::vector<Request> requests_;
  std::vector<std::size_t> steps_;
  std::size_t repeated_{};  ///< requests at the end that are read twice
  std::size_t slots_{};
};

/// An allocator that has served the requests before `next` of a trace. A copy goes on independently.
class AllocatorReplay {
 public:
  AllocatorReplay(const AllocatorTrace& trace, const AllocatorOptions& options);
  /// Begins behind the first `asked` requests of a trace, which left these handles, by slot.
  AllocatorReplay(const CachingAllocator& allocator, std::vector<CachingAllocator::Handle> handles,
                  std::size_t asked)
      : allocator_(allocator), handles_(std::move(handles)), next_(asked) {}

  /// Serves the rest of `trace`, the one that it was begun with; returns whether it came to the end. Where no
  /// cached block fits, `grow(replay, request)` returns a std::optional<Handle>; without one the replay
  /// stops.
  template <class Grow>
  bool play(const AllocatorTrace& trace, const Grow& grow) {
    handles_.resize(trace.slots(), CachingAllocator::kNoMemory);
    for (std::size_t step = 0; step <= trace.steps().size(); ++step) {
      const bool is_last = step == trace.steps().size();
      const std::size_t end = is_last ? trace.size() : trace.steps()[step];
      if (next_ > end) continue;
      if (!play_until(end, trace, grow)) return false;
      if (!is_last && begin_step(trace, step)) next_ = trace.size();
    }
    return true;
  }

  [[nodiscard]] CachingAllocator& allocator() { return allocator_; }
  [[nodiscard]] const CachingAllocator& allocator() const { return allocator_; }
  /// Returns the number of the next request.
  [[nodiscard]] std::size_t next() const { return next_; }
  /// Return the highest so far of memory taken from the device, and of memory handed out since the last step
  /// began.
  [[nodiscard]] Bytes peak_reserved() const;
  [[nodiscard]] Bytes peak_allocated() const { return allocator_.peak().allocated; }

 private:
  using Handle = CachingAllocator::Handle;
  struct Layout {
    std::int64_t device_calls{};
    std::vector<CachingAllocator::Place> places;  ///< by slot
    bool operator==(const Layout&) const = default;
  };
  [[nodiscard]] Layout layout() const;
  /// True if the remaining steps do what the one before did.
  [[nodiscard]] bool begin_step(const AllocatorTrace& trace, std::size_t step);

  template <class Grow>
  bool play_until(std::size_t end, const AllocatorTrace& trace, const Grow& grow) {
    for (; next_ < end; ++next_) {
      const AllocatorTrace::Request& request = trace[next_];
      if (request.slot == AllocatorTrace::kEmptyCache) {
        allocator_.empty_cache();
        continue;
      }
      Handle& handle = handles_[static_cast<std::size_t>(request.slot)];
      if (request.size.value == 0) {
        allocator_.release(std::exchange(handle, CachingAllocator::kNoMemory));
        continue;
      }
      if (request.is_spike && allocator_.spike_cached(request.size, request.stream)) continue;
      const auto cached = allocator_.allocate_cached(request.size, request.stream);
      const auto made = cached ? cached : grow(*this, request);
      if (!made) return false;
      if (request.is_spike)
        allocator_.release(*made);
      else
        handle = *made;
    }
    return true;
  }

  CachingAllocator allocator_;
  std::vector<Handle> handles_;  ///< by slot
  std::size_t next_{};
  Bytes reserved_before_;                  ///< the highest before the last step
  std::shared_ptr<const Layout> repeats_;  ///< as the step began that the last one repeats
};

}  // namespace zplan
