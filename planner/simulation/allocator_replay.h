#pragma once
// The requests of a run, asked of an allocator again.

#include <cstddef>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "planner/simulation/allocator_trace.h"
#include "planner/simulation/caching_allocator.h"

namespace zplan {

/// An allocator that was asked the requests before `next` of a trace. A copy goes on independently.
class AllocatorReplay {
 public:
  AllocatorReplay(const AllocatorTrace& trace, const AllocatorOptions& options);
  /// Of the trace that is being written: `asked` requests so far, which left these handles, by slot.
  AllocatorReplay(const CachingAllocator& allocator, std::vector<CachingAllocator::Handle> handles,
                  std::size_t asked)
      : allocator_(allocator), handles_(std::move(handles)), next_(asked) {}

  /// Goes on to the end of `trace`, the one that it was begun with. `grow(replay, request)` is asked where no
  /// cached block will do: std::optional<Handle>, without one the replay stops. Whether it came to the end.
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
  /// The request that is asked next.
  [[nodiscard]] std::size_t next() const { return next_; }
  /// The highest so far of what was taken from the device, and of what was handed out since the last step
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
  /// Whether the steps that are left do what the one before did.
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
