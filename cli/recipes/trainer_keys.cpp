#include "cli/recipes/trainer_keys.h"

#include <algorithm>

namespace zplan {

namespace {

// Sources: axolotl 0.19 utils/schemas/config.py, integrations/liger/args.py; LLaMA-Factory 0.9.5
// hparams/model_args.py; TRL 1.16 trainer/sft_config.py, model_config.py; transformers 5.23
// training_args.py; ms-swift 4.6 arguments/; torchtune 0.6.1 recipes/full_finetune_distributed.py,
// modules/loss/.

std::vector<KeysOf<Precision>> trainer_precisions() {
  return {
      {Precision::bf16, {{"bf16", "true"}}}, {Precision::fp16, {{"fp16", "true"}}}, {Precision::fp32, {}}};
}

/// Returns the keys of a format that names attention as transformers' from_pretrained does.
std::vector<KeysOf<Attention>> attention_names(const std::string& key, const std::string& flash) {
  return {{Attention::flash, {{key, flash}}},
          {Attention::sdpa, {{key, "sdpa"}}},
          {Attention::eager, {{key, "eager"}}}};
}

/// Returns the keys of transformers' TrainingArguments, which formats around its Trainer take over.
TrainerKeys trainer_arguments(RecipeFormat format) {
  return {.format = format,
          .micro_batch = "per_device_train_batch_size",
          .accumulation = "gradient_accumulation_steps",
          .checkpointing = "gradient_checkpointing",
          .deepspeed = "deepspeed",
          .fsdp = {"fsdp", "fsdp_config"},
          .fused_loss = {{"use_liger_kernel", "true"}},
          .optimizer = "optim",
          .precisions = trainer_precisions()};
}

/// Sets the keys that make adapters of full fine-tuning; `packing` follows them where the base is packed.
void set_adapters(TrainerKeys& keys, const std::vector<RecipeChange>& lora,
                  const std::vector<RecipeChange>& packing) {
  keys.lora = keys.qlora = lora;
  keys.qlora.insert(keys.qlora.end(), packing.begin(), packing.end());
}

TrainerKeys llama_factory_keys() {
  TrainerKeys keys = trainer_arguments(RecipeFormat::llama_factory);
  keys.sequence = "cutoff_len";
  keys.checkpointing = "disable_gradient_checkpointing";
  keys.checkpointed = "false";
  keys.unchecked = "true";
  set_adapters(keys, {{"finetuning_type", "lora"}, {"lora_rank", "16"}, {"lora_target", "all"}},
               {{"quantization_bit", "4"}});
  keys.fused_loss = {{"enable_liger_kernel", "true"}};
  keys.attentions = {{Attention::flash, {{"flash_attn", "fa2"}}},
                     {Attention::sdpa, {{"flash_attn", "sdpa"}}},
                     {Attention::eager, {{"flash_attn", "disabled"}}}};
  return keys;
}

TrainerKeys trl_keys() {
  TrainerKeys keys = trainer_arguments(RecipeFormat::trl);
  keys.sequence = "max_length";
  set_adapters(keys, {{"use_peft", "true"}, {"lora_r", "16"}, {"lora_target_modules", "all-linear"}},
               {{"load_in_4bit", "true"}});
  keys.attentions = attention_names("attn_implementation", "flash_attention_2");
  keys.quant_storage = "bnb_4bit_quant_storage";
  return keys;
}

TrainerKeys swift_keys() {
  TrainerKeys keys = trainer_arguments(RecipeFormat::swift);
  keys.sequence = "max_length";
  set_adapters(keys, {{"tuner_type", "lora"}, {"lora_rank", "16"}},
               {{"quant_method", "bnb"}, {"quant_bits", "4"}});
  keys.precisions = {{Precision::bf16, {{"torch_dtype", "bfloat16"}}},
                     {Precision::fp16, {{"torch_dtype", "float16"}}},
                     {Precision::fp32, {{"torch_dtype", "float32"}}}};
  keys.attentions = attention_names("attn_impl", "flash_attn");
  keys.quant_storage = "bnb_4bit_quant_storage";
  keys.nothing_accumulated = "";
  return keys;
}

/// Returns the keys of Megatron-Core's arguments that plans differ in: of a sample's length and of virtual
/// stages by name, and the trainer's defaults of others.
std::vector<ArgumentKey> megatron_keys(std::string_view length, std::string_view virtual_stages,
                                       std::string_view global_batch, std::string_view divides_optimizer,
                                       std::string_view recompute) {
  return {{"--tensor-model-parallel-size", "tensor_model_parallel_size", "1", "1"},
          {"--pipeline-model-parallel-size", "pipeline_model_parallel_size", "1", "1"},
          {"--num-virtual-stages-per-pipeline-rank", virtual_stages, "1", "1"},
          {"--context-parallel-size", "context_parallel_size", "1", "1"},
          {"--expert-model-parallel-size", "expert_model_parallel_size", "1", "1"},
          {"--expert-tensor-parallel-size", "expert_tensor_parallel_size", "", ""},
          {"--micro-batch-size", "micro_batch_size", "1", "1"},
          {"--global-batch-size", "global_batch_size", global_batch, ""},
          {"--seq-length", length, "", ""},
          {"--use-distributed-optimizer", "use_distributed_optimizer", divides_optimizer, "false"},
          {"--recompute-granularity", "recompute_granularity", recompute, "none"},
          {"--recompute-method", "recompute_method", "", ""},
          {"--recompute-num-layers", "recompute_num_layers", "", ""},
          {"--recompute-modules", "recompute_modules", "core_attn", ""}};
}

/// Returns the keys of torchtitan's settings that plans differ in. Source: torchtitan 0.2.2
/// config/job_config.py.
std::vector<ArgumentKey> titan_keys() {
  return {
      {"--parallelism.data_parallel_replicate_degree", "parallelism.data_parallel_replicate_degree", "1", ""},
      {"--parallelism.data_parallel_shard_degree", "parallelism.data_parallel_shard_degree", "-1", ""},
      {"--parallelism.tensor_parallel_degree", "parallelism.tensor_parallel_degree", "1", ""},
      {"--parallelism.context_parallel_degree", "parallelism.context_parallel_degree", "1", ""},
      {"--parallelism.pipeline_parallel_degree", "parallelism.pipeline_parallel_degree", "1", ""},
      {"--parallelism.pipeline_parallel_schedule", "parallelism.pipeline_parallel_schedule", "1F1B", ""},
      {"--parallelism.pipeline_parallel_microbatch_size", "parallelism.pipeline_parallel_microbatch_size",
       "1", "1"},
      {"--parallelism.pipeline_parallel_layers_per_stage", "parallelism.pipeline_parallel_layers_per_stage",
       "", ""},
      {"--parallelism.fsdp_reshard_after_forward", "parallelism.fsdp_reshard_after_forward", "default",
       "default"},
      {"--training.local_batch_size", "training.local_batch_size", "8", ""},
      {"--training.global_batch_size", "training.global_batch_size", "-1", ""},
      {"--training.seq_len", "training.seq_len", "2048", ""},
      {"--training.dtype", "training.dtype", "float32", "float32"}};
}

std::vector<TrainerKeys> all_keys() {
  using enum RecipeFormat;
  return {
      {.format = axolotl,
       .micro_batch = "micro_batch_size",
       .accumulation = "gradient_accumulation_steps",
       .sequence = "sequence_len",
       .checkpointing = "gradient_checkpointing",
       .deepspeed = "deepspeed",
       .fsdp = {"fsdp", "fsdp_config", "fsdp_version"},
       .lora = {{"adapter", "lora"}, {"lora_r", "16"}, {"lora_alpha", "32"}, {"lora_target_linear", "true"}},
       .qlora = {{"adapter", "qlora"},
                 {"load_in_4bit", "true"},
                 {"lora_r", "16"},
                 {"lora_alpha", "32"},
                 {"lora_target_linear", "true"}},
       .fused_loss = {{"plugins", "[axolotl.integrations.liger.LigerPlugin]"},
                      {"liger_fused_linear_cross_entropy", "true"},
                      {"liger_rms_norm", "true"},
                      {"liger_glu_activation", "true"},
                      {"liger_rope", "true"}},
       .optimizer = "optimizer",
       .precisions = trainer_precisions(),
       .attentions = {{Attention::flash, {{"flash_attention", "true"}}},
                      {Attention::sdpa, {{"sdp_attention", "true"}}},
                      {Attention::eager, {{"eager_attention", "true"}}}},
       .quant_storage = "bnb_config_kwargs.bnb_4bit_quant_storage"},
      llama_factory_keys(),
      {.format = llama_factory_v1,
       .micro_batch = "micro_batch_size",
       .sequence = "cutoff_len",
       .checkpointing = "enable_activation_checkpointing",
       .lora = {{"peft_config.name", "lora"}},
       .attentions = attention_names("flash_attn", "flash_attention_2"),
       .nothing_accumulated = ""},
      trl_keys(),
      trainer_arguments(transformers),
      swift_keys(),
      {.format = torchtune,
       .micro_batch = "batch_size",
       .accumulation = "gradient_accumulation_steps",
       .sequence = "tokenizer.max_seq_len",
       .checkpointing = "enable_activation_checkpointing",
       .checkpointed = "True",
       .unchecked = "False",
       .precisions = {{Precision::bf16, {{"dtype", "bf16"}}},
                      {Precision::fp16, {{"dtype", "fp16"}}},
                      {Precision::fp32, {{"dtype", "fp32"}}}}},
      {.format = swift_megatron,
       .micro_batch = "micro_batch_size",
       .sequence = "max_length",
       .arguments =
           megatron_keys("max_length", "virtual_pipeline_model_parallel_size", "16", "true", "selective")},
      {.format = megatron_lm,
       .micro_batch = "micro_batch_size",
       .sequence = "seq_length",
       .arguments = megatron_keys("seq_length", "num_virtual_stages_per_pipeline_rank", "", "false", "none")},
      {.format = accelerate},
      {.format = openrlhf,
       .micro_batch = "train.micro_batch_size",
       .sequence = "data.max_len",
       .checkpointing = "model.gradient_checkpointing_enable"},
      {.format = torchtitan,
       .micro_batch = "training.local_batch_size",
       .sequence = "training.seq_len",
       .arguments = titan_keys()},
      {.format = verl,
       .micro_batch = "actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu",
       .checkpointing = "actor_rollout_ref.model.enable_gradient_checkpointing",
       .checkpointed = "True",
       .unchecked = "False"}};
}

}  // namespace

const TrainerKeys& trainer_keys(RecipeFormat format) {
  static const std::vector<TrainerKeys> all = all_keys();
  return *std::ranges::find(all, format, &TrainerKeys::format);
}

}  // namespace zplan
