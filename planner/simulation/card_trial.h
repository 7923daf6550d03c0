#pragma once
// On which GPUs a run completes, by what it asked of the allocator on a GPU without limit.

#include <cstddef>
#include <memory>
#include <optional>
#include <vector>

#include "planner/simulation/allocator_replay.h"
#include "planner/simulation/allocator_trace.h"

namespace zplan {

/// Tries GPUs in any order. The allocator looks at the size of the GPU only where it has to take more of
/// it, so two GPUs do the same until one of them grants what the other refuses: from there, and not from the
/// start, a trial goes on from an earlier one.
class CardTrial {
 public:
  /// `options`: those of the GPU on which `trace` was written, without limit; `begun`: a replay of it, so
  /// far, on that GPU. `trace` outlives it.
  CardTrial(const AllocatorTrace& trace, const AllocatorOptions& options,
            const std::optional<AllocatorReplay>& begun = {});

  /// Whether the run completes where the allocator can have `capacity`.
  [[nodiscard]] bool completes_within(Bytes capacity);

 private:
  /// Where the GPU was asked for more than it had ever granted.
  struct Growth {
    Bytes reserved;  ///< what the allocator would then have of it
    bool granted{};
    std::shared_ptr<const AllocatorReplay>
        before{};  ///< absent where hardly any other trial decides otherwise
  };
  struct Played {
    bool limited{true};
    std::vector<Growth> growths;
    Bytes granted;         ///< the most so far
    std::size_t states{};  ///< kept with growths
    bool completed{};
    void add(const Growth& growth);
    /// The first growth that a GPU of `capacity` decides otherwise.
    [[nodiscard]] std::size_t parting(Bytes capacity) const;
  };
  [[nodiscard]] Played play_within(Bytes capacity) const;
  [[nodiscard]] Played begun_alike(Bytes capacity, AllocatorReplay& replay) const;
  [[nodiscard]] std::optional<CachingAllocator::Handle> grow(AllocatorReplay& replay,
                                                             const AllocatorTrace::Request& request,
                                                             Bytes capacity, Played& played) const;

  const AllocatorTrace& trace_;
  AllocatorOptions options_;
  /// Without limit, as far as it was begun; then the last trial that failed and the last one that did not:
  /// what is asked next mostly lies between.
  std::vector<Played> played_;
  Bytes fails_;  ///< the largest GPU that failed
};

}  // namespace zplan
