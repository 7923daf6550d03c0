// Host memory that offload took in real runs, against the planner's: pageable bytes and pinned blocks.

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "hardware_profiles/cluster.h"
#include "models/catalogue/catalogue.h"
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

// Pinned blocks are powers of two, and whole parameters are accumulated in one: ranks of a node differ. What
// the node keeps is the sum over its ranks, each counted as a node of its own.
TEST(HostMemory, IsThatOfTheNodeThatKeepsMost) {
  const Model model = resolve_model("allenai/OLMoE-1B-7B-0924", {});
  constexpr std::int64_t kRanks = 40, kNode = 8;
  const Strategy strategy{.zero_stage = 2,
                          .layout = {.shard = kRanks},
                          .offload_optimizer = OffloadDevice::cpu,
                          .gradient_accumulation_steps = 2};
  std::vector<Bytes> of_rank, of_node(kRanks / kNode);
  for (std::int64_t rank = 0; rank < kRanks; ++rank) {
    const RankRun run(model, {}, strategy, {}, rank);
    StepInputs alone = run.step();
    alone.slices = {};
    of_rank.push_back(host_memory(alone, 1).total);
    of_node[static_cast<std::size_t>(rank / kNode)] += of_rank.back();
  }
  EXPECT_NE(std::ranges::min(of_rank), std::ranges::max(of_rank));
  const RankRun run(model, {}, strategy, {});
  EXPECT_EQ(host_memory(run.step(), kNode).total, std::ranges::max(of_node));
}

}  // namespace
}  // namespace zplan::testing
