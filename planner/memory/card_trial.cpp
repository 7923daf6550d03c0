#include "planner/memory/card_trial.h"

#include <algorithm>
#include <utility>

#include "planner/work.h"

namespace zplan {

bool CardTrial::completes_within(Bytes capacity) {
  if (capacity < fails_below_) return false;
  if (capacity >= runs_from_ && capacity < runs_up_to_) return true;
  return play_within(capacity);
}

bool CardTrial::play_within(Bytes capacity) {
  take_step();
  State unlimited = common_;
  // Expandable segments reserve address space by the card's size, so theirs differ from the first one on.
  if (!options_.expandable_segments) static_cast<void>(play(unlimited, first_beyond(capacity)));
  if (unlimited.next == trace_.requests_.size()) return true;
  State limited = unlimited;
  limited.allocator.limit(capacity);
  const bool completed = play(limited, trace_.requests_.size());
  learn(limited.allocator, capacity, completed);
  if (!completed) common_ = std::move(unlimited);
  return completed;
}

/// An allocator looks at the capacity only where it takes more of the card. It ends alike with every capacity
/// that grants what was granted and refuses what was refused.
void CardTrial::learn(const CachingAllocator& allocator, Bytes capacity, bool completed) {
  if (options_.expandable_segments) return;
  if (completed)
    runs_from_ = allocator.peak().reserved, runs_up_to_ = capacity;
  else
    fails_below_ = allocator.least_refused();
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
