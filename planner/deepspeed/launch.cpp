#include "planner/deepspeed/launch.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>
#include <vector>

#include "planner/deepspeed/ds_config.h"

namespace zplan {

namespace {

using Words = std::vector<std::string>;

constexpr std::string_view kPort = "29500";

/// One word for a POSIX shell.
std::string shell_word(std::string_view word) {
  constexpr std::string_view plain =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789@%+=:,./_-";
  if (!word.empty() && word.find_first_not_of(plain) == std::string_view::npos) return std::string(word);
  std::string out = "'";
  for (const char c : word) out += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return out + "'";
}

std::string join(const Words& words) {
  std::string line;
  for (const std::string& word : words) line += (line.empty() ? "" : " ") + word;
  return line;
}

void add(Words& words, std::initializer_list<std::string> more) { words.insert(words.end(), more); }

Words train(const std::string& config) { return {"train.py", "--deepspeed", shell_word(config)}; }

std::string deepspeed_line(const Cluster& cluster, const std::string& config) {
  Words words{"deepspeed"};
  if (cluster.nodes > 1) add(words, {"--hostfile", "hostfile", "--num_nodes", std::to_string(cluster.nodes)});
  add(words, {"--num_gpus", std::to_string(cluster.gpus_per_node)});
  for (const std::string& word : train(config)) words.push_back(word);
  return join(words);
}

std::string torchrun_line(const Cluster& cluster, const std::string& config) {
  Words words{"torchrun"};
  if (cluster.nodes > 1)
    add(words, {"--nnodes", std::to_string(cluster.nodes), "--node_rank", "$NODE_RANK", "--master_addr",
                "$MASTER_ADDR", "--master_port", std::string(kPort)});
  add(words, {"--nproc_per_node", std::to_string(cluster.gpus_per_node)});
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

// ---- ms-swift
// ------------------------------------------------------------------------------------------------

Words swift_environment(const Cluster& cluster) {
  Words words{fmt::format("NPROC_PER_NODE={}", cluster.gpus_per_node)};
  if (cluster.nodes > 1)
    add(words, {fmt::format("NNODES={}", cluster.nodes), "NODE_RANK=$NODE_RANK", "MASTER_ADDR=$MASTER_ADDR",
                fmt::format("MASTER_PORT={}", kPort)});
  return words;
}

/// peft's target modules; "q_v" is zplan's name for queries and values.
Words target_modules(const LoraTargets& targets) {
  Words modules;
  for (const std::string& module : targets.modules)
    if (module == "q_v")
      add(modules, {"q_proj", "v_proj"});
    else
      modules.push_back(shell_word(module));
  return modules;
}

void add_method(Words& words, const Training& training) {
  add(words, {"--tuner_type", training.method == Method::full ? "full" : "lora"});
  if (training.method == Method::full) return;
  add(words, {"--lora_rank", std::to_string(training.lora_rank), "--target_modules"});
  for (const std::string& module : target_modules(training.lora_targets)) words.push_back(module);
  if (training.method != Method::qlora || is_gptq(training.quantization))
    return;  // GPTQ's models say so themselves
  const bool int8 = training.quantization == Quantization::int8;
  add(words, {"--quant_method", "bnb", "--quant_bits", int8 ? "8" : "4"});
  if (int8) return;
  const bool twice = training.quantization == Quantization::nf4_double;
  add(words, {"--bnb_4bit_quant_type", "nf4", "--bnb_4bit_use_double_quant", twice ? "true" : "false"});
}

std::string torch_dtype(Precision precision) {
  switch (precision) {
    case Precision::bf16: return "bfloat16";
    case Precision::fp16: return "float16";
    case Precision::fp32: break;
  }
  return "float32";
}

std::string attention(Attention attention) {
  return attention == Attention::flash ? "flash_attn" : std::string(to_name(attention));
}

/// What the Hugging Face Trainer calls an optimizer of bitsandbytes; empty for those that the config names.
/// Source: transformers 5.23 training_args.py OptimizerNames.
std::string_view trainer_optimizer(Optimizer optimizer) {
  switch (optimizer) {
    case Optimizer::adamw8bit: return "adamw_bnb_8bit";
    case Optimizer::paged_adamw8bit: return "paged_adamw_8bit";
    case Optimizer::paged_adamw32bit: return "paged_adamw_32bit";
    case Optimizer::lion8bit: return "lion_8bit";
    case Optimizer::lion32bit: return "lion_32bit";
    case Optimizer::paged_lion8bit: return "paged_lion_8bit";
    case Optimizer::paged_lion32bit: return "paged_lion_32bit";
    default: return {};
  }
}

void add_training(Words& words, const Plan& plan, const Training& training) {
  const Strategy& s = plan.strategy;
  add(words,
      {"--torch_dtype", torch_dtype(training.precision), "--attn_impl", attention(training.attention)});
  add(words, {"--max_length", std::to_string(training.sequence_length)});
  add(words, {"--per_device_train_batch_size", std::to_string(s.micro_batch_size)});
  add(words, {"--gradient_accumulation_steps", std::to_string(s.gradient_accumulation_steps)});
  add(words, {"--learning_rate", fmt::format("{}", starting_learning_rate(training))});
  add(words, {"--weight_decay", fmt::format("{}", kWeightDecay)});
  const std::string_view optimizer = trainer_optimizer(training.optimizer);
  if (!optimizer.empty()) add(words, {"--optim", std::string(optimizer)});
  add(words, {"--gradient_checkpointing", s.checkpointing == Checkpointing::none ? "false" : "true"});
  if (training.fused_loss) add(words, {"--use_liger_kernel", "true"});
}

std::string model_word(const Model& model) {
  // A shape that was inferred from a size has no weights anywhere.
  return model.source == ModelSource::size || model.name.empty() ? "MODEL" : shell_word(model.name);
}

std::string swift_line(const Plan& plan, const Question& question, const std::string& config) {
  Words words = swift_environment(question.cluster);
  add(words, {"swift", "sft", "--model", model_word(question.model), "--dataset", "train.jsonl"});
  add_method(words, question.training);
  add_training(words, plan, question.training);
  add(words, {"--deepspeed", shell_word(config)});
  if (plan.strategy.tensor_parallel > 1)
    add(words, {"--deepspeed_autotp_size", std::to_string(plan.strategy.tensor_parallel)});
  return join(words);
}

}  // namespace

Launch launch_lines(const Plan& plan, const Question& question, const std::string& config) {
  return {.deepspeed = deepspeed_line(question.cluster, config),
          .torchrun = torchrun_line(question.cluster, config),
          .swift = swift_line(plan, question, config),
          .accelerate = accelerate_line(question.cluster, config)};
}

}  // namespace zplan
