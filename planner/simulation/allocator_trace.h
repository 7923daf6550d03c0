#pragma once
// What a run asks of the allocator, in order, so that other GPUs can be tried without playing the run again.
// Nothing in a run looks at the allocator, so it asks the same on every GPU until memory runs out.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "planner/simulation/caching_allocator.h"

namespace zplan {

/// Written by a Device whose GPU has no limit.
class AllocatorTrace {
 public:
  /// Names a block while it is held; small numbers, used again.
  using Slot = std::int32_t;
  static constexpr Slot kEmptyCache = -1;
  struct Request {
    Bytes size;  ///< 0: the block is released
    Slot slot{};
    std::int32_t stream{};
  };

  /// `size` > 0 bytes.
  void allocate(Slot slot, Bytes size, int stream) {
    requests_.push_back({size, slot, static_cast<std::int32_t>(stream)});
    slots_ = std::max(slots_, static_cast<std::size_t>(slot) + 1);
  }
  void release(Slot slot) { requests_.push_back({.size = {}, .slot = slot}); }
  void empty_cache() { requests_.push_back({.size = {}, .slot = kEmptyCache}); }
  [[nodiscard]] const std::vector<Request>& requests() const { return requests_; }
  /// One more than the highest.
  [[nodiscard]] std::size_t slots() const { return slots_; }

 private:
  std::vector<Request> requests_;
  std::size_t slots_{};
};

}  // namespace zplan
