#include "planner/simulation/allocator_trace.h"

#include <algorithm>
#include <span>

namespace zplan {

namespace {

using Request = AllocatorTrace::Request;

/// Returns the blocks that are held behind `requests`, in the order in which they were made.
std::vector<Request> held_behind(std::span<const Request> requests, std::size_t slots) {
  std::vector<std::size_t> made(slots);
  for (std::size_t i = 0; i < requests.size(); ++i) {
    const Request& each = requests[i];
    if (each.slot != AllocatorTrace::kEmptyCache)
      made[static_cast<std::size_t>(each.slot)] = each.size.value > 0 && !each.is_spike ? i + 1 : 0;
  }
  std::erase(made, std::size_t{});
  std::sort(made.begin(), made.end());
  std::vector<Request> held;
  for (const std::size_t each : made) held.push_back(requests[each - 1]);
  return held;
}

bool are_alike(const std::vector<Request>& some, const std::vector<Request>& others) {
  return std::equal(
      some.begin(), some.end(), others.begin(), others.end(),
      [](const Request& a, const Request& b) { return a.size == b.size && a.stream == b.stream; });
}

}  // namespace

bool AllocatorTrace::last_step_repeats() const {
  if (steps_.size() < 2) return false;
  if (repeated_ > 0) return true;
  const auto last = requests_.begin() + static_cast<std::ptrdiff_t>(steps_.back());
  return std::equal(requests_.begin() + static_cast<std::ptrdiff_t>(steps_.end()[-2]), last, last,
                    requests_.end());
}

std::optional<AllocatorTrace> AllocatorTrace::started_as(const AllocatorTrace& start) const {
  if (steps_.empty()) return std::nullopt;
  const std::size_t first = steps_.front();
  const std::vector<Request> here = held_behind(std::span(requests_).first(first), slots_);
  const std::vector<Request> there = held_behind(start.requests_, start.slots_);
  if (!are_alike(here, there)) return std::nullopt;
  // Slots of `start` lie behind those of this run, but for the blocks that both hold.
  std::vector<Slot> names(start.slots_);
  for (std::size_t i = 0; i < names.size(); ++i) names[i] = static_cast<Slot>(slots_ + i);
  for (std::size_t i = 0; i < here.size(); ++i) names[static_cast<std::size_t>(there[i].slot)] = here[i].slot;
  AllocatorTrace joined;
  joined.requests_.reserve(start.requests_.size() + requests_.size() - first);
  for (Request each : start.requests_) {
    if (each.slot != kEmptyCache) each.slot = names[static_cast<std::size_t>(each.slot)];
    joined.requests_.push_back(each);
  }
  joined.requests_.insert(joined.requests_.end(), requests_.begin() + static_cast<std::ptrdiff_t>(first),
                          requests_.end());
  for (const std::size_t each : steps_) joined.steps_.push_back(each - first + start.requests_.size());
  joined.repeated_ = repeated_;
  joined.slots_ = slots_ + start.slots_;
  return joined;
}

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
