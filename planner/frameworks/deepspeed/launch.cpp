#include "planner/frameworks/deepspeed/launch.h"

#include <algorithm>
#include <array>

#include "planner/frameworks/deepspeed/zero/rules.h"
#include "planner/plan/plan.h"
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

std::string torchrun_line(const Cluster& cluster, const std::string& config) {
  Words words = torchrun_words(cluster);
  for (const std::string& word : train(config)) words.push_back(word);
  return join(words);
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

/// Returns `line` behind the variables from which accelerate makes its ParallelismConfig: under DeepSpeed
/// accelerate refuses its own options for it. Source: accelerate 1.15 commands/launch.py
/// _validate_launch_command, parallelism_config.py ParallelismConfig.__post_init__.
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

/// Settings of the shipped configs of a stage. Source: ms-swift 4.6 swift/config/zero*.json.
ZeroOptions shipped_options(int stage, std::int64_t hidden_size) {
  constexpr Elements kBucket{200'000'000};
  ZeroOptions options = stage == 3 ? zero_options(Buckets::hf_auto, hidden_size) : ZeroOptions{};
  options.overlap_comm = false;
  if (stage < 3) options.reduce_bucket_size = kBucket;
  return options;
}

/// The options without those that only stage 3 reads.
ZeroOptions read_at(int stage, ZeroOptions options) {
  const ZeroOptions defaults;
  if (stage == 3) return options;
  options.prefetch_bucket_size = defaults.prefetch_bucket_size;
  options.persistence_threshold = defaults.persistence_threshold;
  options.max_live_parameters = defaults.max_live_parameters;
  options.max_reuse_distance = defaults.max_reuse_distance;
  options.sub_group_size = defaults.sub_group_size;
  return options;
}

struct Shipped {
  int stage;
  Offload offload;
  std::string_view name;
};
constexpr OffloadDevice kNone = OffloadDevice::none, kCpu = OffloadDevice::cpu;
constexpr std::array kShipped{
    Shipped{0, {kNone, kNone}, "zero0"},        Shipped{1, {kNone, kNone}, "zero1"},
    Shipped{2, {kNone, kNone}, "zero2"},        Shipped{3, {kNone, kNone}, "zero3"},
    Shipped{2, {kCpu, kNone}, "zero2_offload"}, Shipped{3, {kCpu, kCpu}, "zero3_offload"}};

/// Returns the name of the ds_config that ms-swift ships and that is this plan to the last key; empty where
/// none is.
std::string_view shipped_ds_config(const Plan& plan, const Question& question) {
  const Strategy& s = plan.strategy;
  // The shipped ones leave the optimizer to ms-swift, which makes torch's AdamW or bitsandbytes' by --optim.
  const bool own_optimizer = question.training.optimizer != Optimizer::adamw;
  const bool keeps_master = !drops_master(question.training, s);
  if (s.layout.tensor > 1 || own_optimizer || !keeps_master) return {};
  const ZeroOptions wanted = read_at(s.zero_stage, s.zero);
  const bool same =
      s.zero_stage == 0 || wanted == shipped_options(s.zero_stage, question.model.shape.hidden_size);
  const Offload offload{s.offload_optimizer, s.offload_parameters};
  const auto at = std::find_if(kShipped.begin(), kShipped.end(), [&](const Shipped& each) {
    return each.stage == s.zero_stage && each.offload == offload;
  });
  return same && at != kShipped.end() ? at->name : std::string_view();
}

/// Returns what ms-swift's line says of DeepSpeed. `config` is the path of the ds_config; in its place stands
/// the name of the config that ms-swift ships (zero0 to zero3, zero2_offload, zero3_offload) where that one
/// is the plan.
SwiftWords swift_words(const Plan& plan, const Question& question, const std::string& config) {
  const Strategy& s = plan.strategy;
  const std::string_view shipped = shipped_ds_config(plan, question);
  SwiftWords own{.sharding = {"--deepspeed", shipped.empty() ? shell_word(config) : std::string(shipped)},
                 .checkpoints = s.checkpointing != Checkpointing::none,
                 .is_reentrant = needs_reentrant_checkpointing(question.training, s)};
  if (s.layout.tensor > 1) add(own.sharding, {"--deepspeed_autotp_size", std::to_string(s.layout.tensor)});
  return own;
}

}  // namespace

Launch deepspeed_launch(const Plan& plan, const Question& question, const std::string& config) {
  const auto line = [&](const std::string& words) { return with_ulysses(plan, question, words); };
  return {.deepspeed = line(deepspeed_line(question.cluster, config)),
          .torchrun = line(torchrun_line(question.cluster, config)),
          .swift = swift_line(plan, question, swift_words(plan, question, config)),
          .accelerate = line(accelerate_line(question.cluster, config))};
}

}  // namespace zplan
