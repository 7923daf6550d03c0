#include "planner/simulation/cards.h"

#include <algorithm>
#include <utility>

namespace zplan {

Cards::Cards(const RunInputs& inputs, const RunResult& unlimited)
    : inputs_(inputs),
      unlimited_(unlimited),
      trial_(unlimited.asked, allocator_options(inputs.step.training), unlimited.before_more) {}

bool Cards::flattens_on_host(Bytes size) const {
  return unlimited_.flattening && size < unlimited_.flattening->card;
}

/// It differs in how it starts alone: its steps ask for the same.
Cards::OnHost Cards::play_on_host() const {
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

const Cards::OnHost& Cards::on_host() {
  if (!on_host_) {
    on_host_ = play_on_host();
    trial_on_host_.emplace(on_host_->asked, allocator_options(inputs_.step.training));
  }
  return *on_host_;
}

/// On a GPU that starts in one way or the other and gives the allocator `pool`.
bool Cards::tried(bool on_host, Bytes pool) {
  if (on_host) static_cast<void>(this->on_host());
  if (pool < (on_host ? on_host_->peak_allocated : unlimited_.peak_allocated)) return false;
  return pool >= (on_host ? on_host_->peak_reserved : unlimited_.peak_reserved) ||
         (on_host ? *trial_on_host_ : trial_).completes_within(pool);
}

bool Cards::completes_on(Bytes size) {
  return size > inputs_.outside && tried(flattens_on_host(size), size - inputs_.outside);
}

bool Cards::completes_within(Bytes size) {
  if (unlimited_.flattening) {
    const CardRange fails = unlimited_.flattening->failing(inputs_.outside);
    if (fails.contains(size)) size = fails.from - Bytes(1);
  }
  return completes_on(size);
}

/// Until it is narrow enough, or `enough(bracket)`.
template <class Enough>
Cards::Bracket Cards::narrow(Bytes beyond, const Enough& enough) {
  constexpr std::int64_t kSegment = std::int64_t{2}
                                    << 20;  // the allocator takes multiples of it from the GPU
  const auto round_up = [](std::int64_t bytes) { return (bytes + kSegment - 1) / kSegment * kSegment; };
  const Bytes outside = inputs_.outside;
  std::int64_t live = std::max(unlimited_.peak_allocated, unlimited_.least_initialisation.allocated).value;
  Bracket at{.runs = unlimited_.peak_reserved.value};
  bool starts_on_host = false;
  if (unlimited_.flattening) {
    // Where the largest GPU that flattens on the host does, some such GPU is the smallest.
    const Bytes largest = unlimited_.flattening->card - outside - Bytes(1);
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
  // Most runs need little more than what is live: strides from there, each twice the one before, find the
  // bracket.
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

Bytes Cards::smallest(Bytes beyond) {
  const Bracket found = narrow(beyond, [](const Bracket&) { return false; });
  return std::max(Bytes(found.runs) + inputs_.outside, beyond + Bytes(1));
}

bool Cards::smallest_is_within(Bytes size) {
  const std::int64_t pool = (size - inputs_.outside).value;
  return narrow({}, [&](const Bracket& at) { return at.runs <= pool || at.fails >= pool; }).runs <= pool;
}

}  // namespace zplan
