#include "planner/memory/allocator_trace.h"

#include <utility>

namespace zplan {

bool CardTrial::completes_within(Bytes capacity) {
  State unlimited = common_;
  // Expandable segments reserve address space by the card's size, so theirs differ from the first one on.
  if (!options_.expandable_segments) static_cast<void>(play(unlimited, first_beyond(capacity)));
  if (unlimited.next == trace_.requests_.size()) return true;
  State limited = unlimited;
  limited.allocator.limit(capacity);
  if (play(limited, trace_.requests_.size())) return true;
  common_ = std::move(unlimited);
  return false;
}

/// The first request for which `capacity` is not enough unless something cached is given back.
std::size_t CardTrial::first_beyond(Bytes capacity) const {
  const auto found =
      std::partition_point(trace_.growths_.begin(), trace_.growths_.end(),
                           [&](const AllocatorTrace::Growth& each) { return each.reserved <= capacity; });
  return found == trace_.growths_.end() ? trace_.requests_.size() : found->request;
}

/// Up to the request `end`; false: memory ran out before.
bool CardTrial::play(State& state, std::size_t end) const {
  state.handles.resize(trace_.slots_);
  for (; state.next < end; ++state.next) {
    const AllocatorTrace::Request& request = trace_.requests_[state.next];
    if (request.slot == AllocatorTrace::kEmptyCache) {
      state.allocator.empty_cache();
      continue;
    }
    CachingAllocator::Handle& handle = state.handles[static_cast<std::size_t>(request.slot)];
    if (request.size.value == 0) {
      state.allocator.release(handle);
      continue;
    }
    const auto made = state.allocator.allocate(request.size, request.stream);
    if (!made) return false;
    handle = *made;
  }
  return true;
}

}  // namespace zplan
