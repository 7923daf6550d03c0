#include "planner/frameworks/launch/launch.h"
#include "planner/plan/plan.h"
#include "planner/question/question.h"

namespace zplan {

namespace {

void add_parallelism(Words& words, const Strategy& s, const TitanDegrees& degrees, const Words& own) {
  if (degrees.replicate > 1)
    add(words, {"--parallelism.data_parallel_replicate_degree", std::to_string(degrees.replicate)});
  add(words, {"--parallelism.data_parallel_shard_degree", std::to_string(degrees.shard)});
  words.insert(words.end(), own.begin(), own.end());
  add(words, {"--parallelism.tensor_parallel_degree", std::to_string(s.layout.tensor)});
  if (s.layout.context > 1)
    add(words,
        {"--parallelism.context_parallel_degree", std::to_string(s.layout.context),
         "--parallelism.context_parallel_rotate_method", std::string(to_name(s.long_context.rotation))});
}

void add_training_section(Words& words, const Plan& plan, const Training& training) {
  const Strategy& s = plan.strategy;
  add(words, {"--training.local_batch_size", std::to_string(s.micro_batch_size)});
  add(words, {"--training.global_batch_size", std::to_string(s.global_batch_size())});
  add(words, {"--training.seq_len", std::to_string(training.sequence_length)});
  if (s.offload_parameters != OffloadDevice::none) words.emplace_back("--training.enable_cpu_offload");
  if (!training.master_weights) add(words, {"--training.dtype", "bfloat16"});
  if (training.precision == Precision::fp32) add(words, {"--training.mixed_precision_param", "float32"});
}

}  // namespace

Words torchtitan_words(const Cluster& cluster) {
  Words words = torchrun_words(cluster);
  add(words, {"-m", "torchtitan.train", "--module", "MODULE", "--config", "CONFIG"});
  return words;
}

std::string torchtitan_line(const Plan& plan, const Question& question, const TitanDegrees& degrees,
                            const Words& own) {
  const Training& training = question.training;
  if (training.method != Method::full || training.precision == Precision::fp16) return {};
  Words words = torchtitan_words(question.cluster);
  add_parallelism(words, plan.strategy, degrees, own);
  add_training_section(words, plan, training);
  // A subcommand: it ends the options.
  words.push_back("activation-checkpoint:" + std::string(to_name(plan.strategy.checkpointing)));
  return join(words);
}

}  // namespace zplan
