#include "planner/frameworks/launch/torchtitan.h"

#include "planner/frameworks/launch/shell.h"
#include "planner/plan/plan.h"
#include "planner/question/question.h"

namespace zplan {

namespace {

void add_parallelism(Words& words, const Plan& plan) {
  const Strategy& s = plan.strategy;
  const bool fsdp = plan.framework == Framework::fsdp;
  const std::int64_t replicas = fsdp ? s.layout.replicate : s.layout.data_ranks();
  if (replicas > 1) add(words, {"--parallelism.data_parallel_replicate_degree", std::to_string(replicas)});
  add(words, {"--parallelism.data_parallel_shard_degree", std::to_string(fsdp ? s.layout.shard : 1)});
  if (fsdp) add(words, {"--parallelism.fsdp_reshard_after_forward", s.zero_stage == 3 ? "always" : "never"});
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

std::string torchtitan_line(const Plan& plan, const Question& question) {
  const Training& training = question.training;
  const bool runs = plan.framework != Framework::deepspeed && training.method == Method::full &&
                    training.precision != Precision::fp16;
  if (!runs) return {};
  const Cluster& cluster = question.cluster;
  Words words{"torchrun"};
  if (cluster.nodes > 1)
    add(words, {"--nnodes", std::to_string(cluster.nodes), "--node_rank", "$NODE_RANK", "--master_addr",
                "$MASTER_ADDR", "--master_port", std::string(kPort)});
  add(words, {"--nproc_per_node", std::to_string(cluster.gpus_per_node), "-m", "torchtitan.train"});
  add(words, {"--module", "MODULE", "--config", "CONFIG"});
  add_parallelism(words, plan);
  add_training_section(words, plan, training);
  // A subcommand: it ends the options.
  words.push_back("activation-checkpoint:" + std::string(to_name(plan.strategy.checkpointing)));
  return join(words);
}

}  // namespace zplan
