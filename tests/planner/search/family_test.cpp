// Compares a search's first estimates with plans that are made one by one.

#include "planner/search/family.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "models/catalogue/catalogue.h"
#include "tests/planner/support.h"

namespace zplan::testing {
namespace {

struct FamilyCase {
  std::string name;
  std::string model;
  Training training;
  Strategy strategy;
  std::int64_t gpus{8}, nodes{1};
};
void PrintTo(const FamilyCase& each, std::ostream* out) { *out << each.name; }

Strategy strategy(int stage, std::int64_t data, std::int64_t tensor, Checkpointing checkpointing,
                  OffloadDevice optimizer = OffloadDevice::none,
                  OffloadDevice parameters = OffloadDevice::none) {
  return {.zero_stage = stage,
          .layout = {.tensor = tensor, .shard = data},
          .offload_optimizer = optimizer,
          .offload_parameters = parameters,
          .checkpointing = checkpointing};
}

std::vector<FamilyCase> family_cases() {
  using enum Checkpointing;
  const OffloadDevice cpu = OffloadDevice::cpu;
  const std::string llama = "meta-llama/Meta-Llama-3-8B";
  Training lora;
  lora.method = Method::lora;
  Training fsdp;
  fsdp.framework = Framework::fsdp;
  Training torch;
  torch.framework = Framework::torch;
  return {{"Zero0", llama, {}, strategy(0, 8, 1, full)},
          {"Zero1", llama, {}, strategy(1, 8, 1, none)},
          {"Zero2Selective", llama, {}, strategy(2, 16, 1, selective), 16, 2},
          {"Zero2Offload", llama, {}, strategy(2, 8, 1, full, cpu)},
          {"Zero3", llama, {}, strategy(3, 16, 1, full), 16, 2},
          {"Zero3None", "Qwen/Qwen3-8B", {}, strategy(3, 5, 1, none), 5},
          {"Zero3Offload", llama, {}, strategy(3, 8, 1, full, cpu, cpu)},
          {"Tp4Zero1", llama, {}, strategy(1, 2, 4, full)},
          {"Tp8Zero0", llama, {}, strategy(0, 1, 8, none)},
          {"LoraZero2", "Qwen/Qwen3-0.6B", lora, strategy(2, 8, 1, full)},
          {"LoraZero3", "Qwen/Qwen3-30B-A3B", lora, strategy(3, 8, 1, full)},
          {"Experts", "Qwen/Qwen3-30B-A3B", {}, strategy(3, 16, 1, full), 16, 2},
          {"Fsdp", llama, fsdp, strategy(3, 8, 1, full)},
          {"Ddp", "Qwen/Qwen3-0.6B", torch, strategy(0, 4, 1, none), 4}};
}

class Families : public ::testing::TestWithParam<FamilyCase> {
 protected:
  Families()
      : model_(resolve_model(GetParam().model, {})),
        cluster_(cluster()),
        context_(model_, cluster_, GetParam().training, {}),
        screen_(context_) {}
  static Cluster cluster() {
    ClusterRequest request;
    request.gpu = "H100-SXM-80GB", request.gpus = GetParam().gpus, request.nodes = GetParam().nodes;
    return assemble_cluster(request, built_in_profiles());
  }
  [[nodiscard]] Plan outline(std::int64_t micro_batch_size, std::int64_t accumulation) {
    Strategy one = GetParam().strategy;
    one.micro_batch_size = micro_batch_size, one.gradient_accumulation_steps = accumulation;
    return context_.outline(one);
  }

  Model model_;
  Cluster cluster_;
  PlanContext context_;
  PlanScreen screen_;
};

TEST_P(Families, EstimatesAtPowersOfTwoAreThePlansFigures) {
  PlanFamily family = screen_.family(GetParam().strategy);
  for (const std::int64_t accumulation : {1, 2, 3, 7})
    for (const Estimate& each : family.estimates({1, 2, 4, 16}, accumulation)) {
      const Plan plan = outline(each.micro_batch_size, accumulation);
      SCOPED_TRACE(fmt::format("micro-batch {} x {}", each.micro_batch_size, accumulation));
      EXPECT_EQ(each.required_low, plan.memory().required_low);
      EXPECT_NEAR(each.step.value, plan.time.step.value, 1e-9 * plan.time.step.value);
      EXPECT_NEAR(each.tokens_per_second, plan.time.tokens_per_second, 1e-9 * plan.time.tokens_per_second);
      EXPECT_EQ(each.host, most_on_host(plan.moments));
      EXPECT_LE(family.states(), each.required_low);
      const auto sent = static_cast<double>(plan.communication().wire_bytes_per_gpu().value);
      EXPECT_NEAR(static_cast<double>(each.sent.value), sent, 1e-6 * sent + 64);
    }
}

TEST_P(Families, BetweenPowersOfTwoTheyAreWithinOnePercent) {
  PlanFamily family = screen_.family(GetParam().strategy);
  for (const Estimate& each : family.estimates({3, 5, 6, 7, 11, 13, 24}, 1)) {
    const Plan plan = outline(each.micro_batch_size, 1);
    SCOPED_TRACE(fmt::format("micro-batch {}", each.micro_batch_size));
    EXPECT_NEAR(ratio(each.required_low, plan.memory().required_low), 1, 0.01);
    EXPECT_NEAR(each.step.value / plan.time.step.value, 1, 0.01);
  }
}

INSTANTIATE_TEST_SUITE_P(, Families, ::testing::ValuesIn(family_cases()),
                         [](const auto& each) { return each.param.name; });

}  // namespace
}  // namespace zplan::testing
