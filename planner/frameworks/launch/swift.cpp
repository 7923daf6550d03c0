#include "planner/frameworks/launch/swift.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <numeric>

#include "planner/frameworks/deepspeed/config/ds_config.h"
#include "planner/frameworks/deepspeed/zero/rules.h"
#include "planner/frameworks/fsdp/accelerate_config.h"
#include "planner/frameworks/launch/shell.h"
#include "planner/plan/plan.h"
#include "planner/question/question.h"

namespace zplan {

namespace {

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
  // Said, since ms-swift has a default of its own (0.05 in 1.5).
  add(words, {"--lora_rank", std::to_string(training.lora_rank), "--lora_dropout",
              fmt::format("{}", training.lora_dropout), "--target_modules"});
  for (const std::string& module : target_modules(training.lora_targets)) words.push_back(module);
  if (training.method != Method::qlora || !is_bitsandbytes(training.quantization))
    return;  // models that were packed before say so themselves
  const bool int8 = spec(training.quantization).bits == 8;
  add(words, {"--quant_method", "bnb", "--quant_bits", int8 ? "8" : "4"});
  if (int8) return;
  const bool twice = spec(training.quantization).nested;
  add(words, {"--bnb_4bit_quant_type", "nf4", "--bnb_4bit_use_double_quant", twice ? "true" : "false"});
  if (shards_packed(training))
    add(words, {"--bnb_4bit_quant_storage", training.quant_storage == QuantStorage::bf16   ? "bfloat16"
                                            : training.quant_storage == QuantStorage::fp16 ? "float16"
                                                                                           : "float32"});
}

/// The Hugging Face Trainer's max_grad_norm. Source: transformers 5.23 training_args.py.
constexpr double kTrainersNorm = 1.0;

std::string torch_dtype(Precision precision) {
  switch (precision) {
    case Precision::bf16: return "bfloat16";
    case Precision::fp16: return "float16";
    case Precision::fp32: break;
  }
  return "float32";
}

/// DeepSpeed and accelerate's FSDP2 make fp32 master weights of 16-bit ones; DDP keeps what is loaded.
std::string loaded_dtype(const Plan& plan, const Training& training) {
  const bool keeps_fp32 =
      plan.framework == Framework::torch && training.method == Method::full && training.master_weights;
  return torch_dtype(keeps_fp32 ? Precision::fp32 : training.precision);
}

std::string attention(Attention attention) {
  return attention == Attention::flash ? "flash_attn" : std::string(to_name(attention));
}

void add_training(Words& words, const Plan& plan, const Training& training) {
  const Strategy& s = plan.strategy;
  add(words, {"--torch_dtype", loaded_dtype(plan, training), "--attn_impl", attention(training.attention)});
  add(words, {"--max_length", std::to_string(training.sequence_length)});
  add(words, {"--per_device_train_batch_size", std::to_string(s.micro_batch_size)});
  add(words, {"--gradient_accumulation_steps", std::to_string(s.gradient_accumulation_steps)});
  add(words, {"--learning_rate", fmt::format("{}", starting_learning_rate(training))});
  add(words, {"--weight_decay", fmt::format("{}", kWeightDecay)});
  if (s.zero.gradient_clipping != kTrainersNorm)
    add(words, {"--max_grad_norm", fmt::format("{}", s.zero.gradient_clipping)});
  const std::string_view optimizer = spec(training.optimizer).trainer_name;
  if (!optimizer.empty()) add(words, {"--optim", std::string(optimizer)});
  // FSDP2's own, in its config, takes the place of the Trainer's.
  const bool trainers = plan.framework != Framework::fsdp && s.checkpointing != Checkpointing::none;
  add(words, {"--gradient_checkpointing", trainers ? "true" : "false"});
  if (needs_reentrant_checkpointing(training, s))
    add(words, {"--gradient_checkpointing_kwargs", shell_word(R"({"use_reentrant": true})")});
  if (training.fused_loss) add(words, {"--use_liger_kernel", "true"});
}

/// ms-swift's own sequence parallelism: Ulysses over as many ranks as divide the key-value heads too, a ring
/// over the rest, which packs and needs flash attention. Source: ms-swift 4.6
/// swift/trainers/sequence_parallel/ulysses.py.
void add_token_ranks(Words& words, const Plan& plan, const Question& question) {
  const std::int64_t ranks = plan.strategy.layout.token_ranks();
  if (ranks == 1) return;
  add(words, {"--sequence_parallel_size", std::to_string(ranks)});
  const bool has_ring = std::gcd(question.model.shape.key_value_heads, ranks) < ranks;
  if (has_ring) add(words, {"--padding_free", "true"});
}

std::string model_word(const Model& model) {
  // A shape that was inferred from a size has no weights anywhere.
  return model.source == ModelSource::size || model.name.empty() ? "MODEL" : shell_word(model.name);
}

/// What `fsdp` and `fsdp_config` of the Trainer say, as ms-swift takes them in one object.
/// Source: ms-swift 4.6 swift/arguments/sft_args.py _init_fsdp, swift/config/fsdp2.json.
std::string swift_fsdp(const Plan& plan) {
  const Strategy& s = plan.strategy;
  const bool offloads = s.offload_parameters != OffloadDevice::none;
  const bool shipped = s.zero_stage == 3 && !offloads && s.checkpointing == Checkpointing::full;
  if (shipped) return "fsdp2";
  const Json settings = {{"fsdp_version", 2},
                         {"reshard_after_forward", s.zero_stage == 3},
                         {"auto_wrap_policy", "TRANSFORMER_BASED_WRAP"},
                         {"cpu_ram_efficient_loading", true},
                         {"state_dict_type", "SHARDED_STATE_DICT"},
                         {"activation_checkpointing", s.checkpointing == Checkpointing::full}};
  const Json both = {{"fsdp", offloads ? "full_shard auto_wrap offload" : "full_shard auto_wrap"},
                     {"fsdp_config", settings}};
  return shell_word(both.dump());
}

void add_deepspeed(Words& words, const Plan& plan, const Question& question, const std::string& config) {
  const std::string_view shipped = shipped_ds_config(plan, question);
  add(words, {"--deepspeed", shipped.empty() ? shell_word(config) : std::string(shipped)});
  if (plan.strategy.layout.tensor > 1)
    add(words, {"--deepspeed_autotp_size", std::to_string(plan.strategy.layout.tensor)});
}

/// What the shipped configs of a stage set. Source: ms-swift 4.6 swift/config/zero*.json.
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

/// How completions are generated. The reward is the user's to name. Source: ms-swift 4.6
/// swift/arguments/rlhf_args.py, trainers/rlhf_arguments.py.
void add_rollout(Words& words, const Plan& plan, const Training& training) {
  constexpr std::string_view kBeta = "0.04";
  const Rollout& rollout = training.rollout;
  add(words,
      {"--rlhf_type", "grpo", "--num_generations", std::to_string(rollout.generations),
       "--max_completion_length", std::to_string(completion_tokens(training)), "--steps_per_generation",
       std::to_string(micro_steps_fed(training, plan.strategy)), "--num_iterations",
       std::to_string(passes(training)), "--beta", reference_of(training) ? std::string(kBeta) : "0"});
  if (rollout.engine == RolloutEngine::trainer) return;
  add(words, {"--use_vllm", "true", "--vllm_mode", std::string(to_name(rollout.engine))});
  if (rollout.engine != RolloutEngine::colocate) return;
  add(words,
      {"--vllm_gpu_memory_utilization", fmt::format("{}", rollout.engine_share),
       "--vllm_tensor_parallel_size", std::to_string(rollout.engine_ranks), "--vllm_max_model_len",
       std::to_string(training.sequence_length), "--sleep_level", std::to_string(rollout.sleep_level)});
}

}  // namespace

