#include <fmt/format.h>

#include <numeric>

#include "planner/frameworks/launch/launch.h"
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

std::string attention(Attention attention) {
  return attention == Attention::flash ? "flash_attn" : std::string(to_name(attention));
}

void add_training(Words& words, const Strategy& s, const Training& training, const SwiftWords& own) {
  const Precision loaded = own.keeps_fp32 ? Precision::fp32 : training.precision;
  add(words, {"--torch_dtype", torch_dtype(loaded), "--attn_impl", attention(training.attention)});
  add(words, {"--max_length", std::to_string(training.sequence_length)});
  add(words, {"--per_device_train_batch_size", std::to_string(s.micro_batch_size)});
  add(words, {"--gradient_accumulation_steps", std::to_string(s.gradient_accumulation_steps)});
  add(words, {"--learning_rate", fmt::format("{}", starting_learning_rate(training))});
  add(words, {"--weight_decay", fmt::format("{}", kWeightDecay)});
  if (s.zero.gradient_clipping != kTrainersNorm)
    add(words, {"--max_grad_norm", fmt::format("{}", s.zero.gradient_clipping)});
  const std::string_view optimizer = spec(training.optimizer).trainer_name;
  if (!optimizer.empty()) add(words, {"--optim", std::string(optimizer)});
  add(words, {"--gradient_checkpointing", own.checkpoints ? "true" : "false"});
  if (own.is_reentrant)
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

/// Adds how completions are generated. Users name the reward themselves. Source: ms-swift 4.6
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

/// Adds a teacher and what generates. Source: ms-swift 4.6 swift/arguments/rlhf_args.py.
void add_distillation(Words& words, const Question& question) {
  const Training& training = question.training;
  const Distillation& about = training.distillation;
  const bool is_mixed = about.divergence == Divergence::mixture;
  add(words, {"--rlhf_type", "gkd", "--beta",
              is_mixed                                  ? "0.5"
              : about.divergence == Divergence::forward ? "0"
                                                        : "1",
              "--lmbda", about.on_policy ? "0.5" : "0"});
  if (!reference_of(training)) add(words, {"--teacher_model_server", "URL"});
  if (reference_of(training) == ReferenceModel::copy || training.method != Method::full)
    add(words, {"--teacher_model", model_word(compared_model(question.model))});
  if (about.top > 0) add(words, {"--gkd_logits_topk", std::to_string(about.top)});
  if (about.on_policy) add(words, {"--max_completion_length", std::to_string(completion_tokens(training))});
}

}  // namespace

std::string swift_line(const Plan& plan, const Question& question, const SwiftWords& own) {
  if (trains_values(question.training)) return {};  // PPOTrainer is TRL's, and its script the user's
  const bool generated = generates(question.training);
  Words words = swift_environment(question.cluster);
  const bool distilled = distils(question.training);
  add(words, {"swift", generated || distilled ? "rlhf" : "sft", "--model", model_word(question.model),
              "--dataset", "train.jsonl"});
  if (generated) add_rollout(words, plan, question.training);
  if (distilled) add_distillation(words, question);
  add_method(words, question.training);
  add_training(words, plan.strategy, question.training, own);
  add_token_ranks(words, plan, question);
  words.insert(words.end(), own.sharding.begin(), own.sharding.end());
  return join(words);
}

}  // namespace zplan
