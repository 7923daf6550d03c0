// Host memory that offload took in real runs, against the planner's: pageable bytes and pinned blocks.

#include <gtest/gtest.h>

#include "hardware_profiles/cluster.h"
#include "planner/simulation/memory.h"
#include "tests/planner/measured_step.h"

namespace zplan::testing {
namespace {

// Runs counted blocks of 4 MiB and more; in pageable memory only states were left when they were counted.
TEST(HostMemory, EqualsWhatOffloadedRunsHeld) {
  std::size_t rows = 0;
  for (const Json& row : test_json("reference/steps/steps.json")) {
    if (!row.contains("host_bytes")) continue;
    const RankRun run = measured_run(row);
    Bytes pinned{}, pageable{};
    for (const Bytes block : pinned_blocks(run.step()))
      if (block >= kMiB * 4) pinned += block;
    const HostMemory host = host_memory(run.step(), 1);
    pageable = host.total - host.pinned;
    const auto measured = row["host_bytes"]["pinned"].get<std::int64_t>();
    EXPECT_EQ(pinned.value, measured) << row["id"];
    EXPECT_EQ(pageable.value, row["host_bytes"]["pageable"].get<std::int64_t>()) << row["id"];
    ++rows;
  }
  EXPECT_GE(rows, 14U);
}

}  // namespace
}  // namespace zplan::testing
