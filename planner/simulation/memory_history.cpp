#include "planner/simulation/memory_history.h"

#include <algorithm>
#include <map>
#include <stdexcept>
#include <tuple>
#include <utility>

namespace zplan {

namespace {

using Action = MemoryEvent::Action;
using Place = CachingAllocator::Place;

/// Returns the parts of `from` that no place of `without` covers; both are by address and do not overlap.
std::vector<Place> difference(const std::vector<Place>& from, const std::vector<Place>& without) {
  std::vector<Place> left;
  auto next = without.begin();
  for (Place each : from) {
    while (next != without.end() && next->address + next->size <= each.address) ++next;
    for (auto over = next; over != without.end() && over->address < each.address + each.size; ++over) {
      if (over->address > each.address) left.push_back({each.address, over->address - each.address});
      const std::int64_t end = each.address + each.size;
      each.address = std::min(end, std::max(each.address, over->address + over->size));
      each.size = end - each.address;
    }
    if (each.size > 0) left.push_back(each);
  }
  return left;
}

/// Plays the requests of a run once more and writes down what the allocator does.
class Historian {
 public:
  Historian(const AllocatorTrace& asked, const std::vector<BlockRequest>& requests,
            const AllocatorOptions& options)
      : asked_(asked), requests_(requests), allocator_(options), slots_(asked.slots()) {
    history_.expandable = options.expandable_segments;
  }

  MemoryHistory write() {
    for (std::size_t i = 0; i < asked_.size(); ++i) {
      if (step_ < asked_.steps().size() && i == asked_.steps()[step_]) begin_step();
      take(asked_[i]);
    }
    note_segments();
    return std::move(history_);
  }

 private:
  struct Slot {
    CachingAllocator::Handle handle{CachingAllocator::kNoMemory};
    MemoryEvent event;  ///< that made it
  };

  void begin_step() {
    history_.steps.push_back(history_.events.size());
    ++step_;
  }

  void take(const AllocatorTrace::Request& request) {
    if (request.slot == AllocatorTrace::kEmptyCache) {
      allocator_.empty_cache();
      return note_device(0, -1);
    }
    Slot& slot = slots_[static_cast<std::size_t>(request.slot)];
    if (request.size.value == 0) return release(slot);
    allocate(slot, request);
    if (request.is_spike) release(slot);
  }

  void allocate(Slot& slot, const AllocatorTrace::Request& request) {
    if (next_request_ == requests_.size()) throw std::logic_error("a history without its requests");
    const std::int32_t cause = cause_of(requests_[next_request_++]);
    const auto handle = allocator_.allocate(request.size, request.stream);
    if (!handle) throw std::logic_error("a history on a GPU that is too small");
    note_device(request.stream, cause);
    slot.handle = *handle;
    slot.event = {.action = Action::alloc,
                  .stream = request.stream,
                  .cause = cause,
                  .address = allocator_.place(*handle).address,
                  .size = request.size};
    history_.events.push_back(slot.event);
  }

  void release(Slot& slot) {
    allocator_.release(std::exchange(slot.handle, CachingAllocator::kNoMemory));
    history_.events.push_back(slot.event);
    history_.events.back().action = Action::free;
  }

  [[nodiscard]] std::int32_t cause_of(const BlockRequest& request) {
    const BlockCause cause{request.term,  request.phase,  request.at,
                           request.layer, request.module, static_cast<int>(step_)};
    const auto key = std::tuple(cause.term, cause.phase, cause.at, cause.layer, cause.module.layer,
                                cause.module.number, cause.step);
    const auto [at, is_new] = known_.try_emplace(key, static_cast<std::int32_t>(history_.causes.size()));
    if (is_new) history_.causes.push_back(cause);
    return at->second;
  }

  /// Writes down what was taken from the device, or given back, since the last time.
  void note_device(std::int16_t stream, std::int32_t cause) {
    if (allocator_.device_calls() == device_calls_) return;
    device_calls_ = allocator_.device_calls();
    std::vector<Place> now = allocator_.segment_places();
    const bool maps = history_.expandable;
    for (const Place& each : difference(segments_, now))
      add_segment(maps ? Action::segment_unmap : Action::segment_free, each, stream, -1);
    for (const Place& each : difference(now, segments_))
      add_segment(maps ? Action::segment_map : Action::segment_alloc, each, stream, cause);
    segments_ = std::move(now);
  }
  void add_segment(Action action, const Place& place, std::int16_t stream, std::int32_t cause) {
    history_.events.push_back({.action = action,
                               .stream = stream,
                               .cause = cause,
                               .address = place.address,
                               .size = Bytes(place.size)});
  }

  void note_segments() {
    std::map<std::int64_t, const MemoryEvent*> live;
    for (const Slot& each : slots_)
      if (each.handle != CachingAllocator::kNoMemory) live[each.event.address] = &each.event;
    const std::vector<Place> places = allocator_.segment_places();
    const std::vector<AllocatorSegment> segments = allocator_.segments();
    for (std::size_t i = 0; i < segments.size(); ++i) {
      HeldSegment held{places[i].address, Bytes(places[i].size), segments[i].stream, segments[i].small, {}};
      std::int64_t address = held.address;
      for (const AllocatorSegment::Block& each : segments[i].blocks) {
        HeldSegment::Block block{.address = address, .size = each.size, .requested = {}};
        if (const auto at = live.find(address); each.in_use && at != live.end())
          block.requested = at->second->size, block.cause = at->second->cause;
        held.blocks.push_back(block);
        address += each.size.value;
      }
      history_.segments.push_back(std::move(held));
    }
  }

  const AllocatorTrace& asked_;
  const std::vector<BlockRequest>& requests_;
  CachingAllocator allocator_;
  std::vector<Slot> slots_;
  std::vector<Place> segments_;
  std::int64_t device_calls_{};
  std::size_t next_request_{}, step_{};
  std::map<std::tuple<Term, Phase, std::string_view, int, int, std::int32_t, int>, std::int32_t> known_;
  MemoryHistory history_;
};

}  // namespace

Bytes MemoryHistory::highest_requested(std::size_t first) const {
  Bytes now{}, highest{};
  for (std::size_t i = 0; i < events.size(); ++i) {
    if (events[i].action == Action::alloc) now += events[i].size;
    if (events[i].action == Action::free) now -= events[i].size;
    if (i >= first) highest = std::max(highest, now);
  }
  return highest;
}

Bytes MemoryHistory::highest_reserved() const {
  Bytes now{}, highest{};
  for (const MemoryEvent& each : events) {
    if (each.action == Action::segment_alloc || each.action == Action::segment_map) now += each.size;
    if (each.action == Action::segment_free || each.action == Action::segment_unmap) now -= each.size;
    highest = std::max(highest, now);
  }
  return highest;
}

MemoryHistory memory_history(const AllocatorTrace& asked, const std::vector<BlockRequest>& requests,
                             const AllocatorOptions& options) {
  return Historian(asked, requests, options).write();
}

}  // namespace zplan
