// Ids as text, and who is where among the ranks of a colour.

#include "harness/nccl/unique_id.h"

#include <gtest/gtest.h>

#include <cstring>

#include "fake_ranks.h"
#include "harness/error.h"

namespace zplan::bench {
namespace {

TEST(UniqueId, IsTheSameAfterItWentAsText) {
  const Nccl nccl = load_nccl(fake_places());
  const std::string text = new_unique_id(nccl, "rank 0");
  EXPECT_EQ(text.find_first_not_of("0123456789abcdef"), std::string::npos);
  const ncclUniqueId id = unique_id_in(text);
  EXPECT_LT(id.internal[100], 0);  // bytes above 0x7f come through
  EXPECT_NE(text, new_unique_id(nccl, "rank 0"));
}

TEST(UniqueId, ThatIsNoneIsRefused) {
  EXPECT_THROW(static_cast<void>(unique_id_in("")), BenchError);
  EXPECT_THROW(static_cast<void>(unique_id_in(std::string(256, 'x'))), BenchError);
}

TEST(Part, IsOfOneColorInTheOrderOfTheKey) {
  const std::vector<std::string> all{"7 3", "1 0", "7 -1", "7 3"};
  EXPECT_EQ(part_of(all, 0), (Part{.rank = 1, .size = 3, .first = 2}));
  EXPECT_EQ(part_of(all, 1), (Part{.rank = 0, .size = 1, .first = 1}));
  EXPECT_EQ(part_of(all, 2), (Part{.rank = 0, .size = 3, .first = 2}));
  EXPECT_EQ(part_of(all, 3), (Part{.rank = 2, .size = 3, .first = 2}));
}

}  // namespace
}  // namespace zplan::bench
