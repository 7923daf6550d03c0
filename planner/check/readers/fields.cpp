#include "planner/check/readers/fields.h"

#include <fmt/format.h>

#include <array>
#include <nlohmann/json.hpp>

#include "planner/check/readers/field_values.h"
#include "planner/check/readers/machines.h"
#include "planner/question/framework.h"

namespace zplan::check {

namespace {

bool adapts(const Run& run) { return run.setup.training.method != Method::full; }
bool names_targets(const Run& run) {
  return adapts(run) && (run.options.has("lora_targets") || !divides_samples(run));
}
bool packs_weights(const Run& run) { return run.setup.training.method == Method::qlora; }
bool generates_samples(const Run& run) { return generates(run.setup.training); }
bool has_objective(const Run& run) { return run.setup.training.objective != Objective::sft; }
bool has_teacher(const Run& run) { return distils(run.setup.training); }
bool trains_reward(const Run& run) { return run.setup.training.objective == Objective::reward; }
bool has_values(const Run& run) { return trains_values(run.setup.training); }
bool divides_tensors(const Run& run) { return !divides_samples(run); }
bool says_loss(const Run& run, std::string_view loss) { return run.options.text_or("loss", "") == loss; }
bool chunks_loss(const Run& run) { return says_loss(run, "chunked"); }
bool has_own_loss(const Run& run) { return !says_loss(run, "full") && !says_loss(run, "fused"); }
bool has_experts(const Run& run) { return run.options.has("expert_parallel"); }
bool is_stage_3(const Run& run) { return run.setup.strategy.zero_stage == 3; }
bool reduces_alone(const Run& run) { return !run.setup.strategy.megatron; }
bool has_stages(const Run& run) { return spec(run.setup.training.framework).stages.size() > 1; }
bool numbers_stages(const Run& run) {
  return run.format != kTraining || (has_stages(run) && spec(run.setup.training.framework).reads_ds_config);
}
bool reshards(const Run& run) {
  return has_stages(run) && !spec(run.setup.training.framework).reads_ds_config;
}

// Formats by their letters.
constexpr unsigned P = kPublished, T = kTraining, O = kRouted, H = kHost, D = kRecorded, A = kActivation;
constexpr std::int64_t kMostSamples = 1'000'000'000;

using S = Strategy;
using B = BesideSteps;

constexpr std::array kFields{
    // ---- ranks, features that are not modelled, the model
    Field{"gpus", P | T, P | T, read_gpus, "ranks of the run"},
    Field{"world", O | D, O | D, read_gpus, "ranks of the run"},
    Field{"/ranks", H, H, read_gpus, "ranks of the run"},
    Field{"activation_offload", P, 0, read_published_offload, "activations are kept on the host"},
    Field{"compile", P, 0, read_published_compile, "torch.compile is used"},
    Field{"tiled_mlp", P, 0, skip_if<"Unsloth's tiled feed-forward">, "the feed-forward runs in slices"},
    Field{"compile", T, 0, read_compile, "none, layer or model: what torch.compile compiles"},
    Field{"activation_memory_budget", T, 0, skip_always<"a memory budget of compiled graphs">,
          "share of the activations that compiled graphs may keep"},
    Field{"offload_activations", T, 0, read_saved_offload, "whose hooks keep activations on the host"},
    Field{"float8", T, 0, read_float8, "scales of 8-bit products: tensorwise or rowwise"},
    Field{"fp8", P, 0, read_published_float8, "products are of 8-bit numbers"},
    Field{"/config", P | T | O | H, P | T | O | H, read_model,
          "the model's config.json, or a recorded model"},
    Field{"/model", D, D, read_small_llama, "sizes of a Llama"},
    Field{"/model", A, A, read_cut_model,
          "name of a model in the catalogue, cut to shape.layers_used layers"},

    // ---- framework, precision, kernels
    Field{"framework", P | T, P | T, read_framework, "deepspeed, fsdp, fsdp_cp, ddp or single"},
    Field{"framework", H, H, read_host_framework, "deepspeed, fsdp or torch"},
    Field{"precision", P, P, read_published_precision, "weights, master copy and products"},
    Field{"precision", T, T, read_precision, "of the weights that are stored, or amp"},
    Field{"precision", H, 0, one_of<&Training::precision>, "of weights and products"},
    Field{"dtype", A, A, is_not<&Training::master_weights, "bf16">, "bf16, or autocast over fp32 weights"},
    Field{"seq", P | T | D | H, P | T | D, whole<&Training::sequence_length, 1, kMostSequence>,
          "tokens of a sample"},
    Field{"s", A, A, whole<&Training::sequence_length, 1, kMostSequence>, "tokens of a sample"},
    Field{"attention", P, P, read_published_attention, "kernel of attention"},
    Field{"attention", T, T, read_attention, "kernel that attention was asked to use"},
    Field{"attn", A, A, one_of<&Training::attention>, "kernel of attention"},
    Field{"variant", A, 0, read_variant, "padding_mask, use_cache or lora_bf16"},
    Field{"padding_mask", P | T, 0, flag<&Training::padding_mask>, "attention gets a mask"},
    Field{"masks_by_where", P, 0, flag<&Training::masks_by_where>,
          "eager scores pass torch.where before the mask"},
    Field{"mask", T, 0, is<&Training::packed_mask, "4d">, "4d: a mask is made that attention is not given"},
    Field{"keeps_cache", T, 0, flag<&Training::keeps_cache>, "use_cache is left on"},
    Field{"fused_kernels", P, 0, flag<&Training::fused_kernels>,
          "norms, rotary embedding and activation are a kernel each"},
    Field{"modules", P, 0, read_modules, "library of the layers"},
    Field{"kernels", P | T, 0, read_kernels, "library of the layers' kernels"},
    Field{"autocast", P | T, 0, flag<&Training::autocast>, "torch.autocast is on"},

    // ---- how ranks and batches are arranged
    Field{"tensor_parallel", P | T, P, read_tensor_parallel, "ranks that divide a layer", divides_tensors},
    Field{"tp", O | D, 0, read_tensor_parallel, "ranks that divide a layer"},
    Field{"pipeline_parallel", P, 0, read_stages, "stages of a pipeline"},
    Field{"virtual_pipeline", P, 0, read_virtual_stages, "chunks of layers of each stage"},
    Field{"context_parallel", P, 0, read_context, "ranks that divide a sample"},
    Field{"expert_parallel", P, 0, read_expert_ranks, "ranks that divide the experts"},
    Field{"expert_tensor_parallel", P, 0, read_expert_tensor, "ranks that divide each expert"},
    Field{"sequence_parallel", P, 0, read_token_division,
          "hidden states between layers are divided by tokens", divides_tensors},
    Field{"fsdp_shard", P, 0, read_shard_ranks, "ranks that share one copy of what is sharded"},
    Field{"sequence_parallel", T, T, read_sequence_parallel, "ranks that divide a sample", divides_samples},
    Field{"micro_batch", P | T, P | T, whole<&S::micro_batch_size, 1, kMostBatch>,
          "samples of a rank and micro-step"},
    Field{"batch", D, D, whole<&S::micro_batch_size, 1, kMostBatch>, "samples of a rank and micro-step"},
    Field{"b", A, A, whole<&S::micro_batch_size, 1, kMostBatch>, "samples of a rank and micro-step"},
    Field{"grad_accum", P | T, P | T, whole<&S::gradient_accumulation_steps, 1, kMostBatch>,
          "micro-steps of a step"},
    Field{"gas", O, 0, whole<&S::gradient_accumulation_steps, 1, kMostBatch>, "micro-steps of a step"},
    Field{"reentrant", P | T | D, 0, flag<&Training::reentrant_checkpointing>, "checkpoints are reentrant"},
    Field{"checkpointing", P | T, P | T, read_checkpointing, "none, selective, full or reentrant"},
    Field{"recompute", P, 0, read_recompute, "what is computed again, in the source's words"},
    Field{"pipeline_schedule", P, 0, read_pipeline_schedule, "order of the micro-batches on a stage"},
    Field{"local_batch", P, 0, read_local_batch, "samples of a rank and step"},
    Field{"moe_dispatcher", P, 0, read_dispatcher, "what brings tokens to their experts"},
    Field{"overlap", P, 0, read_overlap, "grad_reduce, param_gather, p2p, …: what runs beside computation"},
    Field{"cross_entropy_fusion", P, 0, read_loss_fusion, "the loss runs in fused kernels"},
    Field{"pp_layout", P, 0, read_chunk_layout, "--pipeline-model-parallel-layout"},
    Field{"context_parallel_comm", P, 0, read_key_exchange, "--cp-comm-type"},
    Field{"cpu_offloading_num_layers", P, 0, skip_always<"offloaded activations">,
          "layers whose activations are kept on the host"},
    Field{"moe_token_drop", P, 0, skip_if<"experts that drop tokens">, "experts have a capacity"},
    Field{"megatron_flags", P, 0, read_megatron_arguments, "further arguments of Megatron's command line"},
    Field{"grad_ckpt", D, 0, read_full_checkpointing, "whether layers are checkpointed"},
    Field{"ckpt", O | A, A, read_full_checkpointing, "whether layers are checkpointed"},
    Field{"zero", P | T | O | H, P | T | O, whole<&S::zero_stage, 0, 3>, "ZeRO stage", numbers_stages},
    Field{"reshard_after_forward", T, 0, read_resharding, "FSDP frees a unit behind its forward", reshards},
    Field{"replicas", T, 0, read_replicas, "groups of ranks that each hold all shards"},
    Field{"offload", P | T, P, read_offload, "none, optimizer, param, all or optimizer+param"},
    Field{"tiled_mlp", T, 0, read_tiled_mlp, "slices of the feed-forward, or auto"},
    Field{"tiled_loss", T, 0, read_tiled_loss, "slices of head and loss, or auto"},
    Field{"activation_offload", T, 0, read_checkpoint_offload,
          "alst or ds: checkpoints are kept on the host"},
    Field{"rotate", T, 0, one_of<&LongContext::rotation>, "how ring attention sends keys"},
    Field{"buckets", P, 0, read_buckets, "whose sizes of DeepSpeed's buckets"},
    Field{"/ds_config_reference", T, 0, read_reference_ds_config, "ds_config of a reference model's engine",
          is_stage_3},
    Field{"/ds_config", T, 0, read_engine_config, "DeepSpeed's config"},
    Field{"/ds_config", D, D, read_recorded_ds_config,
          "DeepSpeed's config, which decides stage, precision and offload"},
    Field{"expert_parallel", T, 0, read_experts, "ranks that divide the experts"},
    Field{"ep", O, O, read_routed_experts, "ranks that divide the experts"},
    Field{"routing_skew", T, 0, number<&Training::routing_skew, 1'000'000>,
          "rows of the first rank over the mean", has_experts},
    Field{"model_built_on", T, 0, read_maker, "zero.Init, or the device that the model was made on",
          has_experts},

    // ---- the loss
    Field{"loss", P | T, P, read_loss, "full, fused, chunked or an objective"},
    Field{"liger", T, 0, read_liger, "Liger-Kernel's switches; those left out are on"},
    Field{"fused_head", T, 0, flag<&Training::fused_head>, "TRL's fused head"},
    Field{"answer_loss", P | T, 0, read_answer_loss, "how log-probabilities of answers are made of logits"},
    Field{"loss_shift", P | T, 0, read_loss_shift, "what is shifted by one token"},
    Field{"logits_chunked", P, 0, flag<&Training::sliced_head>, "the head runs in slices, too", has_own_loss},
    Field{"loss_chunk_tokens", P, 0, read_loss_chunk_tokens, "tokens of a slice of the cross-entropy",
          chunks_loss},
    Field{"loss_chunks", P, 0, read_loss_chunks, "slices of the cross-entropy", chunks_loss},

    // ---- the model with images
    Field{"frozen", T, 0, read_frozen, "parts of an image-text model that do not train"},
    Field{"images", T, 0, read_images,
          "images of each sample; image_size in pixels, and image_tokens of each"},

    // ---- gradients and their reduction
    Field{"longest_first", P, 0, flag<&Training::longest_first>, "the longest sample comes first"},
    Field{"fsdp1_inside_checkpoints", P | T, 0, read_fsdp_inputs,
          "units of FSDP1 are called inside checkpoints"},
    Field{"zeroes_behind_forward", P, 0, read_zeroing, "zero_grad stands between forward and backward"},
    Field{"optimizer_in_backward", P, 0, read_steps_in_backward,
          "each gradient is used as soon as it is there"},
    Field{"gradient_dtype_bytes", P, P, read_reduced_bytes, "bytes of an element of the gradients",
          reduces_alone},
    Field{"reduce_dtype_bytes", P, 0, read_reduced_bytes, "bytes of an element that is reduced"},
    Field{"gradient_dtype_bytes", P, 0, read_summed_bytes, "bytes of an element of the sums of gradients"},
    Field{"reduce", T, 0, is<&Training::fsdp_reduces_fp32, "fp32">, "fp32 or bf16: what FSDP reduces"},
    Field{"mp_policy", T, 0, read_precision_policy, "MixedPrecisionPolicy as Python prints it"},
    Field{"wrap", T, 0, is<&Training::fsdp_wraps_ends, "accelerate">, "accelerate, or plain: FSDP's units"},
    Field{"no_sync", P | T, 0, opposite<&Training::syncs_each_micro_step>,
          "FSDP reduces after the last micro-step only"},

    // ---- the method, and adapters
    Field{"prepare_kbit", T, 0, flag<&Training::prepares_kbit_training>,
          "peft.prepare_model_for_kbit_training"},
    Field{"lora_dropout", P | T, 0, number<&Training::lora_dropout, 1>, "dropout in front of adapters"},
    Field{"method", P | T, P | T, read_method, "full, lora, qlora or dora; of an objective its name"},
    Field{"method", H, 0, one_of<&Training::method>, "full, lora or qlora"},
    Field{"reference_model", T, 0, read_reference, "what an objective compares with", has_objective},
    Field{"engine", T, T, read_engine, "what generates", generates_samples},
    Field{"completion", T, T, read_completion, "tokens that are generated", generates_samples},
    Field{"mini_batches", T, 0, whole<&Rollout::mini_batches, 1, kMostBatch>, "of a generation",
          generates_samples},
    Field{"rollout_batch", T, 0, whole<&Rollout::forward_batch, 1, kMostBatch>, "samples generated at once",
          generates_samples},
    Field{"lora_trains_embeddings", P, 0, read_trained_ends, "embedding and head train beside adapters",
          adapts},
    Field{"use_dora", T, 0, flag<&Training::dora>, "adapters with magnitudes", adapts},
    Field{"modules_to_save", T, 0, read_saved_modules, "modules that train as copies", adapts},
    Field{"lora_rank", P | T | H, P | T | H, whole<&Training::lora_rank, 1, 65'536>, "rank of adapters",
          adapts},
    Field{"lora_targets", P | T | H, P | T | H, read_targets, "modules with adapters, or all-linear",
          names_targets},
    Field{"lora", D, 0, read_recorded_adapters, "rank of adapters"},
    Field{"lora", A, A, read_measured_adapters, "modules with adapters of rank 16, or none"},
    Field{"adapters", T, 0, whole<&Training::adapters, 1, kMostAdapters>, "adapters in memory", adapts},
    Field{"adapter_dtype", T, 0, is<&Training::fp32_adapters, "fp32">, "fp32 or bf16", adapts},
    Field{"quantization", P | T, P | T, read_quantization, "of the frozen weights", packs_weights},
    Field{"quant_storage", T, 0, one_of<&Training::quant_storage>, "type that packed weights are stored as",
          packs_weights},
    Field{"loss", T, T, read_score_head, "reward: a score is in the place of the head", trains_reward},
    Field{"/value_config", T, 0, read_value_model, "config.json of PPO's model of values", has_values},
    Field{"/reward_config", T, 0, read_reward_model, "config.json of PPO's model of rewards", has_values},
    Field{"/teacher_config", T, 0, read_teacher, "config.json of gkd's teacher", has_teacher},
    Field{"divergence", T, 0, read_divergence, "of gkd", has_teacher},
    Field{"/trainable", T, 0, read_trainable, "parameters that train"},
    Field{"optimizer", P | T, P | T, read_optimizer, "the optimizer, and how it walks over parameters"},

    // ---- trainers, machines
    Field{"gpus", P, P, check_division_of_ranks, "ranks of the run"},
    Field{"trainer", P | T, 0, read_trainer, "trainers as --trainer has them"},
    Field{"loss", P, P, check_loss_chunks, "chunked: slices that something counts", chunks_loss},
    Field{"seq_exact", P, 0, opposite<&Setup::varies>, "whether every sample has seq tokens"},
    Field{"empties_cache", P, 0, read_empty_cache, "the allocator's cache is emptied"},
    Field{"compute_capability", T, 0, read_capability, "80 or 90: of the GPU that the run pretends to have"},
    Field{"ranks_per_node", T | D, 0, read_node_ranks, "ranks of a node"},
    Field{"rank", T, 0, read_rank, "of the world, whose figures these are"},

    // ---- moments beside the steps
    Field{"load_dtype", H, 0, one_of<&B::load_dtype>, "dtype of from_pretrained"},
    Field{"save", H, 0, one_of<&B::save>, "what is saved"},
    Field{"eval_batch", H, 0, read_eval_batch, "samples of a batch of the evaluation"},
    Field{"eval_samples", H, 0, whole<&B::eval_samples, 0, kMostSamples>, "samples of the evaluation"},
    Field{"eval_accumulation", H, 0, whole<&B::eval_accumulation_steps, 0, kMostSamples>,
          "batches until logits move to the host"},
};

/// Sets the format's defaults that are not those of a plan.
void start(Run& run) {
  Training& training = run.setup.training;
  Strategy& strategy = run.setup.strategy;
  switch (run.format) {
    case kTraining:
      training.syncs_each_micro_step = true;
      training.wide_embedding_moments = false;  // rows' loops make optimizers themselves
      break;
    case kRouted:
      training.sequence_length = 32;
      training.attention = Attention::eager;
      training.optimizer_kernel = OptimizerKernel::foreach;
      strategy.checkpointing = Checkpointing::none;
      break;
    case kHost:
    case kRecorded: strategy.checkpointing = Checkpointing::none; break;
    case kActivation:
      training.framework = Framework::torch;
      run.setup.cluster = usual_cluster(kMeasuredCard, 1, std::nullopt);
      break;
    default: break;
  }
}

JsonReader options_of(const JsonReader& row, RowFormat format) {
  if (format == kActivation) return row;
  return row.at(format == kRecorded ? "spec" : "options");
}

void read_field(const Field& field, Run& run) {
  const bool in_row = field.key.starts_with('/');
  const JsonReader& holder = in_row ? run.row : run.options;
  const std::string_view key = in_row ? field.key.substr(1) : field.key;
  if (const auto value = holder.find(key))
    field.read(*value, run);
  else if ((field.needed & run.format) == 0)
    return;
  else if (run.format == kPublished && holder.raw().contains(key))
    run.skip.add(fmt::format("runs that leave open what {} is", key));
  else
    holder.fail(fmt::format("has no {}", in_quotes(key)), fmt::format("needed: {}", field.meaning));
}

}  // namespace

std::span<const Field> fields() { return kFields; }

Run read_run(const JsonReader& row, RowFormat format) {
  Run run{.format = format, .row = row, .options = options_of(row, format)};
  if (const char* id = format == kRecorded ? "name" : "id"; format != kActivation) run.id = row.at(id).text();
  start(run);
  for (const Field& field : kFields) {
    if ((field.formats & format) == 0 || (field.applies != nullptr && !field.applies(run))) continue;
    read_field(field, run);
    const bool names_model = field.key == "/config" || field.key == "/model";
    if (names_model && !run.has_model) return run;
  }
  const Setup& setup = run.setup;
  if (const auto refuses = setup.training.modules.refuses)
    if (auto why = refuses(setup.model, setup.training, setup.strategy)) run.skip.add(*std::move(why));
  return run;
}

Case case_of(const Run& run, Kind kind, Measured measured) {
  return {
      .id = run.id, .kind = kind, .measured = std::move(measured), .setup = run.question(), .skip = run.skip};
}

std::vector<Case> cases_of(const JsonReader& rows, Case (*case_at)(const JsonReader&)) {
  std::vector<Case> cases;
  for (const JsonReader& row : rows.items()) cases.push_back(case_at(row));
  return cases;
}

}  // namespace zplan::check
