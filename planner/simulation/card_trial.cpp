#include "planner/simulation/card_trial.h"

#include <algorithm>
#include <limits>

#include "planner/question/work.h"

namespace zplan {

/// A GPU without limit grants more than any that is tried. Expandable segments differ from the first one on.
CardTrial::CardTrial(const AllocatorTrace& trace, const AllocatorOptions& options,
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

std::size_t CardTrial::Played::parting(Bytes capacity) const {
  const auto other = std::find_if(growths.begin(), growths.end(), [&](const Growth& each) {
    return each.granted != (each.reserved <= capacity);
  });
  return static_cast<std::size_t>(other - growths.begin());
}

void CardTrial::Played::add(const Growth& growth) {
  growths.push_back(growth);
  if (growth.granted) granted = std::max(granted, growth.reserved);
  if (growth.before) ++states;
}

bool CardTrial::completes_within(Bytes capacity) {
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

/// What a trial on such a GPU has in common with one of those so far; `replay` is where it goes on from.
CardTrial::Played CardTrial::begun_alike(Bytes capacity, AllocatorReplay& replay) const {
  const AllocatorReplay* furthest = nullptr;
  Played begun;
  for (const Played& each : played_) {
    std::size_t parting = each.parting(capacity);
    while (parting > 0 && !each.growths[parting].before) --parting;
    const AllocatorReplay* before = each.growths[parting].before.get();
    if (before == nullptr || (furthest != nullptr && before->next() <= furthest->next())) continue;
    furthest = before;
    // What is refused is asked for twice; the request is played again from its first.
    if (parting > 0 && each.growths[parting - 1].before.get() == before) --parting;
    begun = {};
    for (std::size_t i = 0; i < parting; ++i) begun.add(each.growths[i]);
  }
  if (furthest != nullptr) replay = *furthest;
  return begun;
}

CardTrial::Played CardTrial::play_within(Bytes capacity) const {
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

/// What no cached block will do for. Where the GPU refuses, all that is cached is given back and it is asked
/// again, for less: another GPU may refuse that too.
std::optional<CachingAllocator::Handle> CardTrial::grow(AllocatorReplay& replay,
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

}  // namespace zplan
