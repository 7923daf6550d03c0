#pragma once
// PyTorch's caching allocator as a plain value: which segments it takes from the device for a sequence of
// allocations and frees, and at which call it runs out of memory. docs/allocator.md says what is modelled.
// Source: torch 2.11 c10/cuda/CUDACachingAllocator.cpp, c10/core/AllocatorConfig.h.

#include <array>
#include <cstdint>
#include <limits>
#include <optional>
#include <vector>

#include "models/base/quantity.h"

namespace zplan {

/// The options of PYTORCH_ALLOC_CONF that are modelled, and the device.
struct AllocatorOptions {
  std::optional<Bytes> capacity{};  ///< what the device can give to segments; absent: never out of memory
  bool expandable_segments{};       ///< expandable_segments:True
  std::optional<Bytes> max_split_size{};  ///< max_split_size_mb; 20 MiB or more, as torch demands
  bool operator==(const AllocatorOptions&) const = default;
};

/// Counters of torch.cuda.memory_stats(), over all pools.
struct AllocatorStatistics {
  Bytes requested;  ///< as asked for: requested_bytes
  Bytes allocated;  ///< as handed out, rounding and rests included: allocated_bytes and active_bytes
  Bytes reserved;   ///< taken from the device: reserved_bytes
  bool operator==(const AllocatorStatistics&) const = default;
};

/// A stretch of device memory taken in one piece: from cudaMalloc, or a contiguously mapped part of an
/// expandable segment. What torch.cuda.memory_snapshot() lists.
struct AllocatorSegment {
  struct Block {
    Bytes size;
    bool in_use{};
    bool operator==(const Block&) const = default;
  };
  int stream{};
  bool small{};               ///< of the pool for allocations of at most 1 MiB
  std::vector<Block> blocks;  ///< by address, without gaps
  bool operator==(const AllocatorSegment&) const = default;
};

/// Returns the size that the allocator requests from the device where no cached block fits `size` bytes,
/// which PyTorch's out-of-memory message names: 2 MiB up to 1 MiB, 20 MiB below 10 MiB, else multiples of 2
/// MiB.
[[nodiscard]] Bytes asked_of_device(Bytes size);

/// One device's allocator. A copy is an independent allocator in the same state.
/// Blocks used on further streams (record_stream) are free as soon as they are released: torch waits for the
/// other stream's work, which has no time here.
class CachingAllocator {
 public:
  /// Names a live allocation; small numbers, used again after release().
  using Handle = std::int32_t;
  /// Handle of zero bytes, for which torch hands out no memory.
  static constexpr Handle kNoMemory = -1;

  /// InputError: max_split_size below 20 MiB.
  explicit CachingAllocator(const AllocatorOptions& options = {});

  /// Allocates `size` >= 0 bytes for use on stream 0, 1, … Returns nullopt where memory runs out even after
  /// cached segments were given back, where torch raises OutOfMemoryError; the allocator stays usable.
  [[nodiscard]] std::optional<Handle> allocate(Bytes size, int stream = 0);
  /// Allocates cached memory alone; returns nullopt where more of the device is needed.
  [[nodiscard]] std::optional<Handle> allocate_cached(Bytes size, int stream = 0);
  /// Allocates cached memory and releases it at once, which changes peaks alone. Returns false, without
  /// effect, where more of the device is needed.
  [[nodiscard]] bool spike_cached(Bytes size, int stream = 0);
  /// Releases `handle`, which allocate() returned and nobody released yet.
  void release(Handle handle);
  /// Gives wholly free segments back to the device: torch.cuda.empty_cache().
  void empty_cache();

  [[nodiscard]] const AllocatorStatistics& current() const { return current_; }
  /// The highest value of each since the start or reset_peak(); each may have been reached at another moment.
  [[nodiscard]] const AllocatorStatistics& peak() const { return peak_; }
  void reset_peak() { peak_ = current_; }
  /// Limits the device to `capacity`, of which less is taken now. Not for expandable segments, whose address
  /// space depends on the capacity from the start.
  void limit(Bytes capacity) { options_.capacity = capacity; }
  /// Returns how often cached segments had to be given back to go on, which stalls the device:
  /// num_alloc_retries.
  [[nodiscard]] std::int64_t retries() const { return retries_; }
  /// Address and size of a live allocation.
  struct Place {
    std::int64_t address{}, size{};
    bool operator==(const Place&) const = default;
  };
  [[nodiscard]] Place place(Handle handle) const {
    return handle == kNoMemory ? Place{} : Place{at(handle).address, at(handle).size};
  }
  /// Returns how often memory was taken from the device or given back. Free neighbours are always joined:
  /// between two moments with the same count free memory differs only as live allocations do.
  [[nodiscard]] std::int64_t device_calls() const { return device_calls_; }
  /// Returns all segments by address.
  [[nodiscard]] std::vector<AllocatorSegment> segments() const;
  /// Returns address and size of each of them.
  [[nodiscard]] std::vector<Place> segment_places() const;

 private:
  using Index = std::int32_t;  ///< of blocks_
  /// No block. blocks_[kNone] stands where a neighbour is missing: it has no size and is never free, so that
  /// neighbours can be looked at, and linked, without asking first whether there are any.
  static constexpr Index kNone = 0;
  enum class State : std::uint8_t { unused, free, in_use, unmapped };

