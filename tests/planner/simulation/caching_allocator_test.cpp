#include "planner/simulation/caching_allocator.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <random>

#include "models/base/error.h"
#include "models/base/json_reader.h"

namespace zplan {
namespace {

using ::testing::ElementsAre;
using Segment = AllocatorSegment;

// ---- What torch did, call by call (tests/reference/caching_allocator/README.md) ----

const std::string kTraces = std::string(ZPLAN_TEST_DATA) + "/reference/caching_allocator";

std::vector<std::string> traces() {
  std::vector<std::string> names;
  for (const auto& file : std::filesystem::directory_iterator(kTraces))
    if (file.path().extension() == ".json") names.push_back(file.path().stem());
  std::sort(names.begin(), names.end());
  return names;
}

Json trace_of(const std::string& name) { return parse_json(read_file(kTraces + "/" + name + ".json"), name); }

Bytes bytes(const Json& json) { return Bytes(json.get<std::int64_t>()); }

AllocatorOptions recorded_options(const Json& options) {
  AllocatorOptions read;
  if (!options["capacity"].is_null()) read.capacity = bytes(options["capacity"]);
  if (!options["max_split_size"].is_null()) read.max_split_size = bytes(options["max_split_size"]);
  read.expandable_segments = options["expandable_segments"].get<bool>();
  return read;
}

// One of index 0: the values at the mark, or 1: the peaks since the last.
AllocatorStatistics recorded_statistics(const Json& step, std::size_t index) {
  return {.requested = bytes(step["requested"][index]),
          .allocated = bytes(step["allocated"][index]),
          .reserved = bytes(step["reserved"][index])};
}

// [stream, pool, size in use, -size free, …]
Segment recorded_segment(const Json& row) {
  Segment segment{.stream = row[0].get<int>(), .small = row[1] == "small", .blocks = {}};
  for (std::size_t i = 2; i < row.size(); ++i) {
    const auto size = row[i].get<std::int64_t>();
    segment.blocks.push_back({Bytes(std::abs(size)), size > 0});
  }
  return segment;
}

// Plays recorded calls; allocations are numbered from 1.
class Player {
 public:
  explicit Player(const AllocatorOptions& options) : allocator(options) {}

  // False where one side ran out of memory and the other did not.
  [[nodiscard]] bool play(const Json& call) {
    if (call.is_string()) {
      allocator.empty_cache();
      return true;
    }
    if (call.is_array()) return allocate(bytes(call[0]), call[1].get<int>(), call.size() == 3);
    const auto number = call.get<std::int64_t>();
    if (number > 0) return allocate(Bytes(number), 0, false);
    allocator.release(handles_[static_cast<std::size_t>(-number - 1)]);
    return true;
  }

  CachingAllocator allocator;

 private:
  [[nodiscard]] bool allocate(Bytes size, int stream, bool out_of_memory) {
    const std::optional<CachingAllocator::Handle> handle = allocator.allocate(size, stream);
    if (handle) handles_.push_back(*handle);
    return handle.has_value() != out_of_memory;
  }

