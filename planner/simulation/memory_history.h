#pragma once
// The history of PyTorch's allocator over a run: what torch.cuda.memory._snapshot() would tell of it.

#include <cstdint>
#include <string_view>
#include <vector>

#include "planner/simulation/caching_allocator.h"
#include "planner/simulation/run.h"
#include "planner/simulation/timeline.h"

namespace zplan {

/// Holds the purpose of a block, and the moment at which it was requested.
struct BlockCause {
  Term term{};
  Phase phase{Phase::initialisation};
  std::string_view at{};
  int layer{-1};
  ModulePlace module{};
  int step{};  ///< 0: initialisation; 1, 2, …: optimizer steps
  bool operator==(const BlockCause&) const = default;
};

/// One entry of a history, in the words of PyTorch's TraceEntry.
struct MemoryEvent {
  enum class Action : std::uint8_t {
    alloc,
    free,
    segment_alloc,  ///< memory is taken from the device
    segment_free,   ///< and given back
    segment_map,    ///< the same of expandable segments
    segment_unmap,
  };
  Action action{Action::alloc};
  std::int16_t stream{};
  std::int32_t cause{-1};  ///< of MemoryHistory::causes; −1: segments that are given back
  std::int64_t address{};
  Bytes size;  ///< of a block as requested
};

/// A segment as the run leaves it.
struct HeldSegment {
  struct Block {
    std::int64_t address{};
    Bytes size;              ///< as handed out
    Bytes requested;         ///< 0: it is free
    std::int32_t cause{-1};  ///< of MemoryHistory::causes; −1: it is free
  };
  std::int64_t address{};
  Bytes size;
  int stream{};
  bool small{};
  std::vector<Block> blocks;  ///< by address, without gaps
};

struct MemoryHistory {
  std::vector<MemoryEvent> events;
  std::vector<BlockCause> causes;
  std::vector<std::size_t> steps;  ///< number of the first event of each optimizer step
  std::vector<HeldSegment> segments;
  bool expandable{};

  /// Returns the highest sum of requested bytes from event `first` on, and of bytes of segments over all.
  [[nodiscard]] Bytes highest_requested(std::size_t first) const;
  [[nodiscard]] Bytes highest_reserved() const;
};

/// Replays `asked`, the allocator's requests of a run on a GPU with memory to spare, whose blocks are
/// `requests` in the same order.
[[nodiscard]] MemoryHistory memory_history(const AllocatorTrace& asked,
                                           const std::vector<BlockRequest>& requests,
                                           const AllocatorOptions& options);

}  // namespace zplan
