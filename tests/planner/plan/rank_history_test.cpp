// The history of a plan's neediest rank, compared with the figures of the plan.

#include "planner/plan/rank_history.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <set>

#include "hardware_profiles/cluster.h"
#include "models/catalogue/catalogue.h"
#include "planner/plan/plan.h"
#include "planner/simulation/allowances.h"
#include "tests/planner/support.h"

namespace zplan::testing {
namespace {

using Action = MemoryEvent::Action;

struct HistoryCase {
  std::string name;
  Training training;
  Strategy strategy;
};
void PrintTo(const HistoryCase& each, std::ostream* out) { *out << each.name; }

std::vector<HistoryCase> history_cases() {
  const auto strategy = [](int stage, std::int64_t data, std::int64_t micro_steps = 1) {
    Strategy made{.zero_stage = stage, .layout = {.shard = data}};
    made.gradient_accumulation_steps = micro_steps;
    return made;
  };
  Training lora, qlora, fsdp, torch, expandable;
  lora.method = Method::lora, qlora.method = Method::qlora;
  fsdp = with_framework(Training{}, Framework::fsdp), torch = with_framework(Training{}, Framework::torch);
  expandable.expandable_segments = true;
  Strategy offloaded = strategy(3, 4, 2), plain = strategy(0, 4);
  offloaded.offload_optimizer = OffloadDevice::cpu;
  plain.checkpointing = Checkpointing::none;
  std::vector<HistoryCase> cases{{"Zero0", {}, plain},
                                 {"Zero1", {}, strategy(1, 4)},
                                 {"Zero2", {}, strategy(2, 4, 3)},
                                 {"Zero3", {}, strategy(3, 4)},
                                 {"Zero3Offload", {}, offloaded},
                                 {"Zero2Expandable", expandable, strategy(2, 4)},
                                 {"LoraZero2", lora, strategy(2, 4)},
                                 {"LoraZero3", lora, strategy(3, 4)},
                                 {"QloraZero0", qlora, strategy(0, 1)},
                                 {"Fsdp", fsdp, strategy(3, 4)},
                                 {"Torch", torch, strategy(0, 1)}};
  for (HistoryCase& each : cases) each.training.sequence_length = 512;
  return cases;
}

class RankHistories : public ::testing::TestWithParam<HistoryCase> {
 protected:
  RankHistories() {
    const HistoryCase& each = GetParam();
    model_ = resolve_model("Qwen/Qwen3-0.6B", {});
    cluster_ = roomy_cluster(each.strategy.layout.world());
    plan_ = make_plan(model_, cluster_, each.training, each.strategy);
    history_ = rank_history(model_, cluster_, each.training, plan_);
  }

  Model model_;
  Cluster cluster_;
  Plan plan_;
  RankHistory history_;
};

TEST_P(RankHistories, HaveThePeaksOfThePlan) {
  const MemoryPlan& memory = plan_.memory();
  EXPECT_EQ(history_.memory.highest_reserved(), memory.peak_reserved);
  ASSERT_FALSE(history_.memory.steps.empty());
  const Composition& holds = memory.peak.holds;
  const Bytes outside = holds[Term::cuda_context] + holds[Term::nccl_buffers] +
                        holds[Term::nccl_connections] + holds[Term::allocator_rounding] + holds[Term::engine];
  EXPECT_EQ(history_.memory.highest_requested(history_.memory.steps.back()), memory.peak.bytes() - outside);
}

TEST_P(RankHistories, NameATermAndAModuleForEveryBlock) {
  ASSERT_EQ(history_.modules.size(), history_.memory.causes.size());
  std::set<std::string> modules(history_.modules.begin(), history_.modules.end());
  EXPECT_THAT(modules, ::testing::Contains(::testing::HasSubstr("model.layers.27")));
  const bool is_full = GetParam().training.method == Method::full;
  EXPECT_THAT(modules, ::testing::Contains(is_full ? "model.layers.3.self_attn.q_proj"
                                                   : "model.layers.3.self_attn.q_proj (adapted)"));
  for (const MemoryEvent& each : history_.memory.events)
    EXPECT_TRUE(each.action != Action::alloc || each.cause >= 0);
}

/// Plays the events and looks for what no allocator does.
TEST_P(RankHistories, PutEveryBlockIntoASegmentAndNoneOverAnother) {
  std::map<std::int64_t, std::int64_t> blocks, mapped;
  const auto overlaps = [](const std::map<std::int64_t, std::int64_t>& all, std::int64_t from,
                           std::int64_t size) {
    const auto behind = all.lower_bound(from + size);
    return behind != all.begin() && std::prev(behind)->first + std::prev(behind)->second > from;
  };
  for (const MemoryEvent& each : history_.memory.events) {
    const std::int64_t size = each.size.value;
    switch (each.action) {
      case Action::alloc:
        ASSERT_FALSE(overlaps(blocks, each.address, size));
        ASSERT_TRUE(overlaps(mapped, each.address, size));
        blocks[each.address] = size;
        break;
      case Action::free: ASSERT_EQ(blocks.erase(each.address), 1U); break;
      case Action::segment_alloc:
      case Action::segment_map:
        ASSERT_FALSE(overlaps(mapped, each.address, size));
        mapped[each.address] = size;
        break;
      case Action::segment_free: ASSERT_EQ(mapped.erase(each.address), 1U); break;
      case Action::segment_unmap: {  // of the stretch around it what lies before and behind is left
        const auto around = std::prev(mapped.upper_bound(each.address));
        const std::int64_t from = around->first, until = from + around->second, end = each.address + size;
        ASSERT_LE(end, until);
        mapped.erase(around);
        if (each.address > from) mapped[from] = each.address - from;
        if (until > end) mapped[end] = until - end;
        break;
      }
    }
  }
  std::map<std::int64_t, std::int64_t> held;
  for (const HeldSegment& segment : history_.memory.segments) {
    Bytes sum{};
    for (const HeldSegment::Block& each : segment.blocks) {
      sum += each.size;
      if (each.cause >= 0) held[each.address] = each.requested.value;
    }
    EXPECT_EQ(sum, segment.size);
  }
  EXPECT_EQ(held, blocks);
}

INSTANTIATE_TEST_SUITE_P(All, RankHistories, ::testing::ValuesIn(history_cases()),
                         [](const auto& each) { return each.param.name; });

}  // namespace
}  // namespace zplan::testing