  std::vector<CachingAllocator::Handle> handles_;
};

void expect_as_recorded(const CachingAllocator& allocator, const Json& step) {
  EXPECT_EQ(allocator.current(), recorded_statistics(step, 0));
  EXPECT_EQ(allocator.peak(), recorded_statistics(step, 1));
  EXPECT_EQ(allocator.retries(), step["retries"].get<std::int64_t>());
  // One figure covers both.
  EXPECT_EQ(step["active"], step["allocated"]);
  if (!step.contains("segments")) return;
  std::vector<Segment> segments;
  for (const Json& row : step["segments"]) segments.push_back(recorded_segment(row));
  EXPECT_TRUE(allocator.segments() == segments);
}

class RecordedAllocations : public ::testing::TestWithParam<std::string> {};

TEST_P(RecordedAllocations, AreServedAsTorchServedThem) {
  const Json trace = trace_of(GetParam());
  Player player(recorded_options(trace["options"]));
  for (const Json& step : trace["steps"]) {
    SCOPED_TRACE(step["mark"].get<std::string>());
    std::size_t number = 0;
    for (const Json& call : step["calls"]) {
      ASSERT_TRUE(player.play(call)) << "call " << number << ": " << call;
      ++number;
    }
    expect_as_recorded(player.allocator, step);
    player.allocator.reset_peak();
  }
}

INSTANTIATE_TEST_SUITE_P(Torch, RecordedAllocations, ::testing::ValuesIn(traces()),
                         [](const auto& trace) { return trace.param; });

// ---- Rule by rule ----

constexpr Bytes kSmall = kMiB * 2, kLarge = kMiB * 20;

CachingAllocator::Handle take(CachingAllocator& allocator, Bytes size, int stream = 0) {
  const std::optional<CachingAllocator::Handle> handle = allocator.allocate(size, stream);
  EXPECT_TRUE(handle.has_value()) << size.value << " B";
  return handle.value_or(CachingAllocator::kNoMemory);
}

// Returns the bytes that a first allocation of `size` reserves.
Bytes reserved_for(Bytes size, const AllocatorOptions& options = {}) {
  CachingAllocator allocator(options);
  take(allocator, size);
  return allocator.current().reserved;
}

TEST(CachingAllocator, RoundsTo512BytesAndCountsWhatWasAskedFor) {
  CachingAllocator allocator;
  take(allocator, Bytes(1));
  take(allocator, Bytes(513));
  EXPECT_EQ(allocator.current(), (AllocatorStatistics{Bytes(514), Bytes(512 + 1024), kSmall}));
}

TEST(CachingAllocator, TakesSegmentsByTheSizeOfTheAllocation) {
  EXPECT_EQ(reserved_for(Bytes(1)), kSmall);
  EXPECT_EQ(reserved_for(kMiB), kSmall);
  EXPECT_EQ(reserved_for(kMiB + Bytes(1)), kLarge);
  EXPECT_EQ(reserved_for(kMiB * 10 - Bytes(512)), kLarge);
  EXPECT_EQ(reserved_for(kMiB * 10 - Bytes(511)), kMiB * 10);
  EXPECT_EQ(reserved_for(kMiB * 10 + Bytes(1)), kMiB * 12);
  EXPECT_EQ(reserved_for(kGiB * 3 + kMiB), kGiB * 3 + kMiB * 2);
}

TEST(CachingAllocator, SmallBlocksAreSplitToTheLast512Bytes) {
  CachingAllocator allocator;
  take(allocator, kMiB);
  take(allocator, kMiB - Bytes(512));
  take(allocator, Bytes(1));
  EXPECT_EQ(allocator.current().reserved, kSmall);
  EXPECT_EQ(allocator.current().allocated, kSmall);
}

TEST(CachingAllocator, LargeBlocksKeepARestOfUpToOneMiB) {
  CachingAllocator allocator;
  take(allocator, kMiB * 11);
  EXPECT_EQ(allocator.current().allocated, kMiB * 12);
  take(allocator, kMiB * 13 - Bytes(512));
  EXPECT_THAT(allocator.segments().back().blocks,
              ElementsAre(Segment::Block{kMiB * 13 - Bytes(512), true}, Segment::Block{kMiB + Bytes(512)}));
}

TEST(CachingAllocator, SmallAllocationsNeverUseLargeBlocks) {
  CachingAllocator allocator;
  take(allocator, kMiB * 2);
  take(allocator, kMiB);
  EXPECT_EQ(allocator.current().reserved, kLarge + kSmall);
}

TEST(CachingAllocator, TakesTheBestFitAndOfEqualsTheLowestAddress) {
  CachingAllocator allocator;
  const auto wide = take(allocator, kMiB * 30);
  const auto first = take(allocator, kMiB * 12), second = take(allocator, kMiB * 12);
  allocator.release(wide);
  allocator.release(second);
  allocator.release(first);
  take(allocator, kMiB * 12);
  const auto segments = allocator.segments();
  ASSERT_EQ(segments.size(), 3U);
  EXPECT_FALSE(segments[0].blocks[0].in_use);
  EXPECT_TRUE(segments[1].blocks[0].in_use);
  EXPECT_FALSE(segments[2].blocks[0].in_use);
}

// Sizes within 3 % share a class: the first of its blocks may be too small, and so may all.
TEST(CachingAllocator, FindsTheBestFitAmongNearlyEqualSizes) {
  CachingAllocator allocator;
  std::vector<CachingAllocator::Handle> held;
  for (const int mib : {258, 256, 262, 260}) held.push_back(take(allocator, kMiB * mib));
  for (const auto handle : held) allocator.release(handle);
  const Bytes reserved = allocator.current().reserved;
  take(allocator, kMiB * 259);
  EXPECT_EQ(allocator.current().allocated, kMiB * 260);
  take(allocator, kMiB * 261);
  EXPECT_EQ(allocator.current().allocated, kMiB * (260 + 262));
  take(allocator, kMiB * 261);
  EXPECT_EQ(allocator.current().reserved, reserved + kMiB * 262);
}

TEST(CachingAllocator, JoinsFreeNeighbours) {
  CachingAllocator allocator;
  const auto left = take(allocator, kMiB * 5), middle = take(allocator, kMiB * 5);
  const auto right = take(allocator, kMiB * 5);
  allocator.release(left);
  allocator.release(right);
  EXPECT_THAT(
      allocator.segments().front().blocks,
      ElementsAre(Segment::Block{kMiB * 5}, Segment::Block{kMiB * 5, true}, Segment::Block{kMiB * 10}));
  allocator.release(middle);
  EXPECT_THAT(allocator.segments().front().blocks, ElementsAre(Segment::Block{kLarge}));
}

TEST(CachingAllocator, StreamsShareNothing) {
  CachingAllocator allocator;
  allocator.release(take(allocator, kMiB * 5, 0));
  const auto other = take(allocator, kMiB * 5, 2);
  EXPECT_EQ(allocator.current().reserved, kLarge * 2);
  allocator.release(other);
  take(allocator, kMiB * 20, 2);
  EXPECT_EQ(allocator.current().reserved, kLarge * 2);
  EXPECT_EQ(allocator.segments().back().stream, 2);
}

TEST(CachingAllocator, NothingIsHandedOutForZeroBytes) {
  CachingAllocator allocator({.capacity = Bytes(0)});
  const auto nothing = allocator.allocate(Bytes(0));
  EXPECT_EQ(nothing, CachingAllocator::kNoMemory);
  allocator.release(*nothing);
  EXPECT_EQ(allocator.current(), AllocatorStatistics{});
  EXPECT_EQ(allocator.allocate(Bytes(1)), std::nullopt);
}

TEST(CachingAllocator, HandlesAreUsedAgain) {
  CachingAllocator allocator;
  CachingAllocator::Handle highest = 0;
  for (int i = 0; i < 1000; ++i) {
    const auto a = take(allocator, kMiB * (1 + i % 40)), b = take(allocator, kMiB);
    highest = std::max({highest, a, b});
    allocator.release(a);
    allocator.release(b);
  }
  EXPECT_LT(highest, 50);
}

TEST(CachingAllocator, ACopyIsAnAllocatorOfItsOwn) {
  CachingAllocator allocator;
  const auto handle = take(allocator, kMiB * 30);
  CachingAllocator copy = allocator;
  copy.release(handle);
  copy.empty_cache();
  EXPECT_EQ(copy.current().reserved, Bytes(0));
  EXPECT_EQ(allocator.current().reserved, kMiB * 30);
}

TEST(CachingAllocator, PeaksAreKeptUntilReset) {
  CachingAllocator allocator;
  allocator.release(take(allocator, kMiB * 31 - Bytes(1)));
  take(allocator, Bytes(100));
  EXPECT_EQ(allocator.peak(), (AllocatorStatistics{kMiB * 31 - Bytes(1), kMiB * 32, kMiB * 32 + kSmall}));
  allocator.reset_peak();
  EXPECT_EQ(allocator.peak(), (AllocatorStatistics{Bytes(100), Bytes(512), kMiB * 32 + kSmall}));
}

TEST(CachingAllocator, OnlyWhollyFreeSegmentsAreGivenBack) {
  CachingAllocator allocator;
  const auto shared = take(allocator, kMiB * 4);
  allocator.release(take(allocator, kMiB * 4));
  allocator.release(take(allocator, kMiB * 30));
  allocator.release(take(allocator, Bytes(1), 1));
  allocator.empty_cache();
  EXPECT_EQ(allocator.current().reserved, kLarge);
  allocator.release(shared);
  allocator.empty_cache();
  EXPECT_EQ(allocator.current().reserved, Bytes(0));
  EXPECT_TRUE(allocator.segments().empty());
}

TEST(CachingAllocator, UnderPressureGivesBackTheCacheAndTriesAgain) {
  CachingAllocator allocator({.capacity = kMiB * 64});
  allocator.release(take(allocator, kMiB * 40));
  take(allocator, kMiB * 24, 1);
  EXPECT_EQ(allocator.retries(), 0);
  take(allocator, kMiB * 40, 1);
  EXPECT_EQ(allocator.retries(), 1);
  EXPECT_EQ(allocator.current().reserved, kMiB * 64);
}

TEST(CachingAllocator, OutOfMemoryLeavesAllElseAsItWas) {
  CachingAllocator allocator({.capacity = kMiB * 64});
  const auto shared = take(allocator, kMiB * 4);
  take(allocator, kMiB * 30);
  // 14 MiB are left, and 16 MiB free in a segment of which 4 MiB are in use.
  EXPECT_EQ(allocator.allocate(kMiB * 18), std::nullopt);
  EXPECT_EQ(allocator.current(), (AllocatorStatistics{kMiB * 34, kMiB * 34, kMiB * 50}));
  EXPECT_EQ(allocator.retries(), 1);
  take(allocator, kMiB * 16);
  EXPECT_EQ(allocator.current().reserved, kMiB * 50);
  allocator.release(shared);
}

TEST(CachingAllocator, MaxSplitSizeIsAtLeast20MiB) {
  EXPECT_THROW(CachingAllocator({.max_split_size = kMiB * 20 - Bytes(1)}), InputError);
  EXPECT_NO_THROW(CachingAllocator({.max_split_size = kMiB * 20}));
}

TEST(CachingAllocator, OversizeBlocksAreNeitherSplitNorLentToSmallerAllocations) {
  CachingAllocator allocator({.max_split_size = kMiB * 32});
  allocator.release(take(allocator, kMiB * 64));
  take(allocator, kMiB * 30);
  EXPECT_EQ(allocator.current().reserved, kMiB * 94);
  // Within 20 MiB of its size an oversize allocation takes the block whole; one smaller by 20 MiB does not.
  take(allocator, kMiB * 44);
  EXPECT_EQ(allocator.current().reserved, kMiB * 138);
  take(allocator, kMiB * 44 + Bytes(1));
  EXPECT_EQ(allocator.current().reserved, kMiB * 138);
  EXPECT_EQ(allocator.current().allocated, kMiB * 138);
}

TEST(CachingAllocator, UnderPressureTheLargestOversizeBlocksGoFirst) {
  const auto reserved_after = [](Bytes needed) {
    CachingAllocator allocator({.capacity = kMiB * 130, .max_split_size = kMiB * 20});
    std::vector<CachingAllocator::Handle> held;
    for (const int mib : {18, 20, 60, 30}) held.push_back(take(allocator, kMiB * mib));
    for (const auto handle : held) allocator.release(handle);
    take(allocator, needed);
    EXPECT_EQ(allocator.retries(), 0);
    EXPECT_EQ(allocator.segments().front().blocks.front(), Segment::Block{kMiB * 18});
    return allocator.current().reserved;
  };
  EXPECT_EQ(reserved_after(kMiB * 84), kMiB * (18 + 20 + 84));
  EXPECT_EQ(reserved_after(kMiB * 104), kMiB * (18 + 104));
}

TEST(CachingAllocator, UnderPressureTheSmallestOversizeBlockGoesThatIsEnough) {
  CachingAllocator allocator({.capacity = kMiB * 128, .max_split_size = kMiB * 20});
  const auto small = take(allocator, kMiB * 24), large = take(allocator, kMiB * 60);
  const auto larger = take(allocator, kMiB * 40);
  for (const auto handle : {small, large, larger}) allocator.release(handle);
  take(allocator, kMiB * 18);  // 4 MiB are left
  EXPECT_EQ(allocator.retries(), 0);
  EXPECT_EQ(allocator.current().reserved, kMiB * (18 + 60 + 40));
}

// ---- Expandable segments ----

const AllocatorOptions kExpandable{.expandable_segments = true};

TEST(ExpandableSegments, GrowByPagesOfThePool) {
  EXPECT_EQ(reserved_for(Bytes(1), kExpandable), kSmall);
  EXPECT_EQ(reserved_for(kMiB * 2, kExpandable), kLarge);
  EXPECT_EQ(reserved_for(kMiB * 21, kExpandable), kLarge * 2);
}

TEST(ExpandableSegments, AreOneForEachStreamAndPool) {
  CachingAllocator allocator(kExpandable);
  for (int i = 0; i < 4; ++i) take(allocator, kMiB * 15);
  take(allocator, kMiB * 15, 1);
  take(allocator, Bytes(1));
  const auto segments = allocator.segments();
  ASSERT_EQ(segments.size(), 3U);
  EXPECT_EQ(segments[0].blocks, std::vector<Segment::Block>(4, {kMiB * 15, true}));
  EXPECT_EQ(allocator.current().reserved, kMiB * 60 + kLarge + kSmall);
}

TEST(ExpandableSegments, AreSplitToTheLast512Bytes) {
  CachingAllocator allocator(kExpandable);
  take(allocator, kMiB * 20 - Bytes(512));
  take(allocator, kMiB * 20 + Bytes(512));
  EXPECT_EQ(allocator.current().reserved, kMiB * 40);
  EXPECT_EQ(allocator.current().allocated, kMiB * 40);
}

// The last hole counts with all the space after it: a hole that is large enough is used, though it fits
// worse.
TEST(ExpandableSegments, FillHolesBeforeTheirEnd) {
  CachingAllocator allocator(kExpandable);
  const auto hole = take(allocator, kMiB * 12);
  take(allocator, kMiB * 22);  // leaves 6 MiB at the end
  allocator.release(hole);
  take(allocator, kMiB * 5);
  EXPECT_THAT(allocator.segments().front().blocks,
              ElementsAre(Segment::Block{kMiB * 5, true}, Segment::Block{kMiB * 7},
                          Segment::Block{kMiB * 22, true}, Segment::Block{kMiB * 6}));
}

TEST(ExpandableSegments, GiveBackThePagesInsideFreeBlocks) {
  CachingAllocator allocator(kExpandable);
  take(allocator, kMiB * 10);
  const auto wide = take(allocator, kMiB * 50);
  take(allocator, kMiB * 10);
  allocator.release(wide);
  allocator.empty_cache();  // of 10 to 60 MiB the page from 20 and the page from 40
  EXPECT_EQ(allocator.current().reserved, kMiB * 40);
  EXPECT_THAT(allocator.segments(), ElementsAre(Segment{0, false, {{kMiB * 10, true}, {kMiB * 10}}},
                                                Segment{0, false, {{kMiB * 10, true}, {kMiB * 10}}}));
  // Space that was given back is filled again, from the free part before it to the one after.
  take(allocator, kMiB * 20);
  take(allocator, kMiB * 30);
  EXPECT_THAT(allocator.segments().front().blocks,
              ElementsAre(Segment::Block{kMiB * 10, true}, Segment::Block{kMiB * 20, true},
                          Segment::Block{kMiB * 30, true}, Segment::Block{kMiB * 10, true},
                          Segment::Block{kMiB * 10}));
  EXPECT_EQ(allocator.current().reserved, kMiB * 80);
}

TEST(ExpandableSegments, EndWithTheirLastPage) {
  CachingAllocator allocator(kExpandable);
  allocator.release(take(allocator, kMiB * 50));
  allocator.empty_cache();
  EXPECT_EQ(allocator.current().reserved, Bytes(0));
  EXPECT_TRUE(allocator.segments().empty());
  take(allocator, kMiB * 50);
  EXPECT_EQ(allocator.current().reserved, kMiB * 60);
}

// Eager attention over long samples wants scores of many terabytes: a plan says so, on a device without
// limit.
TEST(ExpandableSegments, HoldBlocksOfAnySizeWithoutALimit) {
  CachingAllocator allocator(kExpandable);
  const auto block = allocator.allocate(kGiB * 100'000);
  ASSERT_TRUE(block);
  EXPECT_GE(allocator.current().reserved, kGiB * 100'000);
  allocator.release(*block);
  allocator.empty_cache();
  EXPECT_EQ(allocator.current().reserved, Bytes(0));
}

TEST(ExpandableSegments, RunOnASmallerDevice) {
  const auto last = [](bool expandable) {
    CachingAllocator allocator({.capacity = kMiB * 100, .expandable_segments = expandable});
    allocator.release(take(allocator, kMiB * 60));
    take(allocator, kMiB * 30);
    return allocator.allocate(kMiB * 60);  // 30 MiB of a segment that is in use are free
  };
  EXPECT_EQ(last(false), std::nullopt);
  EXPECT_NE(last(true), std::nullopt);
}

TEST(ExpandableSegments, OutOfMemoryLeavesAllElseAsItWas) {
  CachingAllocator allocator({.capacity = kMiB * 100, .expandable_segments = true});
  take(allocator, kMiB * 30);
  EXPECT_EQ(allocator.allocate(kMiB * 80), std::nullopt);
  EXPECT_EQ(allocator.current(), (AllocatorStatistics{kMiB * 30, kMiB * 30, kMiB * 40}));
  EXPECT_EQ(allocator.retries(), 1);
  take(allocator, kMiB * 70);
  EXPECT_EQ(allocator.current().reserved, kMiB * 100);
}

// ---- Arbitrary requests ----

void expect_sound(const CachingAllocator& allocator) {
  Bytes reserved{}, in_use{};
  for (const Segment& segment : allocator.segments()) {
    bool before_free = false;
    for (const Segment::Block& block : segment.blocks) {
      reserved += block.size;
      if (block.in_use) in_use += block.size;
      EXPECT_FALSE(before_free && !block.in_use) << "free neighbours were not joined";
      before_free = !block.in_use;
    }
  }
  EXPECT_EQ(reserved, allocator.current().reserved);
  EXPECT_EQ(in_use, allocator.current().allocated);
}

class AnyAllocations : public ::testing::TestWithParam<AllocatorOptions> {};

TEST_P(AnyAllocations, AddUp) {
  CachingAllocator allocator(GetParam());
  std::mt19937_64 random(1);
  std::vector<CachingAllocator::Handle> held;
  for (int i = 0; i < 4000; ++i) {
    const auto size = static_cast<std::int64_t>(random() >> (27 + random() % 37));  // to 128 GiB
    const auto handle = allocator.allocate(Bytes(size), static_cast<int>(random() % 3));
    if (handle) held.push_back(*handle);
    while (!held.empty() && random() % 100 < held.size()) {
      std::swap(held[random() % held.size()], held.back());
      allocator.release(held.back());
      held.pop_back();
    }
    if (i % 200 == 0) expect_sound(allocator);
  }
  for (const auto handle : held) allocator.release(handle);
  EXPECT_EQ(allocator.current().requested, Bytes(0));
  EXPECT_EQ(allocator.current().allocated, Bytes(0));
  allocator.empty_cache();
  EXPECT_EQ(allocator.current().reserved, Bytes(0));
}

// A device without limit holds less than 4 PiB: free blocks are told apart up to 8 PiB.
TEST(CachingAllocator, RefusesWhatNoDeviceHolds) {
  constexpr Bytes kPebibyte{std::int64_t{1} << 50};
  for (const bool expandable : {false, true}) {
    CachingAllocator allocator({.expandable_segments = expandable});
    const auto held = allocator.allocate(kPebibyte * 3);
    ASSERT_TRUE(held);
    EXPECT_THROW(static_cast<void>(allocator.allocate(kPebibyte)), InputError);
    allocator.release(*held);
    EXPECT_THROW(static_cast<void>(allocator.allocate(kPebibyte * 16)), InputError);
  }
  CachingAllocator limited({.capacity = kGiB * 80});
  EXPECT_FALSE(limited.allocate(kPebibyte * 16)) << "out of memory, as on any device";
}

INSTANTIATE_TEST_SUITE_P(
    Options, AnyAllocations,
    ::testing::Values(AllocatorOptions{}, AllocatorOptions{.capacity = kGiB * 300},
                      AllocatorOptions{.capacity = kGiB * 300, .max_split_size = kMiB * 200},
                      AllocatorOptions{.capacity = kGiB * 300, .expandable_segments = true}, kExpandable));

}  // namespace
}  // namespace zplan
