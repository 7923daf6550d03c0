#include "planner/frameworks/megatron/arguments.h"

#include <algorithm>
#include <cstdint>
#include <sstream>

#include "models/base/shell.h"
#include "planner/plan/plan.h"
#include "planner/question/question.h"

namespace zplan::megatron {

namespace {

std::string number(std::int64_t value) { return std::to_string(value); }

/// Adds both degrees. Without --expert-tensor-parallel-size Megatron-Core takes that of
/// --tensor-model-parallel-size.
void add_experts(std::vector<Argument>& all, const ParallelLayout& layout) {
  all.emplace_back("--expert-model-parallel-size", number(layout.expert));
  all.emplace_back("--expert-tensor-parallel-size", number(layout.expert_tensor));
}

void add_recompute(std::vector<Argument>& all, Checkpointing checkpointing, const MegatronOptions& options) {
  if (checkpointing == Checkpointing::none) return;
  all.emplace_back("--recompute-granularity", to_name(checkpointing));
  if (checkpointing == Checkpointing::full) {
    all.emplace_back("--recompute-method",
                     to_name(options.recompute_method.value_or(RecomputeMethod::uniform)));
    all.emplace_back("--recompute-num-layers", number(std::max<std::int64_t>(options.recomputed_layers, 1)));
    return;
  }
  std::string modules;
  for (const RecomputedModule each : options.recomputed_modules)
    modules += (modules.empty() ? "" : " ") + std::string(to_name(each));
  all.emplace_back("--recompute-modules", modules);
}

}  // namespace

std::vector<Argument> arguments_of(const Plan& plan, const Question& question) {
  const Strategy& s = plan.strategy;
  const MegatronOptions& options = *s.megatron;
  std::vector<Argument> all{{"--bf16", ""},
                            {"--transformer-impl", "transformer_engine"},
                            {"--tensor-model-parallel-size", number(s.layout.tensor)},
                            {"--pipeline-model-parallel-size", number(s.layout.pipeline)}};
  if (s.layout.virtual_stages > 1 && options.layers_of_chunks.empty())
    all.emplace_back("--num-virtual-stages-per-pipeline-rank", number(s.layout.virtual_stages));
  if (s.layout.context > 1) all.emplace_back("--context-parallel-size", number(s.layout.context));
  if (question.model.shape.experts) add_experts(all, s.layout);
  all.emplace_back("--micro-batch-size", number(s.micro_batch_size));
  all.emplace_back("--global-batch-size", number(s.global_batch_size()));
  all.emplace_back("--seq-length", number(question.training.sequence_length));
  if (s.zero_stage == 1) all.emplace_back("--use-distributed-optimizer", "");
  if (question.training.optimizer == Optimizer::sgd_momentum) all.emplace_back("--optimizer", "sgd");
  for (const MegatronArgument& each : megatron_arguments())
    if (const auto value = each.value(options);
        value && !each.of_config && !each.name.starts_with("recompute"))
      all.emplace_back("--" + std::string(each.name), *value);
  add_recompute(all, s.checkpointing, options);
  return all;
}

std::string shell_text(const Argument& argument) {
  const auto& [name, value] = argument;
  std::string text = name;
  std::istringstream words(value);
  for (std::string word; words >> word;) text += " " + shell_quote(word);
  return text;
}

}  // namespace zplan::megatron
