#include "planner/frameworks/megatron/arguments.h"

#include <cstdint>

#include "planner/plan/plan.h"

namespace zplan::megatron {

std::vector<Argument> arguments_of(const Plan& plan, const Training& training) {
  const Strategy& s = plan.strategy;
  const MegatronOptions& options = *s.megatron;
  const auto number = [](std::int64_t value) { return std::to_string(value); };
  std::vector<Argument> all{{"--bf16", ""},
                            {"--transformer-impl", "transformer_engine"},
                            {"--tensor-model-parallel-size", number(s.layout.tensor)},
                            {"--pipeline-model-parallel-size", number(s.layout.pipeline)}};
  if (s.layout.context > 1) all.emplace_back("--context-parallel-size", number(s.layout.context));
  all.emplace_back("--micro-batch-size", number(s.micro_batch_size));
  all.emplace_back("--global-batch-size", number(s.global_batch_size()));
  all.emplace_back("--seq-length", number(training.sequence_length));
  if (s.zero_stage == 1) all.emplace_back("--use-distributed-optimizer", "");
  for (const std::string& each : switches_of(options)) all.emplace_back("--" + each, "");
  if (s.checkpointing == Checkpointing::full) {
    all.emplace_back("--recompute-granularity", "full");
    all.emplace_back("--recompute-method", "uniform");
    all.emplace_back("--recompute-num-layers", "1");
  }
  if (s.checkpointing == Checkpointing::selective) {
    all.emplace_back("--recompute-granularity", "selective");
    all.emplace_back("--recompute-modules", options.recomputes_mlp ? "mlp" : "core_attn");
  }
  return all;
}

}  // namespace zplan::megatron
