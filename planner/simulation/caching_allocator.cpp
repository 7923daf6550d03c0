#include "planner/simulation/caching_allocator.h"

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
// Expandable segments reserve address space for 9/8 of the device; for one without limit, of 4 PiB, which
// no block exceeds: there nothing is refused.
constexpr std::int64_t kEndlessDevice = std::int64_t{4} << 50;

constexpr std::int64_t round_to(std::int64_t size, std::int64_t step) {
  return (size + step - 1) / step * step;
}

constexpr std::int64_t segment_size(std::int64_t size) {
  if (size <= kLargestSmall) return kSmallSegment;
  return size < kOwnSegment ? kLargeSegment : round_to(size, kSegmentRounding);
}

// Memory of expandable segments comes in pages of this size.
constexpr std::int64_t page_size(bool small) { return small ? kSmallSegment : kLargeSegment; }

// Rounds an allocation up: kRounding is a power of two.
constexpr std::int64_t rounded(std::int64_t size) { return (size + kRounding - 1) & -kRounding; }

// Each size its own class below 64 units of 512 B, then 32 classes for each power of two. No block is larger
// than kEndlessDevice: what asks for more than twice that finds none, in the last class.
std::size_t size_class(std::int64_t size) {
  const auto units = static_cast<std::uint64_t>(std::min(size, 2 * kEndlessDevice - kRounding)) / kRounding;
  const auto exponent = static_cast<unsigned>(std::bit_width(units | 32) - 6);
  return std::size_t{32} * exponent + (units >> exponent);
}

constexpr std::uint64_t bit(std::size_t index) { return std::uint64_t{1} << index % 64; }

void raise(Bytes& peak, Bytes now) { peak = std::max(peak, now); }

}  // namespace

Bytes asked_of_device(Bytes size) { return Bytes(segment_size(rounded(size.value))); }

CachingAllocator::CachingAllocator(const AllocatorOptions& options)
    : options_(options),
      max_split_size_(options.max_split_size.value_or(Bytes(kUnlimited)).value),
      has_options_(options.expandable_segments || options.max_split_size),
      split_below_(options.expandable_segments ? kUnlimited : max_split_size_) {
  if (max_split_size_ < kLargeSegment)
    throw InputError("max_split_size", std::to_string(max_split_size_) + " B", "20 MiB or more");
}

std::optional<CachingAllocator::Handle> CachingAllocator::allocate(Bytes size, int stream) {
  if (const auto cached = allocate_cached(size, stream)) return cached;
  const std::int64_t needed = rounded(size.value);
  const std::int32_t pool = pool_for(needed, stream);
  const Index block = new_block(pool, needed);
  if (block == kNone) return std::nullopt;
  return hand_out(pool_at(pool), block, needed, size);
}

std::optional<CachingAllocator::Handle> CachingAllocator::allocate_cached(Bytes size, int stream) {
  if (size.value == 0) return kNoMemory;
  const std::int64_t needed = rounded(size.value);
  Pool& pool = pool_at(pool_for(needed, stream));
  const Index block = cached_block(pool, needed);
  if (block == kNone) return std::nullopt;
  return hand_out(pool, block, needed, size);
}

bool CachingAllocator::spike_cached(Bytes size, int stream) {
  if (size.value == 0) return true;
  const std::int64_t needed = rounded(size.value);
  Pool& pool = pool_at(pool_for(needed, stream));
  const Index block = cached_block(pool, needed);
  if (block == kNone) return false;
  const Bytes taken(should_split(pool, block, needed) ? needed : at(block).size);
  raise(peak_.requested, current_.requested + size);
  raise(peak_.allocated, current_.allocated + taken);
  return true;
}

