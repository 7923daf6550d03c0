// Compares the allocations and frees of record_tape, event by event, with the requests to PyTorch's
// allocator.

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <string>
#include <vector>

#include "models/base/json_reader.h"
#include "planner/model_trace/play.h"
#include "tests/planner/model_trace/recorded_step.h"

namespace zplan::testing {
namespace {

/// Sizes in order: made positive, freed negative. Python frees the locals of a function in no order that a
/// program could mean anything by: a run of frees is a set.
using Events = std::vector<std::int64_t>;

Events normalised(Events events) {
  const auto is_free = [](std::int64_t each) { return each < 0; };
  for (auto at = events.begin(); at != events.end();) {
    const auto first = std::find_if(at, events.end(), is_free);
    at = std::find_if_not(first, events.end(), is_free);
    std::sort(first, at);
  }
  return events;
}

class EventList {
 public:
  explicit EventList(std::int32_t blocks) : sizes_(static_cast<std::size_t>(blocks)) {}

  void section(int, bool) {}
  void allocate(std::int32_t block, Term, Bytes size) { events.push_back(at(block) = size.value); }
  void release(std::int32_t block) { events.push_back(-at(block)); }
  void part_of_gradient(int, std::int32_t, std::int32_t) {}
  void gradient(int, std::int32_t, std::int32_t) {}
  void module(const Event&, int) {}
  void workspace(std::int32_t) {}
  void phase(Phase) {}

  Events events;

 private:
  std::int64_t& at(std::int32_t block) { return sizes_[static_cast<std::size_t>(block)]; }
  Events sizes_;
};

Events unsorted(const Json& row) {
  const Tape tape = tape_of(row);
  const TapeLayout layout(tape);
  EventList list(layout.blocks());
  play(tape, layout, list);
  return std::move(list.events);
}

Events recorded(const Json& row) { return normalised(unsorted(row)); }

Json recorded_case(const std::string& name) {
  return parse_json(read_file(ZPLAN_TEST_DATA "/reference/tape/" + name + ".json"), name);
}

/// The events around number `at`.
std::string excerpt(const Events& events, std::size_t at) {
  std::string text;
  for (std::size_t i = at < 8 ? 0 : at - 8; i < std::min(at + 8, events.size()); ++i)
    text += (i == at ? " >" : " ") + std::to_string(events[i]);
  return text;
}

class TapeEvents : public ::testing::TestWithParam<std::string> {};

TEST_P(TapeEvents, AreThoseOfPyTorchsAllocator) {
  const Json row = recorded_case(GetParam());
  const Events expected = normalised(row["events"].get<Events>());
  const Events actual = recorded(row);
  ASSERT_FALSE(expected.empty());
  const auto [ours, theirs] = std::mismatch(actual.begin(), actual.end(), expected.begin(), expected.end());
  const auto first = static_cast<std::size_t>(ours - actual.begin());
  EXPECT_TRUE(ours == actual.end() && theirs == expected.end())
      << actual.size() << " events of " << expected.size()
      << " recorded ones; the first difference is number " << first
      << "\n  ours:    " << excerpt(actual, first) << "\n  PyTorch: " << excerpt(expected, first);
}

/// DoRA makes and frees magnitudes, norms and their gradients, a number a row, in another order.
class DoraEvents : public ::testing::TestWithParam<std::string> {};

/// Most that is there at once.
std::int64_t peak(const Events& events) {
  std::int64_t live = 0, most = 0;
  for (const std::int64_t each : events) most = std::max(most, live += each);
  return most;
}

TEST_P(DoraEvents, PeakAsThoseOfPyTorchsAllocator) {
  const Json row = recorded_case("dora/" + GetParam());
  const Events expected = row["events"].get<Events>();
  const auto measured = static_cast<double>(peak(expected));
  EXPECT_NEAR(static_cast<double>(peak(unsorted(row))), measured, 0.005 * measured);
}

std::vector<std::string> tape_cases(const std::string& folder = "") {
  std::vector<std::string> names;
  for (const auto& each : std::filesystem::directory_iterator(ZPLAN_TEST_DATA "/reference/tape" + folder))
    if (each.path().extension() == ".json") names.push_back(each.path().stem().string());
  std::sort(names.begin(), names.end());
  return names;
}

INSTANTIATE_TEST_SUITE_P(Recorded, TapeEvents, ::testing::ValuesIn(tape_cases()),
                         [](const auto& each) { return each.param; });
INSTANTIATE_TEST_SUITE_P(Recorded, DoraEvents, ::testing::ValuesIn(tape_cases("/dora")),
                         [](const auto& each) { return each.param; });

}  // namespace
}  // namespace zplan::testing
