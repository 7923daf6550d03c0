#pragma once
// On which cards a run completes, by what it asked of the allocator on a card without limit.

#include "planner/memory/allocator_trace.h"

namespace zplan {

/// Tries cards of growing size, or of sizes between one that failed and one that did not.
class CardTrial {
 public:
  /// `options`: those of the card on which `trace` was written, without limit; `trace` outlives it.
  CardTrial(const AllocatorTrace& trace, const AllocatorOptions& options)
      : trace_(trace), options_(options), common_{CachingAllocator(options), {}, 0} {}

  /// Whether the run completes where the allocator can have `capacity`. Caution: what is asked for later must
  /// be more than every capacity that failed.
  [[nodiscard]] bool completes_within(Bytes capacity);

 private:
  /// An allocator that has played the requests before `next`.
  struct State {
    CachingAllocator allocator;
    std::vector<CachingAllocator::Handle> handles;  ///< by slot
    std::size_t next{};
  };
  [[nodiscard]] bool play_within(Bytes capacity);
  [[nodiscard]] std::size_t first_beyond(Bytes capacity) const;
  [[nodiscard]] bool play(State& state, std::size_t end) const;
  void learn(const CachingAllocator& allocator, Bytes capacity, bool completed);

  const AllocatorTrace& trace_;
  AllocatorOptions options_;
  /// As far as an allocator with the largest capacity that failed does what one without limit does: every
  /// larger one does the same up to there.
  State common_;
  Bytes fails_below_;             ///< as the last one that failed
  Bytes runs_from_, runs_up_to_;  ///< as the last one that did not
};

}  // namespace zplan
