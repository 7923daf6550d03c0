#pragma once
// Training holds what is the same in all plans of an answer, Strategy what the search varies.

#include <array>
#include <compare>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "models/base/names.h"
#include "models/base/quantity.h"
#include "models/lora.h"
#include "models/model.h"
#include "planner/layout/parallel_layout.h"
#include "planner/question/megatron.h"
#include "planner/question/module_set.h"
#include "planner/question/optimizers.h"
#include "planner/question/quantizations.h"
#include "planner/question/rollout.h"
#include "planner/question/torchtitan.h"

namespace zplan {

enum class Method { full, lora, qlora };
template <>
struct EnumNames<Method> {
  static constexpr std::array<std::pair<Method, std::string_view>, 3> table{
      {{Method::full, "full"}, {Method::lora, "lora"}, {Method::qlora, "qlora"}}};
};

/// Objective is the goal of a training, as TRL's trainers define it: next tokens (sft); preferences of one
/// answer over another, whose samples are pairs, two sequences each (dpo, orpo, simpo); single answers that
/// are good or bad (kto); a model that scores each answer of a pair (reward); rewards of completions that the
/// model itself generates (grpo, and ppo, which trains a model of values beside it), whose samples are
/// prompts with a completion; a teacher's probabilities of all tokens (gkd, generalized knowledge
/// distillation).
enum class Objective { sft, dpo, orpo, simpo, kto, reward, grpo, ppo, gkd };
template <>
struct EnumNames<Objective> {
  static constexpr std::array<std::pair<Objective, std::string_view>, 9> table{{{Objective::sft, "sft"},
                                                                                {Objective::dpo, "dpo"},
                                                                                {Objective::orpo, "orpo"},
                                                                                {Objective::simpo, "simpo"},
                                                                                {Objective::kto, "kto"},
                                                                                {Objective::reward, "reward"},
                                                                                {Objective::grpo, "grpo"},
                                                                                {Objective::ppo, "ppo"},
                                                                                {Objective::gkd, "gkd"}}};
};

/// ReferenceModel says where the log-probabilities come from that the policy's are compared with: a frozen
/// copy of the model, which each rank holds whole or, under ZeRO-3, an engine of its own shards; the model
/// itself with its adapters switched off; a frozen copy of its adapters in their place (TRL's adapter "ref",
/// for a model that came with adapters); log-probabilities computed before training; none (grpo without a
/// divergence, beta 0). Of gkd it is the teacher: a frozen model of its own (copy), the student without its
/// adapters, or one on a server (none), which sends its most probable tokens alone.
enum class ReferenceModel { copy, adapters_off, adapter, precomputed, none };
template <>
struct EnumNames<ReferenceModel> {
  static constexpr std::array<std::pair<ReferenceModel, std::string_view>, 5> table{
      {{ReferenceModel::copy, "copy"},
       {ReferenceModel::adapters_off, "adapters-off"},
       {ReferenceModel::adapter, "adapter"},
       {ReferenceModel::precomputed, "precomputed"},
       {ReferenceModel::none, "none"}}};
};

/// Divergence says which divergence of student and teacher gkd minimises: the generalized Jensen-Shannon
/// divergence (0 < beta < 1), or one of the two Kullback-Leibler divergences (beta 0 and 1).
enum class Divergence { mixture, forward, reverse };
template <>
struct EnumNames<Divergence> {
  static constexpr std::array<std::pair<Divergence, std::string_view>, 3> table{
      {{Divergence::mixture, "mixture"}, {Divergence::forward, "forward"}, {Divergence::reverse, "reverse"}}};
};

/// Distillation holds the settings of gkd's loss.
struct Distillation {
  Divergence divergence{Divergence::mixture};
  /// The divergence is computed of slices of 512 tokens, which share one tensor of logits (ms-swift), not of
  /// all tokens at once (TRL).
  bool in_slices{};
  bool on_policy{};        ///< the student generates the answers that it is trained on (lmbda > 0)
  std::int64_t top{};      ///< of the teacher's tokens the most probable ones; 0: the whole vocabulary
  bool adds_likelihood{};  ///< the cross-entropy of the labels is added (ms-swift's sft_alpha)
  bool whole_teacher{};    ///< FSDP2 does not shard the teacher: each rank holds it (TRL)
  bool operator==(const Distillation&) const = default;
};

enum class Precision { bf16, fp16, fp32 };
template <>
struct EnumNames<Precision> {
  static constexpr std::array<std::pair<Precision, std::string_view>, 3> table{
      {{Precision::bf16, "bf16"}, {Precision::fp16, "fp16"}, {Precision::fp32, "fp32"}}};
};

/// QuantStorage is the type in which bitsandbytes stores packed 4-bit values (bnb_4bit_quant_storage): bytes,
/// or numbers of a floating type with the same bits, which FSDP2 and ZeRO-3 shard like weights.
enum class QuantStorage { uint8, bf16, fp16, fp32 };
template <>
struct EnumNames<QuantStorage> {
  static constexpr std::array<std::pair<QuantStorage, std::string_view>, 4> table{
      {{QuantStorage::uint8, "uint8"},
       {QuantStorage::bf16, "bf16"},
       {QuantStorage::fp16, "fp16"},
       {QuantStorage::fp32, "fp32"}}};
};
/// Returns the bytes of one stored number.
[[nodiscard]] constexpr Bytes storage_size(QuantStorage storage) {
  return Bytes(storage == QuantStorage::uint8 ? 1 : storage == QuantStorage::fp32 ? 4 : 2);
}

enum class OffloadDevice { none, cpu, nvme };
template <>
struct EnumNames<OffloadDevice> {
  static constexpr std::array<std::pair<OffloadDevice, std::string_view>, 3> table{
      {{OffloadDevice::none, "none"}, {OffloadDevice::cpu, "cpu"}, {OffloadDevice::nvme, "nvme"}}};
};

/// Checkpointing of activations: `full` recomputes each layer from its input; `selective` keeps the outputs
/// of matrix products and attention and recomputes the rest of a layer.
enum class Checkpointing { none, selective, full };
template <>
struct EnumNames<Checkpointing> {
  static constexpr std::array<std::pair<Checkpointing, std::string_view>, 3> table{
      {{Checkpointing::none, "none"},
       {Checkpointing::selective, "selective"},
       {Checkpointing::full, "full"}}};
};

/// KeyRotation is the collective by which ring attention passes keys and values on.
enum class KeyRotation { all_gather, all_to_all };
template <>
struct EnumNames<KeyRotation> {
  static constexpr std::array<std::pair<KeyRotation, std::string_view>, 2> table{
      {{KeyRotation::all_gather, "allgather"}, {KeyRotation::all_to_all, "alltoall"}}};
};

enum class Attention { flash, sdpa, eager };
template <>
struct EnumNames<Attention> {
  static constexpr std::array<std::pair<Attention, std::string_view>, 3> table{
      {{Attention::flash, "flash"}, {Attention::sdpa, "sdpa"}, {Attention::eager, "eager"}}};
};

/// LossShift is the tensor that a loss of next tokens shifts by one: the labels (transformers since 4.49); or
/// the logits in fp32, which are copied except for each sample's last token, while the head's own logits stay
/// (4.48; Llama, Qwen2 and some others 4.46) or do not (before).
enum class LossShift { labels, logits, logits_alone };
template <>
struct EnumNames<LossShift> {
  static constexpr std::array<std::pair<LossShift, std::string_view>, 3> table{
      {{LossShift::labels, "labels"},
       {LossShift::logits, "logits"},
       {LossShift::logits_alone, "logits-alone"}}};
};

/// Compile says what torch.compile compiles: nothing; each decoder layer by itself, as torchtune and
/// torchtitan do; the whole model with head and loss, as TrainingArguments(torch_compile=True) does.
enum class Compile { none, layer, model };
template <>
struct EnumNames<Compile> {
  static constexpr std::array<std::pair<Compile, std::string_view>, 3> table{
      {{Compile::none, "none"}, {Compile::layer, "layer"}, {Compile::model, "model"}}};
};

/// Float8 says how torchao's float8 layers multiply in 8 bits: not at all; operands are scaled as a whole; by
/// rows; as a whole, and FSDP2 gathers weights in 8 bits (enable_fsdp_float8_all_gather).
enum class Float8 { none, tensorwise, rowwise, tensorwise_gather };
template <>
struct EnumNames<Float8> {
  static constexpr std::array<std::pair<Float8, std::string_view>, 4> table{
      {{Float8::none, "none"},
       {Float8::tensorwise, "tensorwise"},
       {Float8::rowwise, "rowwise"},
       {Float8::tensorwise_gather, "tensorwise-gather"}}};
};

/// AnswerLoss says how log-probabilities of answers are made of whole logits: sequence by sequence (TRL); of
/// all sequences at once, divided by a temperature before (torchtune); of all at once in fp32, while the
/// logits stay for metrics (LLaMA-Factory).
enum class AnswerLoss { by_sequence, whole, whole_fp32 };
template <>
struct EnumNames<AnswerLoss> {
  static constexpr std::array<std::pair<AnswerLoss, std::string_view>, 3> table{
      {{AnswerLoss::by_sequence, "by-sequence"},
       {AnswerLoss::whole, "whole"},
       {AnswerLoss::whole_fp32, "whole-fp32"}}};
};

/// Framework names the library whose sharding, buffers and step are planned. FSDP2 counts as ZeRO stage 3
/// (reshard_after_forward) or 2 (without it); plain PyTorch as stage 0, replicated by DDP over several ranks.
enum class Framework { deepspeed, fsdp, torch, megatron, torchtitan };
template <>
struct EnumNames<Framework> {
  static constexpr std::array<std::pair<Framework, std::string_view>, 5> table{
      {{Framework::deepspeed, "deepspeed"},
       {Framework::fsdp, "fsdp"},
       {Framework::torch, "torch"},
       {Framework::megatron, "megatron"},
       {Framework::torchtitan, "torchtitan"}}};
};

/// DeepSpeedRelease is a release of DeepSpeed. Plans have the memory and traffic of 0.19.8; an older release
/// decides which features exist and what a ds_config may contain.
struct DeepSpeedRelease {
  int major{}, minor{19}, patch{8};
  auto operator<=>(const DeepSpeedRelease&) const = default;
};
/// Returns a release as "0.19.8".
[[nodiscard]] std::string to_text(DeepSpeedRelease release);

/// OptimizerKernel is how PyTorch's optimizer updates the parameters: by one kernel over all, by lists of
/// tensors with temporaries for all of them at once, or one parameter after the other. DeepSpeed's FusedAdam
/// is a fused kernel of its own.
enum class OptimizerKernel { fused, foreach, single, deepspeed_fused };
template <>
struct EnumNames<OptimizerKernel> {
  static constexpr std::array<std::pair<OptimizerKernel, std::string_view>, 4> table{
      {{OptimizerKernel::fused, "fused"},
       {OptimizerKernel::foreach, "foreach"},
       {OptimizerKernel::single, "single"},
       {OptimizerKernel::deepspeed_fused, "deepspeed-fused"}}};
};

/// Buckets names the source of bucket sizes where no config gives them.
enum class Buckets { hf_auto, defaults };
template <>
struct EnumNames<Buckets> {
  static constexpr std::array<std::pair<Buckets, std::string_view>, 2> table{
      {{Buckets::hf_auto, "hf-auto"}, {Buckets::defaults, "default"}}};
};

/// SavedModel is the form in which a Trainer saves a model: weights gathered on one rank, or every rank's
/// shards.
enum class SavedModel { full, sharded };
template <>
struct EnumNames<SavedModel> {
  static constexpr std::array<std::pair<SavedModel, std::string_view>, 2> table{
      {{SavedModel::full, "full"}, {SavedModel::sharded, "sharded"}}};
};

/// BesideSteps holds the settings of loading, evaluation and saving in the Hugging Face Trainer
/// (docs/moments.md).
struct BesideSteps {
  /// from_pretrained's dtype; absent: the checkpoint's (16-bit), or fp32 where the parameters are the
  /// masters.
  std::optional<Precision> load_dtype{};
  /// Every rank reads the checkpoint, where one could hand it to the others: no zero.Init, no
  /// cpu_ram_efficient_loading.
  bool loads_everywhere{};
  std::optional<SavedModel> save{};        ///< absent: as the framework's config of a plan says
  std::int64_t eval_batch{};               ///< per_device_eval_batch_size; 0: nothing is evaluated
  std::int64_t eval_samples{};             ///< of the evaluation set
  bool keeps_logits{};                     ///< compute_metrics is given
  std::int64_t eval_accumulation_steps{};  ///< batches until logits move to the host; 0: never before the end
  std::int64_t new_tokens{};               ///< generated behind each sample's prompt; 0: none
  bool operator==(const BesideSteps&) const = default;
};

/// Training holds the settings that all plans of an answer share.
struct Training {
  Method method{Method::full};
  std::int64_t lora_rank{16};
  LoraTargets lora_targets{};
  Quantization quantization{Quantization::nf4};  ///< of the frozen base under qlora
  Precision precision{Precision::bf16};
  Optimizer optimizer{Optimizer::adamw};
  bool master_weights{true};  ///< fp32 copy of 16-bit weights; without meaning under fp32
  std::int64_t sequence_length{2048};
  Attention attention{Attention::flash};
  bool fused_kernels{};         ///< RMSNorm, rotary embedding and gated activation are timed as a kernel each
  bool fused_loss{};            ///< head and cross-entropy in one kernel that never holds all logits
  std::int64_t loss_chunks{1};  ///< cross-entropy over this many slices of the tokens; the logits stay whole
  bool sliced_head{};           ///< with loss_chunks: the head runs slice by slice as well
  /// TRL's fused head: log-probabilities by tiles of tokens and vocabulary, computed again in the backward.
  bool fused_head{};
  /// Cut cross-entropy: logits exist in the multiprocessors' own memory alone, forward and backward.
  bool cut_loss{};
  Compile compile{};
  Float8 float8{};  ///< of the layers' linear modules, not of the head
  LossShift loss_shift{LossShift::labels};
  AnswerLoss answer_loss{AnswerLoss::by_sequence};  ///< of dpo, orpo, simpo and kto
  ModuleSet modules{};                              ///< whose layers, kernels and selective checkpointing run
  Framework framework{Framework::deepspeed};
  DeepSpeedRelease deepspeed{};
  OptimizerKernel optimizer_kernel{OptimizerKernel::fused};
  /// bitsandbytes' 8-bit optimizers keep fp32 moments of embeddings, as transformers' Trainer registers.
  bool wide_embedding_moments{true};