  /// A cache line of its own.
  struct alignas(64) Block {
    std::int64_t address{}, size{}, requested{};
    Index previous{kNone}, next{kNone};  ///< neighbours in the segment; `next` also chains unused blocks
    Index before{kNone}, after{kNone};   ///< of a free block: neighbours in its size class
    std::int32_t pool{};
    std::uint16_t size_class{};  ///< of a free block
    State state{State::unused};

    [[nodiscard]] bool fits_better_than(const Block& other) const {
      return size != other.size ? size < other.size : address < other.address;
    }
  };

  /// A ring of free blocks whose sizes are within 3 %, best fit first.
  struct SizeClass {
    Index first{kNone}, latest{kNone};  ///< best fit; last one that came
  };
  static constexpr std::size_t kWords = 20;  ///< of 64 classes: sizes up to 2^43 units of 512 B
  struct Pool {
    int stream{};
    bool small{};
    std::array<SizeClass, kWords * 64> classes{};
    std::array<std::uint64_t, kWords> occupied{};  ///< a bit for each class that has a block
    std::uint32_t occupied_words{};                ///< a bit for each word of `occupied`
    std::int64_t smallest_rest{};                  ///< a block is split where so much remains
    std::vector<Index> unmapped{};  ///< parts of expandable segments without memory, by address
  };

  [[nodiscard]] Block& at(Index block) { return blocks_[static_cast<std::size_t>(block)]; }
  [[nodiscard]] const Block& at(Index block) const { return blocks_[static_cast<std::size_t>(block)]; }
  [[nodiscard]] Pool& pool_at(std::int32_t pool) { return pools_[static_cast<std::size_t>(pool)]; }
  [[nodiscard]] Pool& pool_of(Index block) { return pool_at(at(block).pool); }
  [[nodiscard]] bool is_free(Index block) const { return at(block).state == State::free; }
  [[nodiscard]] bool is_unmapped(Index block) const { return at(block).state == State::unmapped; }

  // Functions declared `inline` make up the common case: a cached block is found, split, and joined again.
  [[nodiscard]] inline Index add_block();
  [[nodiscard]] Index grow_blocks();
  inline void drop_block(Index block);

  // Finding a block: a cached one, else new memory. It is free and still in its ring.
  [[nodiscard]] inline std::int32_t pool_for(std::int64_t size, int stream);
  void add_pools(int stream);
  [[nodiscard]] inline Index cached_block(const Pool& pool, std::int64_t size) const;
  [[nodiscard]] inline Handle hand_out(Pool& pool, Index block, std::int64_t needed, Bytes size);
  [[nodiscard]] Index cached_by_options(const Pool& pool, Index best, std::int64_t size) const;
  [[nodiscard]] Index least_expandable(const Pool& pool, Index best) const;
  [[nodiscard]] Index new_block(std::int32_t pool, std::int64_t size);
  [[nodiscard]] Index new_memory(std::int32_t pool, std::int64_t size);
  [[nodiscard]] Index new_segment(std::int32_t pool, std::int64_t size);
  [[nodiscard]] bool reserve(std::int64_t size);

  // Free blocks of a pool in order of fit: by size, then by address.
  inline void insert_free(Pool& pool, Index index);
  void insert_into(SizeClass& same, Index index);
  inline void erase_free(Pool& pool, Index index);
  [[nodiscard]] Index place_in(const SizeClass& same, const Block& block) const;
  [[nodiscard]] inline Index best_fit(const Pool& pool, std::int64_t size) const;
  [[nodiscard]] Index next_fit(const Pool& pool, Index block) const;
  [[nodiscard]] inline Index best_from_class(const Pool& pool, std::size_t index) const;
  [[nodiscard]] std::vector<Index> all_free(const Pool& pool) const;

  // Cutting and joining.
  [[nodiscard]] inline bool should_split(const Pool& pool, Index block, std::int64_t size) const;
  [[nodiscard]] inline Index cut_front(Index block, std::int64_t size);
  inline void absorb_next(Index block);
  inline void absorb_previous(Index block);
  inline void settle(Index block);

  // Giving memory back.
  [[nodiscard]] bool release_oversize(Pool& pool, std::int64_t needed);
  void release_cached(Pool& pool);
  void release_segment(Pool& pool, Index block);
  void unmap(Pool& pool, Index block);

  // Expandable segments.
  [[nodiscard]] Index expand(std::int32_t pool, std::int64_t size);
  [[nodiscard]] Index place_to_expand(std::int32_t pool, std::int64_t size);
  [[nodiscard]] bool has_room(Index first, std::int64_t size) const;
  [[nodiscard]] Index new_address_space(std::int32_t pool);
  [[nodiscard]] Index map(Index block, std::int64_t size);
  void insert_unmapped(Index block);
  void erase_unmapped(Index block);
  void join_unmapped(Index block);

  [[nodiscard]] bool starts_segment(const Block& block) const;
  [[nodiscard]] std::vector<Index> first_blocks() const;
  [[nodiscard]] AllocatorSegment segment_from(Index first) const;

  AllocatorOptions options_;
  std::int64_t max_split_size_;
  bool has_options_;          ///< that say which cached block may be used
  std::int64_t split_below_;  ///< smaller allocations split the block they get
  std::vector<Block> blocks_{1};
  Index unused_{kNone};
  std::vector<Pool> pools_;  ///< two for each stream: small, large
  int streams_{};
  std::int64_t next_address_{};
  AllocatorStatistics current_, peak_;
  std::int64_t retries_{}, device_calls_{};
};

}  // namespace zplan
