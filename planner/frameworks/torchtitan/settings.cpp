#include "planner/frameworks/torchtitan/settings.h"

#include <cstdint>

#include "planner/plan/plan.h"
#include "planner/question/question.h"
#include "planner/sharding/torchtitan_model.h"

namespace zplan::titan {

std::int64_t local_batch(const Strategy& strategy) {
  const std::int64_t given = strategy.torchtitan->local_batch;
  return given > 0 ? given : strategy.micro_batch_size * strategy.gradient_accumulation_steps;
}

std::int64_t micro_batches_of_pass(const Strategy& strategy) {
  return local_batch(strategy) / strategy.micro_batch_size;
}

std::int64_t passes_of_step(const Strategy& strategy) {
  return strategy.gradient_accumulation_steps / micro_batches_of_pass(strategy);
}

namespace {

using Settings = std::vector<Setting>;

void add_parallelism(Settings& all, const Strategy& s, std::int64_t layers) {
  const ParallelLayout& layout = s.layout;
  const auto add = [&all](const char* name, std::int64_t value) {
    all.emplace_back(std::string("--parallelism.") + name, std::to_string(value));
  };
  add("data_parallel_replicate_degree", layout.replicate);
  add("data_parallel_shard_degree", layout.shard);
  add("tensor_parallel_degree", layout.tensor);
  add("context_parallel_degree", layout.context);
  if (layout.expert > 1) add("expert_parallel_degree", layout.expert);
  add("pipeline_parallel_degree", layout.pipeline);
  if (layout.pipeline == 1) return;
  add("pipeline_parallel_microbatch_size", s.micro_batch_size);
  const std::int64_t slots = torchtitan_slots(layers, *s.torchtitan);
  if (layout.virtual_stages > kOwnParts)
    add("pipeline_parallel_layers_per_stage", divide_up(slots, layout.pipeline * layout.virtual_stages));
}

/// The micro-batches of a pipeline are one local batch.
void add_training(Settings& all, const Strategy& s, const Training& training) {
  const std::int64_t local = s.layout.pipeline > 1 ? local_batch(s) : s.micro_batch_size;
  all.emplace_back("--training.local_batch_size", std::to_string(local));
  all.emplace_back("--training.global_batch_size", std::to_string(s.global_batch_size()));
  all.emplace_back("--training.seq_len", std::to_string(training.sequence_length));
  if (!training.master_weights) all.emplace_back("--training.dtype", "bfloat16");
  if (training.precision == Precision::fp32) all.emplace_back("--training.mixed_precision_param", "float32");
  all.emplace_back("--training.disable_cuda_graphs", "");
}

}  // namespace

std::vector<Setting> settings_of(const Plan& plan, const Question& question) {
  Settings all;
  const Strategy& s = plan.strategy;
  add_parallelism(all, s, question.model.shape.layers);
  for (const TitanArgument& each : titan_arguments())
    if (const auto value = each.value(*s.torchtitan); value && !each.flag.empty())
      all.emplace_back(each.flag, *value);
  add_training(all, s, question.training);
  all.emplace_back("activation-checkpoint:" + std::string(to_name(s.checkpointing)), "");
  return all;
}

}  // namespace zplan::titan
