// Prints one JSON object per line: an accelerate config as YAML, its command lines, and what the plan says
// they should mean.

#include <iostream>
#include <nlohmann/json.hpp>

#include "grid.h"
#include "planner/frameworks/launch/accelerate_config.h"
#include "planner/frameworks/launch/launch.h"
#include "planner/plan/legality.h"
#include "planner/plan/plan.h"
#include "planner/question/question.h"

namespace zplan::testing {
namespace {

void print(const Plan& plan, const Question& question) {
  const Strategy& s = plan.strategy;
  const Launch launch = launch_lines(plan, question, "CONFIG");
  const bool sharded = plan.framework == Framework::fsdp;
  const Json line = {{"name", plan.id()},
                     {"framework", to_name(plan.framework)},
                     {"yaml", sharded ? Json(yaml_text(accelerate_config(plan, question))) : Json(nullptr)},
                     {"expected",
                      {{"reshard_after_forward", s.zero_stage == 3},
                       {"offload", s.offload_parameters != OffloadDevice::none},
                       {"checkpointing", s.checkpointing == Checkpointing::full},
                       {"mixed_precision", mixed_precision(plan, question.training)},
                       {"num_processes", question.cluster.gpus},
                       {"num_machines", question.cluster.nodes}}},
                     {"launch",
                      {{"accelerate", launch.accelerate},
                       {"torchrun", launch.torchrun},
                       {"torchtitan", launch.torchtitan}}}};
  std::cout << line.dump() << '\n';
}

void print_all(Framework framework, const Training& training, std::int64_t gpus) {
  using enum OffloadDevice;
  const Model model = llama_8b();
  const std::int64_t nodes = gpus > 8 ? gpus / 8 : 1;
  const Question question = question_of(model, gpus, nodes, with_framework(training, framework));
  for (const int stage : {0, 2, 3})
    for (const Offload offload : {Offload{none, none}, Offload{cpu, cpu}})
      for (const auto& [checkpointing, name] : EnumNames<Checkpointing>::table) {
        const Strategy strategy{.zero_stage = stage,
                                .layout = {.shard = gpus},
                                .offload_optimizer = offload.optimizer,
                                .offload_parameters = offload.parameters,
                                .checkpointing = checkpointing,
                                .micro_batch_size = 2,
                                .gradient_accumulation_steps = 4};
        const World world{gpus, gpus / nodes};
        if (!why_illegal(model, question.training, strategy, world).empty()) continue;
        Plan plan = plan_of(strategy);
        plan.framework = framework;
        print(plan, question);
      }
}

}  // namespace
}  // namespace zplan::testing

int main() {
  using namespace zplan;
  for (const Framework framework : {Framework::fsdp, Framework::torch})
    for (const std::int64_t gpus : {1, 2, 5, 8, 16, 64})
      for (const Precision precision : {Precision::bf16, Precision::fp16, Precision::fp32})
        for (const bool master : {true, false})
          for (const Method method : {Method::full, Method::lora})
            testing::print_all(framework,
                               {.method = method, .precision = precision, .master_weights = master}, gpus);
}
