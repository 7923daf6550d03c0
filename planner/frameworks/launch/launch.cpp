#include "planner/frameworks/launch/launch.h"

#include "planner/frameworks/fsdp/accelerate_config.h"
#include "planner/frameworks/launch/shell.h"
#include "planner/frameworks/launch/swift.h"
#include "planner/frameworks/launch/torchtitan.h"
#include "planner/plan/plan.h"
#include "planner/question/framework.h"
#include "planner/question/question.h"

namespace zplan {

namespace {

Words train(const std::string& config) { return {"train.py", "--deepspeed", shell_word(config)}; }

std::string deepspeed_line(const Cluster& cluster, const std::string& config) {
  Words words{"deepspeed"};
  if (cluster.nodes > 1) add(words, {"--hostfile", "hostfile", "--num_nodes", std::to_string(cluster.nodes)});
  add(words, {"--num_gpus", std::to_string(cluster.gpus_per_node)});
  for (const std::string& word : train(config)) words.push_back(word);
  return join(words);
}

Words torchrun(const Cluster& cluster) {
  Words words{"torchrun"};
  if (cluster.nodes > 1)
    add(words, {"--nnodes", std::to_string(cluster.nodes), "--node_rank", "$NODE_RANK", "--master_addr",
                "$MASTER_ADDR", "--master_port", std::string(kPort)});
  add(words, {"--nproc_per_node", std::to_string(cluster.gpus_per_node)});
  return words;
}

std::string torchrun_line(const Cluster& cluster, const std::string& config) {
  Words words = torchrun(cluster);
  for (const std::string& word : train(config)) words.push_back(word);
  return join(words);
}

/// Where the processes of several nodes meet, as accelerate takes it.
void add_meeting_place(Words& words, const Cluster& cluster) {
  if (cluster.nodes > 1)
    add(words, {"--machine_rank", "$NODE_RANK", "--main_process_ip", "$MASTER_ADDR", "--main_process_port",
                std::string(kPort)});
}

std::string accelerate_line(const Cluster& cluster, const std::string& config) {
  Words words{"accelerate",       "launch",          "--use_deepspeed",           "--deepspeed_config_file",
              shell_word(config), "--num_processes", std::to_string(cluster.gpus)};
  // "standard" starts each node by hand, as the other lines do; pdsh, the default, wants a hostfile.
  if (cluster.nodes > 1)
    add(words, {"--num_machines", std::to_string(cluster.nodes), "--machine_rank", "$NODE_RANK",
                "--main_process_ip", "$MASTER_ADDR", "--main_process_port", std::string(kPort),
                "--deepspeed_multinode_launcher", "standard"});
  words.emplace_back("train.py");
  return join(words);
}

/// What accelerate makes its ParallelismConfig of, before a line of any launcher: under DeepSpeed it refuses
/// the options of its own. Source: accelerate 1.15 commands/launch.py _validate_launch_command,
/// parallelism_config.py ParallelismConfig.__post_init__.
std::string with_ulysses(const Plan& plan, const Question& question, const std::string& line) {
  const ParallelLayout& layout = plan.strategy.layout;
  if (layout.sequence == 1) return line;
  return join({"ACCELERATE_USE_PARALLELISM_CONFIG=true",
               "PARALLELISM_CONFIG_SP_SIZE=" + std::to_string(layout.sequence),
               "PARALLELISM_CONFIG_DP_SHARD_SIZE=" + std::to_string(layout.shard),
               "PARALLELISM_CONFIG_SP_SEQ_LENGTH_IS_VARIABLE=true",
               "PARALLELISM_CONFIG_SP_ATTN_IMPLEMENTATION=" +
                   std::string(ulysses_attention(question.training.attention)),
               line});
}

}  // namespace

std::string_view ulysses_attention(Attention attention) {
  return attention == Attention::flash ? "flash_attention_2" : "sdpa";
}

// FSDP2 is described by accelerate's own config; torchrun has no words for it.
Launch fsdp_launch(const Plan& plan, const Question& question, const std::string& config) {
  Words words{"accelerate", "launch", "--config_file", shell_word(config)};
  add_meeting_place(words, question.cluster);
  words.emplace_back("train.py");
  return {.swift = swift_line(plan, question, config),
          .accelerate = join(words),
          .torchtitan = torchtitan_line(plan, question)};
}

Launch ddp_launch(const Plan& plan, const Question& question, const std::string&) {
  const Cluster& cluster = question.cluster;
  Words plain = torchrun(cluster), words{"accelerate", "launch"};
  plain.emplace_back("train.py");
  if (cluster.gpus > 1) words.emplace_back("--multi_gpu");
  add(words, {"--num_processes", std::to_string(cluster.gpus), "--mixed_precision",
              std::string(mixed_precision(plan, question.training))});
  if (cluster.nodes > 1) add(words, {"--num_machines", std::to_string(cluster.nodes)});
  add_meeting_place(words, cluster);
  words.emplace_back("train.py");
  return {.torchrun = join(plain),
          .swift = swift_line(plan, question, ""),
          .accelerate = join(words),
          .torchtitan = torchtitan_line(plan, question)};
}

Launch deepspeed_launch(const Plan& plan, const Question& question, const std::string& config) {
  const auto line = [&](const std::string& words) { return with_ulysses(plan, question, words); };
  return {.deepspeed = line(deepspeed_line(question.cluster, config)),
          .torchrun = line(torchrun_line(question.cluster, config)),
          .swift = swift_line(plan, question, config),
          .accelerate = line(accelerate_line(question.cluster, config))};
}

Launcher launcher(const Launch& launch, ConfigStyle style) {
  if (launch.deepspeed.empty()) return {"accelerate", launch.accelerate};
  if (style == ConfigStyle::ms_swift) return {"swift", launch.swift};
  return {"deepspeed", launch.deepspeed};
}

Launch launch_lines(const Plan& plan, const Question& question, const std::string& config) {
  return spec(plan.framework).launch(plan, question, config);
}

}  // namespace zplan