/// The free `block` to whoever asked for `size` bytes, which are `needed` as rounded.
CachingAllocator::Handle CachingAllocator::hand_out(Pool& pool, Index block, std::int64_t needed,
                                                    Bytes size) {
  erase_free(pool, block);
  if (should_split(pool, block, needed)) {
    const Index rest = block;
    block = cut_front(rest, needed);
    insert_free(pool, rest);
  }
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
  settle(handle);
}

void CachingAllocator::empty_cache() {
  for (Pool& pool : pools_) release_cached(pool);
}

CachingAllocator::Index CachingAllocator::add_block() {
  if (unused_ == kNone) return grow_blocks();
  const Index index = unused_;
  unused_ = at(index).next;
  return index;
}

CachingAllocator::Index CachingAllocator::grow_blocks() {
  blocks_.emplace_back();
  return static_cast<Index>(blocks_.size() - 1);
}

void CachingAllocator::drop_block(Index block) {
  at(block).state = State::unused;
  at(block).next = unused_;
  unused_ = block;
}

// ---- Finding a block ----

std::int32_t CachingAllocator::pool_for(std::int64_t size, int stream) {
  if (stream >= streams_) add_pools(stream);
  return 2 * stream + (size <= kLargestSmall ? 0 : 1);
}

void CachingAllocator::add_pools(int stream) {
  pools_.resize(2 * (static_cast<std::size_t>(stream) + 1));
  for (; streams_ <= stream; ++streams_) {
    Pool &small = pool_at(2 * streams_), &large = pool_at(2 * streams_ + 1);
    small.stream = large.stream = streams_;
    small.small = true;
    small.smallest_rest = kRounding;
    large.smallest_rest = options_.expandable_segments ? kRounding : kLargestSmall + kRounding;
  }
}

CachingAllocator::Index CachingAllocator::cached_block(const Pool& pool, std::int64_t size) const {
  const Index best = best_fit(pool, size);
  return has_options_ && best != kNone ? cached_by_options(pool, best, size) : best;
}

CachingAllocator::Index CachingAllocator::cached_by_options(const Pool& pool, Index best,
                                                            std::int64_t size) const {
  if (options_.expandable_segments) best = least_expandable(pool, best);
  // Oversize blocks are kept for oversize allocations, and not for much smaller ones.
  const std::int64_t found = at(best).size;
  if (size < max_split_size_ ? found >= max_split_size_ : found >= size + kOversizeTolerance) return kNone;
  return best;
}

