// Recorded memory snapshots beside the predicted ones; pickles.

#include "planner/check/memory_snapshot.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <nlohmann/json.hpp>

#include "planner/check/readers/pickle.h"
#include "planner/check/readers/read.h"
#include "tests/check/support.h"

namespace zplan::check::testing {
namespace {

using ::testing::HasSubstr;

std::string folder() { return std::string(ZPLAN_TEST_DATA) + "/check/snapshots/"; }

/// Runs that were recorded, and the peaks that their allocator counted.
std::vector<Case> recorded() {
  const std::string path = folder() + "rows.json";
  const Json rows = parse_json(read_file(path), path);
  std::vector<Case> runs;
  for (Case& each : read_step_rows(JsonReader(rows, path)))
    if (std::holds_alternative<MeasuredMemory>(each.measured)) runs.push_back(std::move(each));
  return runs;
}

MemorySnapshot snapshot_of(const std::string& name) {
  const std::string path = folder() + name + ".pickle";
  const Json json = read_pickle(read_file(path), path);
  return memory_snapshot(JsonReader(json, path));
}

constexpr std::int64_t kLeftOver = 12 * 1024;

class Snapshots : public ::testing::TestWithParam<Case> {};

TEST_P(Snapshots, HaveThePhasesThatArePredicted) {
  const SnapshotDifference difference = compare_snapshot(snapshot_of(GetParam().id), *GetParam().setup);
  ASSERT_EQ(difference.note, "");
  ASSERT_EQ(difference.phases.size(), 4U);
  const SnapshotPhase* largest = difference.largest();
  ASSERT_NE(largest, nullptr);
  for (const SnapshotPhase& each : difference.phases) {
    EXPECT_GT(each.measured, Bytes{}) << each.name;
    // Scalars of losses and norms; the recording script keeps a step's token ids (8 KiB) until the next has
    // its.
    EXPECT_LE(std::abs(each.difference().value), kLeftOver) << each.name;
  }
  RecordProperty("largest", largest->name);
}

INSTANTIATE_TEST_SUITE_P(All, Snapshots, ::testing::ValuesIn(recorded()),
                         [](const auto& each) { return each.param.id; });

TEST(SnapshotDifferences, CoverTenRuns) { EXPECT_EQ(recorded().size(), 10U); }

/// A plan of another run is told apart, with the blocks that it lacks.
TEST(SnapshotDifferences, NameWhatAnotherPlanHasNot) {
  const std::vector<Case> runs = recorded();
  const auto named = [&](std::string_view id) {
    return *std::ranges::find_if(runs, [&](const Case& each) { return each.id == id; });
  };
  check::Setup other = *named("z2").setup;
  other.training.sequence_length /= 2;
  const SnapshotDifference difference = compare_snapshot(snapshot_of("z2"), other);
  ASSERT_NE(difference.largest(), nullptr);
  EXPECT_EQ(difference.largest()->name, "forward and loss");
  EXPECT_LT(difference.largest()->difference(), Bytes{});
  ASSERT_FALSE(difference.blocks.empty());
  EXPECT_GE(difference.blocks.front().total(), difference.blocks.back().total());
  // The logits of the loss, in fp32: 1024 tokens recorded, 512 predicted.
  EXPECT_EQ(difference.blocks.front().size, Bytes(1024LL * 151'936 * 4));
  EXPECT_TRUE(difference.blocks.front().is_measured);
}

TEST(SnapshotDifferences, NeedStacks) {
  MemorySnapshot snapshot = snapshot_of("z2");
  for (std::vector<StackFrame>& each : snapshot.stacks) each.clear();
  EXPECT_THAT(compare_snapshot(snapshot, *recorded().front().setup).note, HasSubstr("no Python stacks"));
}

TEST(SnapshotDifferences, NeedAWholeStep) {
  MemorySnapshot snapshot = snapshot_of("z2");
  snapshot.events.resize(snapshot.events.size() / 2);
  EXPECT_THAT(compare_snapshot(snapshot, *recorded().front().setup).note,
              HasSubstr("no whole optimizer step"));
}

TEST(MemorySnapshots, AreRecognisedAsPickles) {
  const Document document = recognised(read_file(folder() + "z2.pickle"), "z2.pickle");
  EXPECT_EQ(document.format, Format::memory_snapshot);
}

/// protocol 2: {"a": [1, -2, 70000, 2**40, None, True, 0.5, "é"], "frames": shared list, twice}
std::string small_pickle() {
  using namespace std::string_literals;
  return "\x80\x02}(X\x01\x00\x00\x00"
         "a](K\x01J\xfe\xff\xff\xffJ\x70\x11\x01\x00\x8a\x06\x00\x00\x00\x00\x00\x01N\x88"
         "G\x3f\xe0\x00\x00\x00\x00\x00\x00X\x02\x00\x00\x00\xc3\xa9"
         "e"
         "X\x01\x00\x00\x00"
         "b}(X\x06\x00\x00\x00"
         "framesq\x00](K\x07"
         "eq\x01u"
         "X\x01\x00\x00\x00"
         "c}(h\x00h\x01uu."s;
}

TEST(Pickles, AreValues) {
  const Json json = read_pickle(small_pickle(), "file");
  EXPECT_EQ(json["a"], Json({1, -2, 70000, std::int64_t{1} << 40, nullptr, true, 0.5, "é"}));
  EXPECT_EQ(json["b"]["frames"], 0);
  EXPECT_EQ(json["c"]["frames"], 0);
  EXPECT_EQ(json["stacks"], Json::array({Json::array({7})}));
}

TEST(Pickles, ThatAreCutOffOrRunCodeAreRefused) {
  const std::string whole = small_pickle();
  for (std::size_t size = 3; size + 1 < whole.size(); ++size)
    EXPECT_THROW((void)read_pickle(whole.substr(0, size), "file"), InputError) << size;
  const std::string runs(
      "\x80\x02"
      "cos\nsystem\n.",
      14);
  try {
    (void)read_pickle(runs, "run.pickle");
    FAIL();
  } catch (const InputError& error) {
    EXPECT_STREQ(error.what(),
                 "run.pickle: a pickle of other objects (opcode 0x63 at byte 2); accepted: what "
                 "torch.cuda.memory._dump_snapshot() wrote");
  }
}

/// Every byte of a pickle may be wrong: that is an error, never more.
TEST(Pickles, WithOneWrongByteAreRefusedOrRead) {
  const std::string whole = small_pickle();
  for (std::size_t at = 0; at < whole.size(); ++at)
    for (const char wrong : {'\x00', '\x80', '(', 'e', 'u', 'h', '.', '\xff'}) {
      std::string file = whole;
      file[at] = wrong;
      try {
        (void)read_pickle(file, "file");
      } catch (const InputError&) {
        continue;
      }
    }
}

}  // namespace
}  // namespace zplan::check::testing