std::string_view shipped_ds_config(const Plan& plan, const Question& question) {
  const Strategy& s = plan.strategy;
  // The shipped ones leave the optimizer to ms-swift, which makes torch's AdamW or bitsandbytes' by --optim.
  const bool own_optimizer = question.training.optimizer != Optimizer::adamw;
  const bool keeps_master = !drops_master(question.training, s);
  if (plan.framework != Framework::deepspeed || s.layout.tensor > 1 || own_optimizer || !keeps_master)
    return {};
  const ZeroOptions wanted = read_at(s.zero_stage, s.zero);
  const bool same =
      s.zero_stage == 0 || wanted == shipped_options(s.zero_stage, question.model.shape.hidden_size);
  const Offload offload{s.offload_optimizer, s.offload_parameters};
  const auto at = std::find_if(kShipped.begin(), kShipped.end(), [&](const Shipped& each) {
    return each.stage == s.zero_stage && each.offload == offload;
  });
  return same && at != kShipped.end() ? at->name : std::string_view();
}

std::string swift_line(const Plan& plan, const Question& question, const std::string& config) {
  if (trains_values(question.training)) return {};  // PPOTrainer is TRL's, and its script the user's
  const bool generated = generates(question.training);
  Words words = swift_environment(question.cluster);
  add(words, {"swift", generated ? "rlhf" : "sft", "--model", model_word(question.model), "--dataset",
              "train.jsonl"});
  if (generated) add_rollout(words, plan, question.training);
  add_method(words, question.training);
  add_training(words, plan, question.training);
  add_token_ranks(words, plan, question);
  if (plan.framework == Framework::deepspeed) add_deepspeed(words, plan, question, config);
  if (plan.framework == Framework::fsdp) add(words, {"--fsdp", swift_fsdp(plan)});
  return join(words);
}

}  // namespace zplan