// A free block before unmapped space counts with that space. What follows in order of fit is no smaller, so
// only such a block can be beaten; torch stops at the first that does not.
CachingAllocator::Index CachingAllocator::least_expandable(const Pool& pool, Index best) const {
  const auto space_behind = [this](Index block) {
    const Index next = at(block).next;
    return is_unmapped(next) ? at(next).size : 0;
  };
  const auto available = [&](Index block) { return at(block).size + space_behind(block); };
  while (space_behind(best) > 0) {
    const Index next = next_fit(pool, best);
    if (next == kNone || available(next) >= available(best)) break;
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
  // Free blocks are told apart by size up to 2^53 bytes, and expandable segments have kEndlessDevice of
  // addresses.
  if (!options_.capacity && size >= kEndlessDevice - current_.reserved.value)
    throw InputError("memory", "a device that reserves 4 PiB or more",
                     "accepted: less, by a smaller model, micro-batch or sequence");
  return options_.expandable_segments ? expand(pool, size) : new_segment(pool, segment_size(size));
}

CachingAllocator::Index CachingAllocator::new_segment(std::int32_t pool, std::int64_t size) {
  if (!reserve(size)) return kNone;
  // Addresses matter only to order blocks of equal size.
  const Index segment = add_block();
  at(segment) = {.address = next_address_, .size = size, .pool = pool, .state = State::free};
  next_address_ += size;
  insert_free(pool_at(pool), segment);
  return segment;
}

bool CachingAllocator::reserve(std::int64_t size) {
  const Bytes reserved = current_.reserved + Bytes(size);
  if (options_.capacity && reserved > *options_.capacity) return false;
  current_.reserved = reserved;
  ++device_calls_;
  raise(peak_.reserved, reserved);
  return true;
}

// ---- Free blocks in order of fit ----

void CachingAllocator::insert_free(Pool& pool, Index index) {
  Block& block = at(index);
  const std::size_t number = size_class(block.size);
  block.size_class = static_cast<std::uint16_t>(number);
  SizeClass& same = pool.classes[number];
  if (same.first != kNone) return insert_into(same, index);
  block.before = block.after = index;
  same = {.first = index, .latest = index};
  pool.occupied[number / 64] |= bit(number);
  pool.occupied_words |= std::uint32_t{1} << number / 64;
}

// Into a ring that is not empty.
void CachingAllocator::insert_into(SizeClass& same, Index index) {
  Block& block = at(index);
  Index after = same.first;
  if (block.fits_better_than(at(after)))
    same.first = index;
  else
    after = place_in(same, block);
  block.before = at(after).before;
  block.after = after;
  at(block.before).after = at(after).before = index;
  same.latest = index;
}

// The block in front of which `block`, which is not the best fit, belongs: the first one for the end of the
// ring. That is mostly near the latest, since blocks of one size are often released in order of address: a
// search of the whole ring is rare.
CachingAllocator::Index CachingAllocator::place_in(const SizeClass& same, const Block& block) const {
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

void CachingAllocator::erase_free(Pool& pool, Index index) {
  const Block& block = at(index);
  const std::size_t number = block.size_class;
  SizeClass& same = pool.classes[number];
  if (block.after == index) {
    same.first = kNone;
    pool.occupied[number / 64] &= ~bit(number);
    if (pool.occupied[number / 64] == 0) pool.occupied_words &= ~(std::uint32_t{1} << number / 64);
    return;
  }
  at(block.before).after = block.after;
  at(block.after).before = block.before;
  if (same.first == index) same.first = block.after;
  if (same.latest == index) same.latest = block.before;
}

CachingAllocator::Index CachingAllocator::best_fit(const Pool& pool, std::int64_t size) const {
  const std::size_t number = size_class(size);
  Index block = pool.classes[number].first;
  // Sizes of one class differ: some of its blocks, or all, may be too small. Where it has none, kNone is.
  if (at(at(block).before).size < size) return best_from_class(pool, number + 1);
  while (at(block).size < size) block = at(block).after;
  return block;
}

CachingAllocator::Index CachingAllocator::next_fit(const Pool& pool, Index block) const {
  const std::size_t index = at(block).size_class;
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

bool CachingAllocator::should_split(const Pool& pool, Index block, std::int64_t size) const {
  return at(block).size - size >= pool.smallest_rest && size < split_below_;
}

// The first `size` bytes of `block` become a block of their own, of its state but in no list. What remains is
// `block`: of unmapped space it keeps its place among the unmapped.
CachingAllocator::Index CachingAllocator::cut_front(Index block, std::int64_t size) {
  const Index index = add_block();
  Block &rest = at(block), &front = at(index);
  front.address = rest.address;
  front.size = size;
  front.previous = rest.previous;
  front.next = block;
  front.pool = rest.pool;
  front.state = rest.state;
  at(rest.previous).next = index;
  rest.previous = index;
  rest.address += size;
  rest.size -= size;
  return index;
}

// The block behind `block`, in no list, becomes part of it.
void CachingAllocator::absorb_next(Index block) {
  const Index next = at(block).next;
  at(block).size += at(next).size;
  at(block).next = at(next).next;
  at(at(next).next).previous = block;
  drop_block(next);
}

// Joins a block with the one in front of it.
void CachingAllocator::absorb_previous(Index block) {
  const Index previous = at(block).previous;
  at(block).address = at(previous).address;
  at(block).size += at(previous).size;
  at(block).previous = at(previous).previous;
  at(at(previous).previous).next = block;
  drop_block(previous);
}

// A free block that is in no ring yet: into one, together with its free neighbours.
void CachingAllocator::settle(Index block) {
  Pool& pool = pool_of(block);
  if (const Index next = at(block).next; is_free(next)) {
    erase_free(pool, next);
    absorb_next(block);
  }
  if (const Index previous = at(block).previous; is_free(previous)) {
    erase_free(pool, previous);
    absorb_previous(block);
  }
  insert_free(pool, block);
}

// ---- Giving memory back ----

// With max_split_size, oversize segments of the pool go first: one that is large enough, else the largest.
bool CachingAllocator::release_oversize(Pool& pool, std::int64_t needed) {
  if (max_split_size_ == kUnlimited || options_.expandable_segments) return false;
  const std::int64_t wanted = std::max(needed, max_split_size_);
  if (const Index enough = best_fit(pool, wanted); enough != kNone) {
    release_segment(pool, enough);
    return true;
  }
  const std::vector<Index> cached = all_free(pool);
  std::int64_t released = 0;
  for (auto block = cached.rbegin(); block != cached.rend() && released < wanted; ++block) {
    const std::int64_t size = at(*block).size;
    if (size < max_split_size_) break;
    release_segment(pool, *block);
    released += size;
  }
  return released >= wanted;
}

void CachingAllocator::release_cached(Pool& pool) {
  for (const Index block : all_free(pool)) {
    if (options_.expandable_segments)
      unmap(pool, block);
    else if (at(block).previous == kNone && at(block).next == kNone)
      release_segment(pool, block);
  }
}

// `block` is a free segment of its own.
void CachingAllocator::release_segment(Pool& pool, Index block) {
  ++device_calls_;
  current_.reserved -= Bytes(at(block).size);
  erase_free(pool, block);
  drop_block(block);
}

// Gives back the whole pages inside a free part of an expandable segment.
void CachingAllocator::unmap(Pool& pool, Index block) {
  const std::int64_t page = page_size(pool.small);
  const std::int64_t begin = at(block).address, end = begin + at(block).size;
  const std::int64_t first = round_to(begin, page), last = end / page * page;
  if (first >= last) return;
  ++device_calls_;
  erase_free(pool, block);
  Index middle = block;
  if (begin < first) insert_free(pool, cut_front(block, first - begin));
  if (last < end) {
    middle = cut_front(block, last - first);
    insert_free(pool, block);
  }
  at(middle).state = State::unmapped;
  join_unmapped(middle);
  current_.reserved -= Bytes(last - first);
  if (at(middle).previous == kNone && at(middle).next == kNone)
    drop_block(middle);  // a segment without memory
  else
    insert_unmapped(middle);
}

// ---- Expandable segments ----

// A free block of at least `size` bytes at the lowest address where one can be made.
CachingAllocator::Index CachingAllocator::expand(std::int32_t pool, std::int64_t size) {
  Index block = place_to_expand(pool, size);
  if (is_unmapped(block)) block = map(block, std::min(size, at(block).size));
  while (block != kNone && at(block).size < size) {
    const Index next = at(block).next;
    block = map(next, std::min(size - at(block).size, at(next).size));
  }
  return block;
}

// Returns a place where free and unmapped stretches in a row are large enough; else a new segment.
CachingAllocator::Index CachingAllocator::place_to_expand(std::int32_t pool, std::int64_t size) {
  for (const Index unmapped : pool_at(pool).unmapped) {
    const Index previous = at(unmapped).previous;
    const Index first = is_free(previous) ? previous : unmapped;
    if (has_room(first, size)) return first;
  }
  return new_address_space(pool);
}

bool CachingAllocator::has_room(Index first, std::int64_t size) const {
  std::int64_t available = 0;
  for (Index block = first; block != kNone && at(block).state != State::in_use; block = at(block).next) {
    available += at(block).size;
    if (available >= size) return true;
  }
  return false;
}

CachingAllocator::Index CachingAllocator::new_address_space(std::int32_t pool) {
  const std::int64_t device = options_.capacity.value_or(Bytes(kEndlessDevice)).value;
  const std::int64_t space = round_to(device + device / 8, page_size(pool_at(pool).small));
  const std::int64_t address =
      round_to(next_address_, kLargeSegment);  // pages start at multiples of their size
  next_address_ = address + space;
  const Index segment = add_block();
  at(segment) = {.address = address, .size = space, .pool = pool, .state = State::unmapped};
  insert_unmapped(segment);
  return segment;
}

// Puts memory, in whole pages, behind the first `size` bytes of an unmapped block; kNone: there is none. They
// join what is free around them.
CachingAllocator::Index CachingAllocator::map(Index block, std::int64_t size) {
  const std::int64_t pages = round_to(size, page_size(pool_of(block).small));
  if (!reserve(pages)) return kNone;
  Index mapped = block;
  if (pages < at(block).size)
    mapped = cut_front(block, pages);  // the rest keeps its place among the unmapped
  else
    erase_unmapped(block);
  at(mapped).state = State::free;
  settle(mapped);
  return mapped;
}

void CachingAllocator::insert_unmapped(Index block) {
  std::vector<Index>& unmapped = pool_of(block).unmapped;
  const auto lower = [this](Index a, Index b) { return at(a).address < at(b).address; };
  unmapped.insert(std::lower_bound(unmapped.begin(), unmapped.end(), block, lower), block);
}

void CachingAllocator::erase_unmapped(Index block) {
  std::vector<Index>& unmapped = pool_of(block).unmapped;
  unmapped.erase(std::find(unmapped.begin(), unmapped.end(), block));
}

// `block`, in no list, together with its unmapped neighbours.
void CachingAllocator::join_unmapped(Index block) {
  if (const Index next = at(block).next; is_unmapped(next)) {
    erase_unmapped(next);
    absorb_next(block);
  }
  if (const Index previous = at(block).previous; is_unmapped(previous)) {
    erase_unmapped(previous);
    absorb_previous(block);
  }
}

// ---- Segments ----

bool CachingAllocator::starts_segment(const Block& block) const {
  if (block.state != State::free && block.state != State::in_use) return false;
  return block.previous == kNone || is_unmapped(block.previous);
}

AllocatorSegment CachingAllocator::segment_from(Index first) const {
  const Pool& pool = pools_[static_cast<std::size_t>(at(first).pool)];
  AllocatorSegment segment{.stream = pool.stream, .small = pool.small, .blocks = {}};
  for (Index block = first; block != kNone && !is_unmapped(block); block = at(block).next)
    segment.blocks.push_back({Bytes(at(block).size), at(block).state == State::in_use});
  return segment;
}

// Returns the first block of each segment, by address.
std::vector<CachingAllocator::Index> CachingAllocator::first_blocks() const {
  std::vector<Index> first;
  for (std::size_t i = 0; i < blocks_.size(); ++i)
    if (starts_segment(blocks_[i])) first.push_back(static_cast<Index>(i));
  std::sort(first.begin(), first.end(), [this](Index a, Index b) { return at(a).address < at(b).address; });
  return first;
}

std::vector<AllocatorSegment> CachingAllocator::segments() const {
  std::vector<AllocatorSegment> segments;
  for (const Index block : first_blocks()) segments.push_back(segment_from(block));
  return segments;
}

std::vector<CachingAllocator::Place> CachingAllocator::segment_places() const {
  std::vector<Place> places;
  for (const Index first : first_blocks()) {
    Place place{at(first).address, 0};
    for (Index block = first; block != kNone && !is_unmapped(block); block = at(block).next)
      place.size += at(block).size;
    places.push_back(place);
  }
  return places;
}

}  // namespace zplan
