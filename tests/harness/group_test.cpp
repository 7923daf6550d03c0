#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "harness/work.h"
#include "models/base/error.h"

namespace zplan::bench {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

std::vector<int> of(const Groups& groups, int ranks, int rank) {
  return members(groups, ranks, rank, "--groups");
}

TEST(Groups, AreLaidOutAsTrainingLaysThemOut) {
  const Groups tensor{.kind = GroupKind::tensor, .size = 2, .tensor = 2};
  EXPECT_THAT(of(tensor, 8, 5), ElementsAre(4, 5));
  const Groups data{.kind = GroupKind::data, .size = 4, .tensor = 2};
  EXPECT_THAT(of(data, 8, 5), ElementsAre(1, 3, 5, 7));
  // Hierarchical partitions: neighbours of the data-parallel group, and those at the same place of each.
  EXPECT_THAT(of({.kind = GroupKind::data, .size = 2, .tensor = 1}, 8, 5), ElementsAre(4, 5));
  EXPECT_THAT(of({.kind = GroupKind::data, .size = 4, .stride = 2, .tensor = 1}, 8, 5),
              ElementsAre(1, 3, 5, 7));
  EXPECT_THAT(of({.kind = GroupKind::data, .size = 2, .stride = 2, .tensor = 2}, 8, 5), ElementsAre(1, 5));
}

TEST(Groups, ShareOutEveryRankOnce) {
  for (const Groups& groups : {Groups{.kind = GroupKind::world, .size = 24},
                               Groups{.kind = GroupKind::tensor, .size = 4, .tensor = 4},
                               Groups{.kind = GroupKind::data, .size = 6, .tensor = 4},
                               Groups{.kind = GroupKind::data, .size = 3, .stride = 2, .tensor = 4},
                               Groups{.kind = GroupKind::data, .size = 4, .stride = 3, .tensor = 2}}) {
    std::set<std::vector<int>> all;
    for (int rank = 0; rank < 24; ++rank) {
      const std::vector<int> group = of(groups, 24, rank);
      EXPECT_THAT(group, testing::Contains(rank)) << name_of(groups);
      EXPECT_EQ(group, of(groups, 24, group.front()));
      all.insert(group);
    }
    EXPECT_EQ(all.size(), static_cast<std::size_t>(at_once(groups, 24))) << name_of(groups);
  }
}

TEST(Groups, ThatDoNotShareOutAllRanksAreRefused) {
  for (const Groups& groups : {Groups{.kind = GroupKind::tensor, .size = 3, .tensor = 3},
                               Groups{.kind = GroupKind::tensor, .size = 2, .tensor = 4},
                               Groups{.kind = GroupKind::data, .size = 3, .tensor = 2},
                               Groups{.kind = GroupKind::data, .size = 4, .stride = 2, .tensor = 2},
                               Groups{.kind = GroupKind::world, .size = 4}}) {
    try {
      (void)of(groups, 8, 0);
      ADD_FAILURE() << name_of(groups);
    } catch (const InputError& error) {
      EXPECT_EQ(error.place(), "--groups");
      EXPECT_THAT(error.found(), HasSubstr("8 ranks"));
    }
  }
}

}  // namespace
}  // namespace zplan::bench
