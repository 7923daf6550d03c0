#include "planner/simulation/gpu_trials.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "planner/question/work.h"

namespace zplan {

/// A GPU without limit grants more than any that is tried. Expandable segments differ from the first one on.
CapacityTrials::CapacityTrials(const AllocatorTrace& trace, const AllocatorOptions& options,
                               const std::optional<AllocatorReplay>& begun)
    : trace_(trace), options_(options) {
  if (!begun || options.expandable_segments) return;
  Played unlimited{.limited = false, .growths = {}, .granted = {}, .completed = true};
  unlimited.add({.reserved = begun->peak_reserved(), .granted = true});
  unlimited.add({.reserved = Bytes(std::numeric_limits<std::int64_t>::max()),
                 .granted = true,
                 .before = std::make_shared<const AllocatorReplay>(*begun)});
  played_.push_back(std::move(unlimited));
}

std::size_t CapacityTrials::Played::parting(Bytes capacity) const {
  const auto other = std::find_if(growths.begin(), growths.end(), [&](const Growth& each) {
    return each.granted != (each.reserved <= capacity);
  });
  return static_cast<std::size_t>(other - growths.begin());
}

void CapacityTrials::Played::add(const Growth& growth) {
  growths.push_back(growth);
  if (growth.granted) granted = std::max(granted, growth.reserved);
  if (growth.before) ++states;
}

bool CapacityTrials::completes_within(Bytes capacity) {
  // Expandable segments reserve address space by the GPU's size, so theirs differ from the first one on.
  if (!options_.expandable_segments)
    for (const Played& each : played_)
      if (each.parting(capacity) == each.growths.size()) return each.completed;
  take_step();
  Played played = play_within(capacity);
  const bool completed = played.completed;
  if (!completed) fails_ = std::max(fails_, capacity);
  if (options_.expandable_segments) return completed;
  std::erase_if(played_, [&](const Played& each) { return each.limited && each.completed == completed; });
  played_.push_back(std::move(played));
  return completed;
}

/// Returns what a trial with `capacity` has in common with the furthest of those so far; `replay` becomes the
/// state from which it goes on.
CapacityTrials::Played CapacityTrials::begun_alike(Bytes capacity, AllocatorReplay& replay) const {
  const AllocatorReplay* furthest = nullptr;
  Played begun;
  for (const Played& each : played_) {
    std::size_t parting = each.parting(capacity);
    while (parting > 0 && !each.growths[parting].before) --parting;
    const AllocatorReplay* before = each.growths[parting].before.get();
    if (before == nullptr || (furthest != nullptr && before->next() <= furthest->next())) continue;
    furthest = before;
    // A refused request is made twice: the trial begins with the first.
    if (parting > 0 && each.growths[parting - 1].before.get() == before) --parting;
    begun = {};
    for (std::size_t i = 0; i < parting; ++i) begun.add(each.growths[i]);
  }
  if (furthest != nullptr) replay = *furthest;
  return begun;
}

CapacityTrials::Played CapacityTrials::play_within(Bytes capacity) const {
  AllocatorOptions options = options_;
  options.capacity = capacity;
  AllocatorReplay replay(trace_, options);
  Played played = begun_alike(capacity, replay);
  replay.allocator().limit(capacity);
  played.completed = replay.play(trace_, [&](AllocatorReplay& at, const AllocatorTrace::Request& request) {
    return grow(at, request, capacity, played);
  });
  return played;
}

/// Serves a request that no cached block fits. Where the GPU refuses, the allocator gives back all that is
/// cached and asks again, for less: another GPU may refuse that too.
std::optional<CachingAllocator::Handle> CapacityTrials::grow(AllocatorReplay& replay,
                                                             const AllocatorTrace::Request& request,
                                                             Bytes capacity, Played& played) const {
  const Bytes segment = asked_of_device(request.size),
              reserved = replay.allocator().current().reserved + segment;
  if (reserved <= played.granted) return replay.allocator().allocate(request.size, request.stream);
  // One that is granted is decided otherwise by a smaller GPU, and those that are smaller than one that
  // failed are hardly asked about.
  constexpr std::size_t kMostStates = 16;
  const bool granted = reserved <= capacity, open = !granted || (fails_ > Bytes{} && reserved > fails_);
  const auto before =
      open && played.states < kMostStates ? std::make_shared<const AllocatorReplay>(replay) : nullptr;
  played.add({reserved, granted, before});
  const auto made = replay.allocator().allocate(request.size, request.stream);
  if (granted) return made;
  const Bytes then = replay.allocator().current().reserved + (made ? Bytes{} : segment);
  if (!made || then > played.granted) played.add({then, made.has_value(), before});
  return made;
}

GpuTrials::GpuTrials(const RunInputs& inputs, const RunResult& unlimited)
    : inputs_(inputs),
      unlimited_(unlimited),
      trial_(unlimited.asked, allocator_options(inputs.step.training), unlimited.before_more) {}

bool GpuTrials::flattens_on_host(Bytes size) const {
  return unlimited_.flattening && size < unlimited_.flattening->gpu;
}

/// Such a run differs only in how it starts: its steps make the same requests.
GpuTrials::OnHost GpuTrials::play_on_host() const {
  if (auto asked = unlimited_.asked.started_as(unlimited_.least_start)) {
    AllocatorReplay replay(*asked, allocator_options(inputs_.step.training));
    replay.play(*asked, [](AllocatorReplay& at, const AllocatorTrace::Request& request) {
      return at.allocator().allocate(request.size, request.stream);
    });
    return {std::move(*asked), replay.peak_allocated(), replay.peak_reserved()};
  }
  RunResult played = simulate_flattening_on_host(inputs_);
  return {std::move(played.asked), played.peak_allocated, played.peak_reserved};
}

const GpuTrials::OnHost& GpuTrials::on_host() {
  if (!on_host_) {
    on_host_ = play_on_host();
    trial_on_host_.emplace(on_host_->asked, allocator_options(inputs_.step.training));
  }
  return *on_host_;
}

/// True if the run completes where the allocator has `pool` and weights are flattened on the host, or not.
bool GpuTrials::tried(bool on_host, Bytes pool) {
  if (on_host) static_cast<void>(this->on_host());
  if (pool < (on_host ? on_host_->peak_allocated : unlimited_.peak_allocated)) return false;
  return pool >= (on_host ? on_host_->peak_reserved : unlimited_.peak_reserved) ||
         (on_host ? *trial_on_host_ : trial_).completes_within(pool);
}

bool GpuTrials::completes_on(Bytes size) {
  return size > inputs_.outside && tried(flattens_on_host(size), size - inputs_.outside);
}

bool GpuTrials::completes_within(Bytes size) {
  if (unlimited_.flattening) {
    const GpuRange fails = unlimited_.flattening->failing(inputs_.outside);
    if (fails.contains(size)) size = fails.from - Bytes(1);
  }
  return completes_on(size);
}

/// Narrows the bounds to 0.5 %, or until `enough(bracket)`.
template <class Enough>
GpuTrials::Bracket GpuTrials::narrow(Bytes beyond, const Enough& enough) {
  constexpr std::int64_t kSegment = std::int64_t{2}
                                    << 20;  // the allocator takes multiples of it from the GPU
  const auto round_up = [](std::int64_t bytes) { return (bytes + kSegment - 1) / kSegment * kSegment; };
  const Bytes outside = inputs_.outside;
  std::int64_t live = std::max(unlimited_.peak_allocated, unlimited_.least_initialisation.allocated).value;
  Bracket at{.runs = unlimited_.peak_reserved.value};
  bool starts_on_host = false;
  if (unlimited_.flattening) {
    // If the run completes on the largest GPU that flattens on the host, the smallest GPU is one that does,
    // too.
    const Bytes largest = unlimited_.flattening->gpu - outside - Bytes(1);
    starts_on_host = live <= largest.value && beyond - outside < largest && tried(true, largest);
    if (starts_on_host)
      at.runs = std::min(largest.value, on_host().peak_reserved.value);
    else
      live = std::max(live, unlimited_.flattening->reserved.value);
  }
  at.fails = std::max(round_up(live) - kSegment, (beyond - outside).value / kSegment * kSegment);
  const auto try_size = [&](std::int64_t size) {
    (tried(starts_on_host, Bytes(size)) ? at.runs : at.fails) = size;
  };
  // Most runs need little more than what is live, so strides from there, each twice the one before, find the
  // bounds.
  for (std::int64_t stride = std::max(kSegment, live / 200); at.fails + stride < at.runs && !enough(at);
       stride *= 2) {
    const std::int64_t size = round_up(at.fails + stride);
    if (size >= at.runs) break;
    try_size(size);
  }
  // Sizes are whole segments, and `fails` is: of more than one segment each half is smaller than the whole.
  while (at.runs - at.fails > std::max(kSegment, at.runs / 200) && !enough(at))
    try_size(round_up((at.runs + at.fails) / 2));
  return at;
}

Bytes GpuTrials::smallest(Bytes beyond) {
  const Bracket found = narrow(beyond, [](const Bracket&) { return false; });
  return std::max(Bytes(found.runs) + inputs_.outside, beyond + Bytes(1));
}

bool GpuTrials::smallest_is_within(Bytes size) {
  const std::int64_t pool = (size - inputs_.outside).value;
  return narrow({}, [&](const Bracket& at) { return at.runs <= pool || at.fails >= pool; }).runs <= pool;
}

}  // namespace zplan
