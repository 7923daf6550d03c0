// Prints one JSON object per line: a config, the number of GPUs it is for, and what the plan says it should
// mean. With --golden FOLDER writes the configs of golden_cases() there instead; with --release 0.16.9 the
// configs are that release's, of what it can train.

#include <fstream>
#include <iostream>
#include <nlohmann/json.hpp>

#include "grid.h"
#include "planner/frameworks/deepspeed/config/ds_config.h"
#include "planner/frameworks/deepspeed/config/releases.h"
#include "planner/frameworks/launch/launch.h"
#include "planner/plan/legality.h"

namespace zplan::testing {
namespace {

Json expectation(const Strategy& s) {
  return {{"stage", s.zero_stage},
          {"micro_batch_size", s.micro_batch_size},
          {"gradient_accumulation_steps", s.gradient_accumulation_steps},
          {"offload_optimizer", to_name(s.offload_optimizer)},
          {"offload_param", to_name(s.offload_parameters)},
          {"reduce_bucket_size", s.zero.reduce_bucket_size.value},
          {"prefetch_bucket_size", s.zero.prefetch_bucket_size.value},
          {"param_persistence_threshold", s.zero.persistence_threshold.value},
          {"max_live_parameters", s.zero.max_live_parameters.value},
          {"max_reuse_distance", s.zero.max_reuse_distance.value},
          {"sub_group_size", s.zero.sub_group_size.value},
          {"overlap_comm", s.overlaps_communication()}};
}

void print(const GridCase& each, ConfigStyle style) {
  const Launch launch = launch_lines(each.plan, each.question);
  const Json line = {
      {"name", each.name},
      {"style", to_name(style)},
      {"gpus", each.question.cluster.gpus},
      {"tensor_parallel", each.plan.strategy.layout.tensor},
      {"hidden_size", each.question.model.shape.hidden_size},
      {"expected", expectation(each.plan.strategy)},
      {"launch",
       {{"deepspeed", launch.deepspeed}, {"torchrun", launch.torchrun}, {"accelerate", launch.accelerate}}},
      {"config", ds_config(each.plan, each.question, style)}};
  std::cout << line.dump() << '\n';
}

void write_golden(const std::string& folder) {
  for (const GoldenCase& each : golden_cases()) {
    std::ofstream file(folder + "/" + each.name + ".json");
    file << golden_config(each).dump(2) << '\n';
  }
}

/// Returns those plans that another release can train.
bool fits(GridCase& each, std::optional<DeepSpeedRelease> release) {
  if (!release) return true;
  each.question.training.deepspeed = *release;
  const Cluster& cluster = each.question.cluster;
  return why_illegal(each.question.model, each.question.training, each.plan.strategy,
                     {cluster.gpus, cluster.gpus_per_node})
      .empty();
}

void print_grid(std::optional<DeepSpeedRelease> release) {
  for (GridCase& each : grid()) {
    if (!fits(each, release)) continue;
    for (const ConfigStyle style : {ConfigStyle::plain, ConfigStyle::hf_auto, ConfigStyle::ms_swift})
      print(each, style);
  }
}

}  // namespace
}  // namespace zplan::testing

int main(int argc, char** argv) {
  if (argc == 3 && std::string_view(argv[1]) == "--golden")
    zplan::testing::write_golden(argv[2]);
  else if (argc == 3 && std::string_view(argv[1]) == "--release")
    zplan::testing::print_grid(zplan::parse_release("--release", argv[2]));
  else
    zplan::testing::print_grid(std::nullopt);
}
