#include "planner/memory/caching_allocator.h"

#include <algorithm>
#include <bit>
#include <limits>
#include <string>

#include "models/base/error.h"

namespace zplan {

namespace {

// Source: torch 2.11 c10/core/AllocatorConfig.h.
constexpr std::int64_t kRounding = 512;                // every size is a multiple of it
constexpr std::int64_t kLargestSmall = 1 << 20;        // the small pool's largest allocation
constexpr std::int64_t kSmallSegment = 2 << 20;        // also the page of small expandable segments
constexpr std::int64_t kLargeSegment = 20 << 20;       // also the page of large expandable segments
constexpr std::int64_t kOwnSegment = 10 << 20;         // from here on a segment is cut to the allocation
constexpr std::int64_t kSegmentRounding = 2 << 20;     // of segments cut to the allocation
constexpr std::int64_t kOversizeTolerance = 20 << 20;  // max_non_split_rounding_mb's default
constexpr std::int64_t kUnlimited = std::numeric_limits<std::int64_t>::max();
// Expandable segments reserve address space for 9/8 of the device; for one without limit, of 4 TiB.
constexpr std::int64_t kEndlessDevice = std::int64_t{4} << 40;

constexpr std::int64_t round_to(std::int64_t size, std::int64_t step) {
  return (size + step - 1) / step * step;
}

constexpr std::int64_t segment_size(std::int64_t size) {
  if (size <= kLargestSmall) return kSmallSegment;
  return size < kOwnSegment ? kLargeSegment : round_to(size, kSegmentRounding);
}

// Memory of expandable segments comes in pages of this size.
constexpr std::int64_t page_size(bool small) { return small ? kSmallSegment : kLargeSegment; }

// Each size its own class below 32 units of 512 B, then 32 classes for each power of two.
std::size_t size_class(std::int64_t size) {
  const auto units = static_cast<std::uint64_t>(size) / kRounding;
  if (units < 32) return units;
  const int exponent = static_cast<int>(std::bit_width(units)) - 6;
  return static_cast<std::size_t>(32 * exponent) + (units >> exponent);
}

constexpr std::uint64_t bit(std::size_t index) { return std::uint64_t{1} << index % 64; }

void raise(Bytes& peak, Bytes now) { peak = std::max(peak, now); }

}  // namespace

Bytes asked_of_device(Bytes size) { return Bytes(segment_size(round_to(size.value, kRounding))); }

CachingAllocator::CachingAllocator(const AllocatorOptions& options)
    : options_(options), max_split_size_(options.max_split_size.value_or(Bytes(kUnlimited)).value) {
  if (max_split_size_ < kLargeSegment)
    throw InputError("max_split_size", std::to_string(max_split_size_) + " B", "20 MiB or more");
}

std::optional<CachingAllocator::Handle> CachingAllocator::allocate(Bytes size, int stream) {
  if (size.value == 0) return kNoMemory;
  const std::int64_t rounded = round_to(size.value, kRounding);
  const std::int32_t pool = pool_for(rounded, stream);
  Index block = cached_block(pool_at(pool), rounded);
  if (block == kNone) block = new_block(pool, rounded);
  if (block == kNone) return std::nullopt;

  if (should_split(block, rounded)) set_aside(cut(block, rounded));
  Block& taken = at(block);
  taken.state = State::in_use;
  taken.requested = size.value;
  current_.requested += size;
  current_.allocated += Bytes(taken.size);
  raise(peak_.requested, current_.requested);
  raise(peak_.allocated, current_.allocated);
  return block;
}

void CachingAllocator::release(Handle handle) {
  if (handle == kNoMemory) return;
  Block& block = at(handle);
  current_.requested -= Bytes(block.requested);
  current_.allocated -= Bytes(block.size);
  block.state = State::free;
  join_neighbours(handle);
  set_aside(handle);
}

void CachingAllocator::empty_cache() {
  for (const Pool& pool : pools_) release_cached(pool);
}

CachingAllocator::Index CachingAllocator::add_block(const Block& block) {
  if (unused_ == kNone) {
    blocks_.push_back(block);
    return static_cast<Index>(blocks_.size() - 1);
  }
  const Index index = unused_;
  unused_ = at(index).next;
  at(index) = block;
  return index;
}

void CachingAllocator::drop_block(Index block) {
  at(block).state = State::unused;
  at(block).next = unused_;
  unused_ = block;
}

// ---- Finding a block ----

std::int32_t CachingAllocator::pool_for(std::int64_t size, int stream) {
  const auto pool = 2 * stream + (size <= kLargestSmall ? 0 : 1);
  while (static_cast<std::size_t>(pool) >= pools_.size()) {
    const int next = static_cast<int>(pools_.size() / 2);
    pools_.push_back({.stream = next, .small = true});
    pools_.push_back({.stream = next, .small = false});
  }
  return pool;
}

CachingAllocator::Index CachingAllocator::cached_block(const Pool& pool, std::int64_t size) {
  Index best = best_fit(pool, size);
  if (best == kNone) return kNone;
  if (options_.expandable_segments) best = least_expandable(pool, best);
  // Oversize blocks are kept for oversize allocations, and not for much smaller ones.
  const std::int64_t found = at(best).size;
  if (size < max_split_size_ ? found >= max_split_size_ : found >= size + kOversizeTolerance) return kNone;
  erase_free(best);
  return best;
}

// A free block before unmapped space counts with that space. What follows in order of fit is no smaller, so
// only such a block can be beaten; torch stops at the first that does not.
CachingAllocator::Index CachingAllocator::least_expandable(const Pool& pool, Index best) const {
  const auto space_behind = [this](Index block) {
    const Index next = at(block).next;
    return next != kNone && at(next).state == State::unmapped ? at(next).size : 0;
  };
  const auto room = [&](Index block) { return at(block).size + space_behind(block); };
  while (space_behind(best) > 0) {
    const Index next = next_fit(pool, best);
    if (next == kNone || room(next) >= room(best)) break;
    best = next;
  }
  return best;
}

CachingAllocator::Index CachingAllocator::new_block(std::int32_t pool, std::int64_t size) {
  Index block = new_memory(pool, size);
  if (block == kNone && release_oversize(pool_at(pool), size)) block = new_memory(pool, size);
  if (block != kNone) return block;
  empty_cache();
  ++retries_;
  return new_memory(pool, size);
}

CachingAllocator::Index CachingAllocator::new_memory(std::int32_t pool, std::int64_t size) {
  return options_.expandable_segments ? expand(pool, size) : new_segment(pool, segment_size(size));
}

CachingAllocator::Index CachingAllocator::new_segment(std::int32_t pool, std::int64_t size) {
  if (!reserve(size)) return kNone;
  // Addresses matter only to order blocks of equal size.
  next_address_ += size;
  return add_block({.address = next_address_ - size, .size = size, .pool = pool, .state = State::free});
}

bool CachingAllocator::reserve(std::int64_t size) {
  const Bytes reserved = current_.reserved + Bytes(size);
  if (options_.capacity && reserved > *options_.capacity) {
    least_refused_ = std::min(least_refused_, reserved);
    return false;
  }
  current_.reserved = reserved;
  raise(peak_.reserved, reserved);
  return true;
}

// ---- Free blocks in order of fit ----

void CachingAllocator::insert_free(Index block) {
  Pool& pool = pool_of(block);
  const std::size_t index = size_class(at(block).size);
  SizeClass& same = pool.classes[index];
  if (same.first == kNone) {
    at(block).before = at(block).after = block;
    same.first = block;
    pool.occupied[index / 64] |= bit(index);
    pool.occupied_words |= std::uint32_t{1} << index / 64;
  } else {
    const Index after = place_in(same, at(block)), before = at(after).before;
    at(block).before = before;
    at(block).after = after;
    at(before).after = at(after).before = block;
    if (after == same.first && at(block).fits_better_than(at(after))) same.first = block;
  }
  same.latest = block;
}

// The block in front of which `block` belongs: the first one also for the end of the ring. It goes to the
// front where it has just come from there, else mostly near the latest, since blocks of one size are often
// released in order of address: a search of the whole ring is rare.
CachingAllocator::Index CachingAllocator::place_in(const SizeClass& same, const Block& block) const {
  if (block.fits_better_than(at(same.first))) return same.first;
  Index after = same.latest;
  if (block.fits_better_than(at(after))) {
    while (block.fits_better_than(at(at(after).before))) after = at(after).before;
    return after;
  }
  do {
    after = at(after).after;
  } while (after != same.first && at(after).fits_better_than(block));
  return after;
}

void CachingAllocator::erase_free(Index block) {
  Pool& pool = pool_of(block);
  const std::size_t index = size_class(at(block).size);
  const Index before = at(block).before, after = at(block).after;
  SizeClass& same = pool.classes[index];
  if (after == block) {
    same.first = kNone;
    pool.occupied[index / 64] &= ~bit(index);
    if (pool.occupied[index / 64] == 0) pool.occupied_words &= ~(std::uint32_t{1} << index / 64);
    return;
  }
  at(before).after = after;
  at(after).before = before;
  if (same.first == block) same.first = after;
  if (same.latest == block) same.latest = before;
}

CachingAllocator::Index CachingAllocator::best_fit(const Pool& pool, std::int64_t size) const {
  const std::size_t index = size_class(size);
  const Index first = pool.classes[index].first;
  // Sizes of one class differ: some of its blocks, or all, may be too small.
  if (first == kNone || at(at(first).before).size < size) return best_from_class(pool, index + 1);
  Index block = first;
  while (at(block).size < size) block = at(block).after;
  return block;
}

CachingAllocator::Index CachingAllocator::next_fit(const Pool& pool, Index block) const {
  const std::size_t index = size_class(at(block).size);
  const Index after = at(block).after;
  return after != pool.classes[index].first ? after : best_from_class(pool, index + 1);
}

CachingAllocator::Index CachingAllocator::best_from_class(const Pool& pool, std::size_t index) const {
  std::size_t word = index / 64;
  if (word >= kWords) return kNone;
  std::uint64_t bits = pool.occupied[word] & (~std::uint64_t{0} << index % 64);
  if (bits == 0) {
    const std::uint32_t words = pool.occupied_words & (~std::uint32_t{1} << word);
    if (words == 0) return kNone;
    word = static_cast<std::size_t>(std::countr_zero(words));
    bits = pool.occupied[word];
  }
  return pool.classes[word * 64 + static_cast<std::size_t>(std::countr_zero(bits))].first;
}

std::vector<CachingAllocator::Index> CachingAllocator::all_free(const Pool& pool) const {
  std::vector<Index> all;
  for (Index block = best_from_class(pool, 0); block != kNone; block = next_fit(pool, block))
    all.push_back(block);
  return all;
}

// ---- Cutting and joining ----

bool CachingAllocator::should_split(Index block, std::int64_t size) {
  const std::int64_t rest = at(block).size - size;
  if (pool_of(block).small || options_.expandable_segments) return rest >= kRounding;
  return size < max_split_size_ && rest > kLargestSmall;
}

// Leaves `size` bytes in `block`; the rest becomes a block of its own, in no list yet.
CachingAllocator::Index CachingAllocator::cut(Index block, std::int64_t size) {
  Block rest = at(block);
  rest.address += size;
  rest.size -= size;
  rest.previous = block;
  const Index index = add_block(rest);
  at(block).size = size;
  at(block).next = index;
  if (rest.next != kNone) at(rest.next).previous = index;
  return index;
}

// `block`, in no list, takes in neighbours of its state.
void CachingAllocator::join_neighbours(Index block) {
  Block& joined = at(block);
  if (const Index next = joined.next; next != kNone && at(next).state == joined.state) {
    take_back(next);
    joined.size += at(next).size;
    joined.next = at(next).next;
    if (joined.next != kNone) at(joined.next).previous = block;
    drop_block(next);
  }
  if (const Index previous = joined.previous; previous != kNone && at(previous).state == joined.state) {
    take_back(previous);
    joined.address = at(previous).address;
    joined.size += at(previous).size;
    joined.previous = at(previous).previous;
    if (joined.previous != kNone) at(joined.previous).next = block;
    drop_block(previous);
  }
}

// Into the list of its state.
void CachingAllocator::set_aside(Index block) {
  if (at(block).state == State::free) return insert_free(block);
  std::vector<Index>& unmapped = pool_of(block).unmapped;
  const auto lower = [this](Index a, Index b) { return at(a).address < at(b).address; };
  unmapped.insert(std::lower_bound(unmapped.begin(), unmapped.end(), block, lower), block);
}

// Out of the list of its state.
void CachingAllocator::take_back(Index block) {
  if (at(block).state == State::free) return erase_free(block);
  std::vector<Index>& unmapped = pool_of(block).unmapped;
  unmapped.erase(std::find(unmapped.begin(), unmapped.end(), block));
}

// ---- Giving memory back ----

// With max_split_size, oversize segments of the pool go first: one that is large enough, else the largest.
bool CachingAllocator::release_oversize(const Pool& pool, std::int64_t needed) {
  if (max_split_size_ == kUnlimited || options_.expandable_segments) return false;
  const std::int64_t wanted = std::max(needed, max_split_size_);
  if (const Index enough = best_fit(pool, wanted); enough != kNone) {
    release_segment(enough);
    return true;
  }
  const std::vector<Index> cached = all_free(pool);
  std::int64_t released = 0;
  for (auto block = cached.rbegin(); block != cached.rend() && released < wanted; ++block) {
    const std::int64_t size = at(*block).size;
    if (size < max_split_size_) break;
    release_segment(*block);
    released += size;
  }
  return released >= wanted;
}

void CachingAllocator::release_cached(const Pool& pool) {
  for (const Index block : all_free(pool)) {
    if (options_.expandable_segments)
      unmap(block);
    else if (at(block).previous == kNone && at(block).next == kNone)
      release_segment(block);
  }
}

// `block` is a free segment of its own.
void CachingAllocator::release_segment(Index block) {
  current_.reserved -= Bytes(at(block).size);
  take_back(block);
  drop_block(block);
}

// Gives back the whole pages inside a free part of an expandable segment.
void CachingAllocator::unmap(Index block) {
  const std::int64_t page = page_size(pool_of(block).small);
  const std::int64_t begin = at(block).address, end = begin + at(block).size;
  const std::int64_t first = round_to(begin, page), last = end / page * page;
  if (first >= last) return;
  take_back(block);
  Index middle = block;
  if (begin < first) {
    middle = cut(block, first - begin);
    set_aside(block);
  }
  if (last < end) set_aside(cut(middle, last - first));
  at(middle).state = State::unmapped;
  join_neighbours(middle);
  current_.reserved -= Bytes(last - first);
  if (at(middle).previous == kNone && at(middle).next == kNone)
    drop_block(middle);  // a segment without memory
  else
    set_aside(middle);
}

// ---- Expandable segments ----

// A free block of at least `size` bytes, in no list, at the lowest address where one can be made.
CachingAllocator::Index CachingAllocator::expand(std::int32_t pool, std::int64_t size) {
  Index block = place_to_expand(pool, size);
  if (at(block).state == State::unmapped && !map(block, std::min(size, at(block).size))) return kNone;
  while (at(block).size < size) {
    const Index next = at(block).next;
    if (!map(next, std::min(size - at(block).size, at(next).size))) return kNone;
    block = next;
  }
  take_back(block);
  return block;
}

// Where free and unmapped stretches in a row have room; else a new segment.
CachingAllocator::Index CachingAllocator::place_to_expand(std::int32_t pool, std::int64_t size) {
  for (const Index unmapped : pool_at(pool).unmapped) {
    const Index previous = at(unmapped).previous;
    const Index first = previous != kNone && at(previous).state == State::free ? previous : unmapped;
    if (has_room(first, size)) return first;
  }
  return new_address_space(pool);
}

bool CachingAllocator::has_room(Index first, std::int64_t size) const {
  std::int64_t room = 0;
  for (Index block = first; block != kNone && at(block).state != State::in_use; block = at(block).next) {
    room += at(block).size;
    if (room >= size) return true;
  }
  return false;
}

CachingAllocator::Index CachingAllocator::new_address_space(std::int32_t pool) {
  const std::int64_t device = options_.capacity.value_or(Bytes(kEndlessDevice)).value;
  const std::int64_t space = round_to(device + device / 8, page_size(pool_at(pool).small));
  const std::int64_t address =
      round_to(next_address_, kLargeSegment);  // pages start at multiples of their size
  next_address_ = address + space;
  const Index segment =
      add_block({.address = address, .size = space, .pool = pool, .state = State::unmapped});
  set_aside(segment);
  return segment;
}

// Puts memory, in whole pages, behind the first `size` bytes of an unmapped block; false: there is none.
bool CachingAllocator::map(Index block, std::int64_t size) {
  const std::int64_t pages = round_to(size, page_size(pool_of(block).small));
  if (!reserve(pages)) return false;
  take_back(block);
  if (pages < at(block).size) set_aside(cut(block, pages));
  at(block).state = State::free;
  join_neighbours(block);
  set_aside(block);
  return true;
}

// ---- Segments ----

bool CachingAllocator::starts_segment(const Block& block) const {
  if (block.state != State::free && block.state != State::in_use) return false;
  return block.previous == kNone || at(block.previous).state == State::unmapped;
}

AllocatorSegment CachingAllocator::segment_from(Index first) const {
  const Pool& pool = pools_[static_cast<std::size_t>(at(first).pool)];
  AllocatorSegment segment{.stream = pool.stream, .small = pool.small, .blocks = {}};
  for (Index block = first; block != kNone && at(block).state != State::unmapped; block = at(block).next)
    segment.blocks.push_back({Bytes(at(block).size), at(block).state == State::in_use});
  return segment;
}

std::vector<AllocatorSegment> CachingAllocator::segments() const {
  std::vector<Index> first;
  for (std::size_t i = 0; i < blocks_.size(); ++i)
    if (starts_segment(blocks_[i])) first.push_back(static_cast<Index>(i));
  std::sort(first.begin(), first.end(), [this](Index a, Index b) { return at(a).address < at(b).address; });
  std::vector<AllocatorSegment> segments;
  for (const Index block : first) segments.push_back(segment_from(block));
  return segments;
}

}  // namespace zplan
