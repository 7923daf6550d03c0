#include "planner/simulation/allocator_replay.h"

#include <algorithm>

namespace zplan {

AllocatorReplay::AllocatorReplay(const AllocatorTrace& trace, const AllocatorOptions& options)
    : allocator_(options), handles_(trace.slots(), CachingAllocator::kNoMemory) {}

AllocatorReplay::Layout AllocatorReplay::layout() const {
  Layout layout{.device_calls = allocator_.device_calls(), .places = {}};
  layout.places.reserve(handles_.size());
  for (const Handle each : handles_) layout.places.push_back(allocator_.place(each));
  return layout;
}

bool AllocatorReplay::begin_step(const AllocatorTrace& trace, std::size_t step) {
  const std::size_t steps = trace.steps().size();
  if (step + 2 == steps && trace.last_step_repeats()) repeats_ = std::make_shared<const Layout>(layout());
  if (step + 1 == steps && repeats_ && *repeats_ == layout()) return true;
  reserved_before_ = peak_reserved();
  allocator_.reset_peak();
  return false;
}

Bytes AllocatorReplay::peak_reserved() const {
  return std::max(reserved_before_, allocator_.peak().reserved);
}

}  // namespace zplan
