#pragma once
// Finds the GPUs on which a run completes.

#include <cstddef>
#include <memory>
#include <optional>
#include <vector>

#include "planner/simulation/allocator_trace.h"
#include "planner/simulation/run.h"

namespace zplan {

/// Tries capacities of the allocator in any order, by a trace of the run. The allocator looks at the GPU's
/// size only where it has to take more of it, so on two GPUs the same happens until one of them grants what
/// the other refuses. From there, and not from the start, a trial goes on from an earlier one.
class CapacityTrials {
 public:
  /// `options` are those of the GPU on which `trace` was written, without limit; `begun` is a replay of part
  /// of it on that GPU. `trace` outlives this.
  CapacityTrials(const AllocatorTrace& trace, const AllocatorOptions& options,
                 const std::optional<AllocatorReplay>& begun = {});

  /// True if the run completes where the allocator can have `capacity`.
  [[nodiscard]] bool completes_within(Bytes capacity);

 private:
  /// A request to the GPU for more than it had ever granted.
  struct Growth {
    Bytes reserved;  ///< what the allocator then has of it
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
    /// Returns the number of the first growth that a GPU of `capacity` decides otherwise.
    [[nodiscard]] std::size_t parting(Bytes capacity) const;
  };
  [[nodiscard]] Played play_within(Bytes capacity) const;
  [[nodiscard]] Played begun_alike(Bytes capacity, AllocatorReplay& replay) const;
  [[nodiscard]] std::optional<CachingAllocator::Handle> grow(AllocatorReplay& replay,
                                                             const AllocatorTrace::Request& request,
                                                             Bytes capacity, Played& played) const;

  const AllocatorTrace& trace_;
  AllocatorOptions options_;
  /// The run without limit, as far as it was begun; then the last trial that failed and the last one that did
  /// not: most further capacities lie between.
  std::vector<Played> played_;
  Bytes fails_;  ///< the largest GPU that failed
};

/// Tries GPUs, named by their usable memory. No trial repeats what an earlier one has shown.
class GpuTrials {
 public:
  /// `inputs`, whose `outside` is set, and `unlimited`, which simulate() made of it, outlive this.
  GpuTrials(const RunInputs& inputs, const RunResult& unlimited);

  /// True if the run completes on a GPU of `size`, which must not fail as it starts (Flattening::failing).
  [[nodiscard]] bool completes_on(Bytes size);
  /// True if the run completes on a GPU of `size` or, where such a GPU fails as it starts, on the next
  /// smaller one that does not.
  [[nodiscard]] bool completes_within(Bytes size);
  /// Returns the smallest GPU on which the run completes, to 0.5 %, among those larger than `beyond`. It
  /// strides up from the bytes live at the worst moment, then bisects; the result is at most what suffices
  /// where nothing cached is ever given back. Sizes below it that were not tried count as too small, and
  /// larger ones as large enough; where memory is fragmented neither need be so (docs/memory.md).
  [[nodiscard]] Bytes smallest(Bytes beyond = {});
  /// True if smallest() is at most `size`.
  [[nodiscard]] bool smallest_is_within(Bytes size);
  /// The run on a GPU that flattens weights on the host, with memory to spare.
  struct OnHost {
    AllocatorTrace asked;
    Bytes peak_allocated;  ///< of the steady step
    Bytes peak_reserved;   ///< of the whole run
  };
  [[nodiscard]] const OnHost& on_host();

 private:
  [[nodiscard]] bool flattens_on_host(Bytes size) const;
  [[nodiscard]] OnHost play_on_host() const;
  [[nodiscard]] bool tried(bool on_host, Bytes pool);
  /// Bounds of the smallest pool, in bytes: the run fails with `fails` and completes with `runs`.
  struct Bracket {
    std::int64_t fails{}, runs{};
  };
  template <class Enough>
  [[nodiscard]] Bracket narrow(Bytes beyond, const Enough& enough);

  const RunInputs& inputs_;
  const RunResult& unlimited_;
  CapacityTrials trial_;
  std::optional<OnHost> on_host_;
  std::optional<CapacityTrials> trial_on_host_;
};

}  // namespace zplan