  bool expandable_segments{};  ///< PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True
  bool names_modules{};        ///< tapes say which module runs, for a history of memory; nothing else changes

  // Choices of the training script; the defaults are the Hugging Face Trainer's.
  bool padding_mask{};             ///< batches are padded: attention gets an explicit mask
  bool masks_by_where{};           ///< GPT-2 of transformers 4: eager scores pass torch.where, too
  bool keeps_cache{};              ///< use_cache left on while training
  bool reentrant_checkpointing{};  ///< torch.utils.checkpoint(use_reentrant=True)
  bool longest_first{};            ///< the longest samples come first: nothing is left of a step before
  bool fp32_adapters{true};        ///< peft's autocast_adapter_dtype; DeepSpeed's stages 0-2 cast them back
  std::int64_t adapters{1};        ///< peft's adapters in memory: one trains, the others are frozen
  double lora_dropout{};
  bool prepares_kbit_training{};  ///< peft.prepare_model_for_kbit_training: unquantised weights in fp32
  bool autocast{};                ///< torch.autocast around the forward although weights are 16-bit
  bool steps_in_backward{};       ///< each gradient is used and freed as soon as it is there
  /// zero_grad stands between forward and backward: the gradients of the step before live through the
  /// forward. Of FSDP alone.
  bool zeroes_behind_forward{};
  bool fsdp_reduces_fp32{true};  ///< MixedPrecisionPolicy(reduce_dtype=torch.float32) over fp32 shards
  /// tensor_parallel.vocab_parallel_lm_head: an untied head under AutoTP leaves logits divided by vocabulary.
  bool vocabulary_parallel_head{};
  bool syncs_each_micro_step{};  ///< FSDP reduces every micro-step's gradients: no_sync() is not used
  /// FSDP of the first generation, around reentrant checkpoints: the hook by which a frozen unit is resharded
  /// holds the inputs of its recomputation, and their gradients, until the backward is over.
  bool fsdp_holds_inputs{};
  bool fsdp_makes_shards{};  ///< FSDP: the model is made without memory; only shards reach the device
  /// FSDP2's units as accelerate makes them: the embedding by itself, final norm and head together (of tied
  /// embeddings all three), the latter not resharded behind the forward. Absent: under context parallelism.
  std::optional<bool> fsdp_wraps_ends{};
  /// Context parallelism without an attention mask in the batch: transformers reads gaps between a rank's
  /// positions as packed samples and builds a mask that attention never gets.
  bool packed_mask{};
  /// Rows to the first rank of an expert-parallel group, as a multiple of an even share; the others share the
  /// rest.
  double routing_skew{1};
  bool partitions_made_models{};  ///< ZeRO-3 without zero.Init: the engine partitions what was made whole
  QuantStorage quant_storage{QuantStorage::uint8};  ///< of packed 4-bit values under qlora
  bool dora{};                                      ///< adapters with magnitudes (use_dora)
  std::vector<std::string> modules_to_save{};       ///< copies trained beside adapters: embed_tokens, lm_head
  bool ties_saved_modules{};                        ///< ensure_weight_tying: of tied embeddings one copy
  Objective objective{Objective::sft};
  std::optional<ReferenceModel> reference{};  ///< absent: as reference_of has it
  bool freezes_vision{};                      ///< of an image-text model: the tower is not trained
  bool freezes_projector{};                   ///< nor what projects its output to the language model
  /// With adapters: tower and projector of an image-text model are trained whole beside them.
  bool trains_tower{};
  /// Without adapters: the layers that train, in order, while all else is frozen; empty: everything trains.
  std::vector<std::int64_t> trained_layers{};
  Distillation distillation{};  ///< of gkd
  ImageBatch images{};          ///< of each sample, where the model is run with images (Model::vision)
  BesideSteps beside{};
  Rollout rollout{};  ///< of an objective that generates what it trains on
  bool operator==(const Training&) const = default;
};

inline constexpr std::int64_t kMostAdapters = 1024;
/// Returns the adapters in memory: the training's own, and at least two where one is the reference.
[[nodiscard]] std::int64_t held_adapters(const Training& training);

/// Returns the tensors that peft adds to the model under lora and qlora for each adapter.
[[nodiscard]] AdapterSpec adapters_of(const Training& training);

/// Returns the reference model; nothing where the objective needs none. The default is TRL's: adapters
/// switched off where there are adapters, else a copy; for grpo none (beta 0); for gkd the teacher.
[[nodiscard]] std::optional<ReferenceModel> reference_of(const Training& training);

/// Returns the sequences of a sample: 2 for a pair.
[[nodiscard]] inline std::int64_t sequences_per_sample(const Training& training) {
  const Objective of = training.objective;
  const bool is_single = of == Objective::sft || of == Objective::kto || of == Objective::gkd;
  return is_single || generates(training) ? 1 : 2;
}
/// True if a teacher's probabilities are learnt.
[[nodiscard]] inline bool distils(const Training& training) { return training.objective == Objective::gkd; }
/// True if the objective compares log-probabilities of whole answers.
[[nodiscard]] inline bool compares_answers(const Training& training) {
  const Objective of = training.objective;
  return of != Objective::sft && of != Objective::reward && !distils(training) && !generates(training);
}

/// Returns the frozen model whose forward is compared with the trained one's: a teacher, or this model.
[[nodiscard]] inline const Model& compared_model(const Model& model) {
  return model.teacher ? *model.teacher : model;
}

/// Returns a model of this shape that gives each token a number instead of logits.
[[nodiscard]] Model scoring_model(Model model);
/// Returns `model` as `objective` trains it in the place of `asked`: the head of a reward model gives a
/// score; for PPO, value and reward model are those of `asked` where they do not share its shape.
[[nodiscard]] Model as_trained(Model model, const Model& asked, Objective objective);

/// Turns a model into the one that a reward model's training trains. With adapters a copy of its head trains,
/// as in peft's task type SEQ_CLS.
void make_reward_model(Model& model, Training& training);

/// Returns `training` under another framework, as the Hugging Face Trainer runs it through accelerate: AdamW
/// in one fused kernel and 16-bit computation under autocast; under LoRA a 16-bit base beside fp32 adapters;
/// under FSDP2 only shards reach the device, and gradients are reduced in the type that computes. DeepSpeed
/// changes nothing. Source: docs/fsdp.md.
[[nodiscard]] Training with_framework(Training training, Framework framework);

/// ExpertCombine is how AutoEP adds up the chosen experts' outputs of a token: products with its weights in
/// fp32, then their sum; both in one kernel; one batched matrix product in fp32.
enum class ExpertCombine { weighted_sum, fused_weighted_sum, legacy_bmm };
template <>
struct EnumNames<ExpertCombine> {
  static constexpr std::array<std::pair<ExpertCombine, std::string_view>, 3> table{
      {{ExpertCombine::weighted_sum, "weighted_sum"},
       {ExpertCombine::fused_weighted_sum, "fused_weighted_sum"},
       {ExpertCombine::legacy_bmm, "legacy_bmm"}}};
};

/// ExpertParallel holds the settings of DeepSpeed's expert parallelism (AutoEP) that change memory, traffic
/// or time. The degree is ParallelLayout::expert, which may be 1. Source: DeepSpeed 0.19.8
/// module_inject/auto_ep_layer.py.
struct ExpertParallel {
  bool enabled{};      ///< blocks of experts are replaced by AutoEPMoELayer
  bool weighs_rows{};  ///< score_apply "pre": rows are weighed before the experts
  ExpertCombine combine{ExpertCombine::weighted_sum};
  bool fused_gate_up{};              ///< gate_up_impl "fused": one product of the two weights side by side
  bool without_triton{};             ///< disable_triton_grouped_mm: torch._grouped_mm on every GPU
  bool async_split_plan{};           ///< the host reads split sizes while rows are brought into order
  std::optional<bool> route_norm{};  ///< weights are divided by their sum; absent: as the model's config says
  bool operator==(const ExpertParallel&) const = default;
  auto operator<=>(const ExpertParallel&) const = default;
};

/// ZeroOptions are DeepSpeed's knobs that change what a rank holds or sends. Bucket sizes are elements, not
/// bytes. Defaults: DeepSpeed 0.19.8 runtime/zero/config.py.
struct ZeroOptions {
  Elements reduce_bucket_size{500'000'000};
  Elements prefetch_bucket_size{50'000'000};
  Elements persistence_threshold{100'000};  ///< stage 3 keeps parameters up to this size whole on every rank
  Elements max_live_parameters{1'000'000'000};
  Elements max_reuse_distance{1'000'000'000};
  Elements sub_group_size{1'000'000'000};
  std::optional<bool> overlap_comm;   ///< absent: DeepSpeed's own default, true only at stage 3
  bool fp32_gradient_accumulation{};  ///< data_types.grad_accum_dtype = fp32
  bool reduce_scatter{true};  ///< off: stages 1 and 2 reduce whole buckets, stage 3 all-reduces gradients
  /// Stages 1 and 2 all-reduce a bucket whole; off: each owner's part is reduced to it.
  bool multi_rank_bucket_allreduce{true};
  std::optional<Precision> communication_type{};  ///< gradients travel in it: communication_data_type
  /// Type of gradients on their way under sequence parallelism (seq_parallel_communication_data_type); stages
  /// 1 and 2 ignore it and use fp32.
  Precision sequence_communication_type{Precision::fp32};
  /// Norm that gradients are clipped to; 0: no clipping. Without the key DeepSpeed clips at 1.0 since 0.19.3.
  double gradient_clipping{1.0};
  bool gather_by_all_reduce{};          ///< stage3_use_all_reduce_for_fetch_params
  bool gather_one_by_one{};             ///< stage3_allgather_sequential
  std::int64_t secondary_partition{1};  ///< zero_hpz_partition_size: ranks that share a second copy (ZeRO++)
  bool quantized_weights{};  ///< zero_quantized_weights (ZeRO++): gathered in 8 bits, with fp32 scales
  /// zero_quantized_gradients (ZeRO++): over several nodes reduced by all-to-alls in 4 bits, with fp32
  /// scales.
  bool quantized_gradients{};
  bool parameter_alignment{};  ///< each parameter padded to 16 B in the flat group (ZeRO 1 and 2)
  bool operator==(const ZeroOptions&) const = default;
};

/// Returns DeepSpeed's defaults, or what HF Accelerate fills in for "auto": reduce bucket h², prefetch
/// 0.9·h², persistence 10·h. Source: accelerate 1.15 accelerator.py _prepare_deepspeed; transformers
/// integrations/deepspeed.py.
[[nodiscard]] inline ZeroOptions zero_options(Buckets buckets, std::int64_t hidden_size) {
  ZeroOptions options;
  if (buckets == Buckets::defaults) return options;
  const std::int64_t square = hidden_size * hidden_size;
  options.reduce_bucket_size = Elements(square);
  options.prefetch_bucket_size = Elements(square / 10 * 9 + square % 10 * 9 / 10);  // floor(0.9·h²)
  options.persistence_threshold = Elements(10 * hidden_size);
  return options;
}

/// LongContext holds means for long samples beside dividing their tokens; each works by itself.
struct LongContext {
  static constexpr std::int64_t kAutoTiles = -1;
  /// Slices of the tokens that the feed-forward, and head with loss, run over one by one (ALST); 0: not
  /// tiled; kAutoTiles: ALST's own choice.
  std::int64_t tiled_mlp{}, tiled_loss{};
  CheckpointOffload checkpoint_offload{CheckpointOffload::none};
  KeyRotation rotation{KeyRotation::all_gather};
  auto operator<=>(const LongContext&) const = default;

  [[nodiscard]] bool tiles() const { return tiled_mlp != 0 || tiled_loss != 0; }
};

/// True for ZeRO 1 and 2: optimizer groups are flattened and divided; parameters stay whole.
[[nodiscard]] constexpr bool divides_groups(int zero_stage) { return zero_stage == 1 || zero_stage == 2; }

struct Strategy {
  int zero_stage{};
  ParallelLayout layout{};
  OffloadDevice offload_optimizer{OffloadDevice::none};
  OffloadDevice offload_parameters{OffloadDevice::none};
  Checkpointing checkpointing{Checkpointing::full};
  std::int64_t micro_batch_size{1};
  std::int64_t gradient_accumulation_steps{1};
  LongContext long_context{};
  ExpertParallel experts{};
  ZeroOptions zero{};
  std::optional<MegatronOptions> megatron{};  ///< of Megatron-Core; absent: another framework
  std::optional<TitanOptions> torchtitan{};   ///< of torchtitan; absent: another framework
  /// Options of the reference model's own engine (ZeRO-3); absent: the policy's, as in TRL 1.16, whose
  /// prepare_deepspeed writes its settings where DeepSpeed does not read them.
  std::optional<ZeroOptions> reference_zero{};
  bool operator==(const Strategy&) const = default;

  [[nodiscard]] std::int64_t global_batch_size() const {
    return micro_batch_size * gradient_accumulation_steps * layout.data_ranks();
  }
  /// True if gradients are reduced while the backward still runs, on a stream of their own.
  [[nodiscard]] bool overlaps_communication() const { return zero.overlap_comm.value_or(zero_stage == 3); }
};

/// True if optimizer states or parameters are kept off the device.
[[nodiscard]] inline bool offloads(const Strategy& strategy) {
  return strategy.offload_optimizer != OffloadDevice::none ||
         strategy.offload_parameters != OffloadDevice::none;
}

/// Returns where inputs of checkpointed layers wait: by the strategy, else by the module set's own
/// checkpointing.
[[nodiscard]] inline CheckpointOffload checkpoint_offload(const Training& training,
                                                          const Strategy& strategy) {
  const CheckpointOffload asked = strategy.long_context.checkpoint_offload;
  return asked != CheckpointOffload::none ? asked : training.modules.checkpoint_offload;
}

/// Unsloth leaves inputs of layers on the device that are not larger. Source: unsloth_zoo 2026.10.9
/// gradient_checkpointing.py MINIMUM_SIZE.
inline constexpr Bytes kLargestUnoffloaded{2 << 20};

/// Returns the tokens of a sample on one rank: its part where several ranks divide them.
[[nodiscard]] inline std::int64_t local_tokens(const Training& training, const Strategy& strategy) {
  return training.sequence_length / strategy.layout.token_ranks();
}

/// Returns how many forwards' results stages of a pipeline pass on together: under Megatron-Core ms-swift
/// runs the reference model beside the policy in each forward step, for KTO each of them on a second batch,
/// too. Source: ms-swift 4.6 swift/megatron/trainers/dpo_trainer.py, kto_trainer.py forward_step.
[[nodiscard]] std::int64_t forwards_together(const Training& training, const Strategy& strategy);

/// True if ZeRO++ reduces gradients in 4 bits, by all_to_alls: stage 3 on several nodes.
[[nodiscard]] bool quantizes_gradients(const Strategy& strategy, std::int64_t gpus_per_node);

/// Returns the slices of the tokens that the feed-forward runs over; 0: it is not tiled. Automatic: a rank's
/// tokens divided by the hidden size. Source: DeepSpeed 0.19.8 runtime/sequence_parallel/ulysses_sp.py
/// TiledMLP.
[[nodiscard]] std::int64_t mlp_tiles(const Strategy& strategy, const Training& training,
                                     std::int64_t hidden_size);
/// Returns the slices that head and loss run over; 0: not tiled. Automatic: fp32 logits of a slice take 1
/// GiB. Source: ArcticTraining's trainer.
[[nodiscard]] std::int64_t loss_tiles(const Strategy& strategy, const Training& training,
                                      std::int64_t vocabulary_size);

/// Returns a strategy as people write it: "zero3", "tp4+zero1", "zero3+offload-all",
/// "zero2+offload-optimizer-nvme", "zero3+replicas2".
[[nodiscard]] std::string strategy_id(const Strategy& strategy);
/// Returns the id of a plan: strategy_id for DeepSpeed; "fsdp" (reshard_after_forward), "fsdp+no-reshard",
/// "fsdp+offload-all", "fsdp+replicas2" for FSDP2; "ddp" for plain PyTorch.
[[nodiscard]] std::string plan_id(Framework framework, const Strategy& strategy);

/// Offload is a value of --offload: where optimizer states and parameters go together.
struct Offload {
  OffloadDevice optimizer{OffloadDevice::none};
  OffloadDevice parameters{OffloadDevice::none};
  bool operator==(const Offload&) const = default;
};
template <>
struct EnumNames<Offload> {
  static constexpr std::array<std::pair<Offload, std::string_view>, 8> table{{
      {{OffloadDevice::none, OffloadDevice::none}, "none"},
      {{OffloadDevice::cpu, OffloadDevice::none}, "optimizer"},
      {{OffloadDevice::cpu, OffloadDevice::cpu}, "all"},
      {{OffloadDevice::none, OffloadDevice::cpu}, "param"},
      {{OffloadDevice::nvme, OffloadDevice::none}, "optimizer-nvme"},
      {{OffloadDevice::nvme, OffloadDevice::nvme}, "all-nvme"},
      {{OffloadDevice::nvme, OffloadDevice::cpu}, "optimizer-nvme+param"},
      {{OffloadDevice::cpu, OffloadDevice::nvme}, "optimizer+param-nvme"},
  }};
};

// ---- bytes per element
// -------------------------------------------------------------------------------------

/// Returns the bytes of a stored weight or gradient: 2 B in 16-bit training, 4 B in fp32.
[[nodiscard]] Bytes weight_size(const Training& training);
/// Returns the bytes of a weight as the model is made with it and, except under DeepSpeed, the optimizer
/// updates it: weight_size, or 4 B where plain PyTorch or FSDP keep fp32 weights under 16-bit computation
/// (torch.autocast, MixedPrecisionPolicy). Packed blocks do not count.
[[nodiscard]] Bytes parameter_size(const Training& training);
/// True if peft.prepare_model_for_kbit_training converts weights that are not packed to fp32; it does not for
/// GPTQ, HQQ and torchao. Source: peft 0.21.2 utils/other.py.
[[nodiscard]] bool widens_unpacked(const Training& training);
/// True if ranks can divide packed weights: 4-bit values stored in a floating type.
[[nodiscard]] bool shards_packed(const Training& training);
/// True if peft leaves adapters in fp32, as it makes them, because the packed weight has no floating type.
[[nodiscard]] bool keeps_adapters_fp32(const Training& training);
/// True if adapters are fp32 beside 16-bit weights: unless autocast_adapter_dtype is off, and over packed
/// integers even then (QuantizationSpec::types_adapters).
[[nodiscard]] bool makes_fp32_adapters(const Training& training);
/// Returns the bytes of an adapter's weight as peft makes it.
[[nodiscard]] Bytes adapter_size(const Training& training);

}  // namespace zplan
