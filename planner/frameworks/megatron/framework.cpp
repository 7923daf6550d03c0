#include "planner/question/framework.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "planner/frameworks/launch/launch.h"
#include "planner/frameworks/megatron/arguments.h"
#include "planner/frameworks/megatron/buckets.h"
#include "planner/frameworks/megatron/megatron_run.h"
#include "planner/frameworks/megatron/mixtures.h"
#include "planner/frameworks/megatron/optimizer.h"
#include "planner/plan/plan.h"
#include "planner/question/question.h"
#include "planner/sharding/megatron_model.h"
#include "planner/sharding/optimizer_state.h"
#include "planner/sharding/shard.h"
#include "planner/simulation/host_tally.h"
#include "planner/simulation/player.h"
#include "planner/step/step_schedule.h"

namespace zplan {

namespace {

using enum Term;
constexpr std::string_view kMegatronSource =
    "Megatron-Core 0.19.2, Transformer Engine 2.20.2, whole steps recorded (docs/megatron.md)";

constexpr std::array<TermInfo, 7> kMegatronTable{{
    {frozen_parameters, MemoryPart::parameters, "frozen weights", "2·F", kMegatronSource},
    {trained_parameters, MemoryPart::parameters, "weights", "2·Ψ", kMegatronSource},
    {fp32_gradients, MemoryPart::gradients, "sums of gradients",
     "4·Ψ, padded; 2·Ψ with --grad-reduce-in-bf16", kMegatronSource},
    {placeholder_gradients, MemoryPart::gradients, "placeholders of gradients",
     "2·(elements of one weight of each shape), with gradient_accumulation_fusion", kMegatronSource},
    {master_weights, MemoryPart::optimizer_states, "fp32 master weights",
     "4·Ψ/N with the distributed optimizer, else 4·Ψ", kMegatronSource},
    {optimizer_moments, MemoryPart::optimizer_states, "optimizer states",
     "8·Ψ/N with the distributed optimizer, else 8·Ψ", kMegatronSource},
    {gradient_bucket, MemoryPart::communication_buffers, "gathered input of the head",
     "2·h·T on the last stage with sequence parallelism", kMegatronSource},
}};

constexpr std::array kMegatronStages{1, 0};
constexpr std::array kMegatronOffloads{Offload{}};

/// Layers that are recomputed whole pass a function of Megatron's own, which is reentrant. Modules and
/// kernels that were chosen stay, so that the check can refuse them.
Training adapt_to_megatron(Training training) {
  if (training.modules == kTransformers) training.modules = kMegatron;
  training.reentrant_checkpointing = true;
  training.optimizer_kernel = OptimizerKernel::fused;
  training.fp32_adapters = false;  // Float16Module casts them with the model
  return training;
}

/// True if the model's program is that of GPTModel: layers of two norms, attention and feed-forward one after
/// the other, without windows, soft caps and scales.
bool is_gpt(const Model& model) {
  const ModelShape& shape = model.shape;
  const Operators& operators = shape.operators;
  const bool has_program = model.recorded == nullptr && model.analogue == nullptr;
  const bool is_plain = !shape.parallel_attention && shape.sliding_window == 0 && !shape.logit_soft_cap &&
                        operators.layer == LayerForm::usual && !operators.scales_embedding &&
                        !operators.scales_residual && !operators.norms_span_heads &&
                        !operators.normalises_head && !operators.bare_norms;
  // Branches may have a norm behind them beside the one in front.
  const Modules& names = shape.modules;
  const bool has_norms_in_front =
      names.norm_behind_attention.empty() ||
      (!names.norm_before_attention.empty() && !shape.experts && !names.norm_before_feed_forward.empty());
  return has_program && is_plain && has_norms_in_front && names.embedding_norm.empty();
}

void check_shapes(const Model& model, const Strategy& s, Reasons& reasons) {
  const ModelShape& shape = model.shape;
  const std::int64_t t = s.layout.tensor;
  const std::int64_t heads = shape.attention_heads, groups = shape.key_value_heads;
  if (heads % t != 0)
    reasons.push_back(fmt::format("tensor parallel {} does not divide {} attention heads", t, heads));
  if (groups % t != 0 && t % groups != 0)
    reasons.push_back(fmt::format(
        "{} key-value heads are neither a multiple nor a divisor of tensor parallel {}", groups, t));
  if (shape.intermediate_size % t != 0)
    reasons.push_back(
        fmt::format("tensor parallel {} does not divide a feed-forward of {}", t, shape.intermediate_size));
  if (!is_gpt(model))
    reasons.push_back(
        fmt::format("under Megatron-Core models with ordinary, latent or gated linear attention are planned, "
                    "{} is not one of them",
                    shape.architecture));
  if (!shape.delta_net) return;
  const DeltaNet& net = *shape.delta_net;
  if (net.key_heads % t != 0 || net.value_heads % t != 0)
    reasons.push_back(fmt::format("tensor parallel {} does not divide linear attention's {} and {} heads", t,
                                  net.key_heads, net.value_heads));
  if (s.layout.context > 1)
    reasons.emplace_back("linear attention under Megatron-Core is planned without context parallelism");
}

void check_division(const Model& model, const Strategy& s, Reasons& reasons) {
  const MegatronOptions& options = *s.megatron;
  const std::int64_t stages = s.layout.pipeline, each_has = s.layout.virtual_stages;
  if (stages > 1 && stages * each_has > model.shape.layers) {
    reasons.push_back(fmt::format("{} layers are fewer than {} pipeline stages of {} virtual stages each",
                                  model.shape.layers, stages, each_has));
    return;
  }
  std::int64_t covered = 0;
  for (std::int64_t stage = 0; stage < stages; ++stage)
    for (const LayerRange& own : chunk_layers(model.shape.layers, s, stage)) {
      covered += own.end - own.first;
      if (own.end <= own.first)
        reasons.push_back(fmt::format("{} {} of {} would have no layer",
                                      each_has > 1 ? "a virtual stage of stage" : "stage", stage, stages));
    }
  const std::int64_t slots =
      model.shape.layers + (options.counts_embedding ? 1 : 0) + (options.counts_loss ? 1 : 0);
  const std::vector<std::int64_t>& given = options.layers_of_chunks;
  const bool has_stages = options.first_stage_layers > 0 || options.last_stage_layers > 0;
  if (!given.empty() && (has_stages || options.counts_embedding || options.counts_loss))
    reasons.emplace_back(
        "--pipeline-model-parallel-layout does not go with other arguments that divide layers among stages");
  if (!given.empty() && std::ssize(given) != stages * each_has)
    reasons.push_back(
        fmt::format("--pipeline-model-parallel-layout has {} parts for {} pipeline stages of {}",
                    given.size(), stages, each_has));
  const bool is_uneven = has_stages || !given.empty();
  if (covered == model.shape.layers && (is_uneven || slots % (stages * each_has) == 0)) return;
  reasons.push_back(
      each_has > 1
          ? fmt::format("{} layers are not divisible by {} pipeline stages of {} virtual stages each", slots,
                        stages, each_has)
          : fmt::format("{} layers are not divisible by {} pipeline stages", slots, stages));
}

/// Source: Megatron-Core 0.19.2 core/pipeline_parallel/schedules.py
/// forward_backward_pipelining_with_interleaving, training/arguments.py validate_args,
/// core/model_parallel_config.py.
void check_interleaving(const Strategy& s, Reasons& reasons) {
  const MegatronOptions& options = *s.megatron;
  const std::int64_t stages = s.layout.pipeline, micro_batches = s.gradient_accumulation_steps;
  if (s.layout.virtual_stages == 1) {
    if (options.group_of_micro_batches > 0)
      reasons.emplace_back("--microbatch-group-size-per-virtual-pipeline-stage needs virtual stages");
    return;
  }
  if (stages == 1) return reasons.emplace_back("virtual stages need more than one pipeline stage"), void();
  if (!options.overlaps_transfers && stages == 2)
    reasons.emplace_back(
        "virtual stages with --no-overlap-p2p-communication need more than 2 pipeline stages");
  if (!options.overlaps_transfers && options.overlaps_warmup_and_flush)
    reasons.emplace_back(
        "--overlap-p2p-communication-warmup-flush does not go with --no-overlap-p2p-communication");
  const std::int64_t group = options.micro_batch_group(stages);
  if (group < stages || group > micro_batches)
    return reasons.push_back(fmt::format("virtual stages run micro-batches in groups of {}, which must be "
                                         "between the {} stages and the {} micro-batches of a step",
                                         group, stages, micro_batches)),
           void();
  if (const std::int64_t over = micro_batches % group; over > 0 && over < stages)
    reasons.push_back(
        fmt::format("{} micro-batches in groups of {} leave {} over: none, or {} and more, are "
                    "accepted",
                    micro_batches, group, over, stages));
}

/// Source: Megatron-Core 0.19.2 core/transformer/transformer_config.py __post_init__,
/// training/arguments.py validate_args.
void check_recompute(const Strategy& s, Reasons& reasons) {
  const MegatronOptions& options = *s.megatron;
  const MegatronOptions usual;
  const bool full = s.checkpointing == Checkpointing::full;
  if (!full && (options.recompute_method || options.recomputed_layers > 0))
    reasons.emplace_back("recompute-method and recompute-num-layers are of --checkpointing full");
  if (s.checkpointing != Checkpointing::selective && options.recomputed_modules != usual.recomputed_modules)
    reasons.emplace_back("recompute-modules are of --checkpointing selective");
  if (!options.divides_inputs) return;
  if (!full) reasons.emplace_back("distribute-saved-activations needs --checkpointing full");
  if (s.layout.tensor == 1)
    reasons.emplace_back(
        "distribute-saved-activations divides among tensor-parallel ranks, of which there is one");
  if (options.sequence_parallel)
    reasons.emplace_back("distribute-saved-activations does not go with sequence-parallel");
}

/// Source: Megatron-Core 0.19.2 training/arguments.py validate_args, core/transformer/transformer_config.py
/// __post_init__; Transformer Engine 2.20.2 attention/dot_product_attention/context_parallel.py.
void check_context(const Model& model, const Training& training, const Strategy& s, Reasons& reasons) {
  const MegatronOptions& options = *s.megatron;
  const std::int64_t ranks = s.layout.context;
  if (ranks == 1) return;
  if (options.attention == AttentionBackend::unfused)
    reasons.emplace_back("attention-backend unfused does not go with context parallelism");
  if (training.sequence_length % (2 * ranks) != 0)
    reasons.push_back(fmt::format("context parallel {} needs sequences divisible by {}", ranks, 2 * ranks));
  const std::vector<ContextExchange>& each = options.context_exchanges;
  if (each.size() > 1 && std::ssize(each) != model.shape.layers)
    reasons.push_back(
        fmt::format("cp-comm-type lists {} layers, the model has {}", each.size(), model.shape.layers));
  const auto uses = [&each](ContextExchange kind) { return std::ranges::find(each, kind) != each.end(); };
  std::int64_t parts = uses(ContextExchange::a2a) ? ranks : 1;
  if (uses(ContextExchange::a2a_p2p)) {
    const std::vector<std::int64_t>& levels = options.context_hierarchy;
    if (levels.size() != 2 || levels.front() > ranks || levels.front() * levels.back() != ranks) {
      reasons.push_back(fmt::format(
          "cp-comm-type a2a+p2p needs two hierarchical-context-parallel-sizes, whose product is {}", ranks));
      return;
    }
    parts = std::max(parts, levels.front());
  }
  const std::int64_t t = s.layout.tensor, heads = model.shape.attention_heads / t,
                     groups = std::max<std::int64_t>(model.shape.key_value_heads / t, 1);
  if (heads % parts != 0 || groups % parts != 0)
    reasons.push_back(fmt::format(
        "cp-comm-type a2a divides heads among {} ranks: of {} attention heads and {} key-value heads a "
        "tensor-parallel rank has {} and {}",
        parts, model.shape.attention_heads, model.shape.key_value_heads, heads, groups));
}

/// Source: Megatron-Core 0.19.2 core/optimizer/optimizer_config.py __post_init__, training/arguments.py
/// validate_args.
void check_optimizer(const Strategy& s, Reasons& reasons) {
  const MegatronOptions& options = *s.megatron;
  const bool all_fp32 = options.main_grads == StateType::fp32 && options.main_params == StateType::fp32 &&
                        options.first_moments == StateType::fp32 && options.second_moments == StateType::fp32;
  if (!options.precision_aware && !all_fp32)
    reasons.emplace_back(
        "main-grads-dtype, main-params-dtype, exp-avg-dtype and exp-avg-sq-dtype need "
        "use-precision-aware-optimizer");
  if (options.precision_aware && s.zero_stage != 1)
    reasons.emplace_back("use-precision-aware-optimizer needs --use-distributed-optimizer (--zero 1)");
  if (options.offloads_optimizer && !options.precision_aware)
    reasons.emplace_back("optimizer-cpu-offload needs use-precision-aware-optimizer");
}

/// Source: Megatron-Core 0.19.2 core/parallel_state.py initialize_model_parallel,
/// core/distributed/{distributed_data_parallel,distributed_data_parallel_config,param_and_grad_buffer}.py.
void check_reduction(const Strategy& s, Reasons& reasons) {
  const MegatronOptions& options = *s.megatron;
  const std::int64_t ranks = s.layout.gradient_ranks(), instances = options.optimizer_instances;
  if (ranks % instances != 0)
    reasons.push_back(
        fmt::format("{} data-parallel ranks are not divisible by {} num-distributed-optimizer-instances",
                    ranks, instances));
  if (instances > 1 && s.zero_stage != 1)
    reasons.emplace_back("num-distributed-optimizer-instances needs --use-distributed-optimizer (--zero 1)");
  if (instances > 1 && options.sums_in_fp32)
    reasons.emplace_back(
        "ddp-reduce-scatter-with-fp32-accumulation goes with one distributed optimizer instance");
  if (options.averages_in_collective && options.counts_tokens)
    reasons.emplace_back("ddp-average-in-collective does not go with calculate-per-token-loss");
  if (options.bucket_count > 0 && options.bucket_size.value > 0)
    reasons.emplace_back("ddp-num-buckets does not go with ddp-bucket-size");
  if (options.overlap_param_gather && (!options.overlap_grad_reduce || s.zero_stage == 0))
    reasons.emplace_back(
        "--overlap-param-gather needs --use-distributed-optimizer and --overlap-grad-reduce");
}

/// Source: ms-swift 4.6 swift/megatron/arguments/megatron_args.py rlhf_type, _init_grpo;
/// swift/megatron/trainers/.
void check_objective(const Training& training, const Strategy& s, Reasons& reasons) {
  using enum Objective;
  if (training.objective == sft) return;
  static constexpr std::array kKnown{dpo, kto, reward, grpo, gkd};
  if (std::ranges::find(kKnown, training.objective) == kKnown.end())
    reasons.push_back(
        fmt::format("ms-swift has no {} under Megatron-Core: its objectives are dpo, kto, reward, "
                    "grpo and gkd",
                    to_name(training.objective)));
  if (training.reference == ReferenceModel::precomputed)
    reasons.emplace_back(
        "under Megatron-Core a reference model runs in each forward step: --reference copy or adapters-off");
  if (s.layout.virtual_stages > 1 || s.megatron->predictions > 0)
    reasons.emplace_back(
        "objectives beside next tokens under Megatron-Core are planned without virtual stages and "
        "mtp-num-layers");
  if (training.objective == reward && training.method != Method::full)
    reasons.emplace_back("reward models under Megatron-Core are planned with all weights trained");
  if (generates(training) && training.rollout.engine == RolloutEngine::trainer)
    reasons.emplace_back("under Megatron-Core vLLM generates: --rollout colocate or server");
  if (passes(training) > 1)
    reasons.emplace_back(
        "ms-swift takes one pass over what was generated under Megatron-Core: --iterations 1");
}

/// Refuses what only other frameworks, or transformers' modules, have.
void check_training(const Training& training, const Strategy& s, Reasons& reasons) {
  if (training.method == Method::qlora || !training.trained_layers.empty())
    reasons.emplace_back("under Megatron-Core training of all weights or of LoRA's is planned");
  check_objective(training, s, reasons);
  if (training.precision != Precision::bf16 || !training.master_weights)
    reasons.emplace_back("under Megatron-Core training in bf16 with fp32 master weights is planned");
  if (training.optimizer != Optimizer::adamw && training.optimizer != Optimizer::sgd_momentum)
    reasons.emplace_back("under Megatron-Core AdamW and SGD with momentum are planned");
  if (training.optimizer != Optimizer::adamw && s.megatron->precision_aware)
    reasons.emplace_back("use-precision-aware-optimizer needs AdamW");
  if (s.megatron->fused_cross_entropy && s.megatron->loss_fusion == LossFusion::te)
    reasons.emplace_back(
        "Megatron-Core 0.19.2 has Transformer Engine's cross-entropy switched off: "
        "--cross-entropy-fusion-impl "
        "native");
  if (s.zero_stage > 1) reasons.emplace_back("Megatron-Core's distributed optimizer is stage 1");
  if (offloads(s) && !s.megatron->offloads_optimizer)
    reasons.emplace_back(
        "Megatron-Core offloads optimizer states with --megatron "
        "optimizer-cpu-offload,use-precision-aware-optimizer");
  if (s.offload_parameters != OffloadDevice::none || s.offload_optimizer == OffloadDevice::nvme)
    reasons.emplace_back("Megatron-Core offloads optimizer states alone, and to the host");
  if (training.modules.name != kMegatron.name || training.modules.kernels != LayerKernels{} ||
      training.fused_kernels || training.fused_loss || training.fused_head || training.loss_chunks > 1 ||
      training.attention == Attention::eager || training.padding_mask)
    reasons.emplace_back(
        "Megatron-Core runs layers and a loss of its own: --modules, --kernels, --fused-loss, --fused-head, "
        "--loss-chunks, --attention eager and masks of padding are transformers'");
}

/// Refuses adapters where mcore-bridge refuses them, or zplan has no plan of them. Source: mcore-bridge 1.6.5
/// tuners/lora.py LoraParallelLinear.
void check_adapters(const Model& model, const Training& training, const Strategy& s, Reasons& reasons) {
  if (training.method == Method::full) return;
  const MegatronOptions& options = *s.megatron;
  const std::vector<std::string>& targets = training.lora_targets.modules;
  if (std::ranges::find(targets, "output_layer") != targets.end())
    reasons.emplace_back(
        "mcore-bridge adapts Transformer Engine's layers, which the head (output_layer) is not");
  if (training.dora) reasons.emplace_back("mcore-bridge's adapters under Megatron-Core have no DoRA");
  if (!training.modules_to_save.empty() && model.shape.tied_embeddings)
    reasons.emplace_back(
        "--modules-to-save under Megatron-Core is planned where the embedding is not the head, too");
  if (options.predictions > 0 || s.layout.virtual_stages > 1)
    reasons.emplace_back(
        "adapters under Megatron-Core are planned without mtp-num-layers and virtual stages");
  if (!model.shape.experts) return;
  if (s.layout.expert_tensor > 1) reasons.emplace_back("mcore-bridge's adapters of experts need --etp 1");
  if (!options.groups_experts ||
      (s.checkpointing == Checkpointing::selective && options.recomputes(RecomputedModule::moe_act)))
    reasons.emplace_back(
        "adapters of experts under Megatron-Core are planned with moe-grouped-gemm, without recompute of "
        "moe_act");
}

void check_megatron(const Model& model, const Training& training, const Strategy& s, Reasons& reasons) {
  if (!s.megatron) {
    reasons.emplace_back("the strategy is another framework's");
    return;
  }
  const MegatronOptions& options = *s.megatron;
  check_shapes(model, s, reasons);
  megatron::check_mixtures(model, s, reasons);
  megatron::check_latent_attention(model, s, reasons);
  megatron::check_predictions(model, s, reasons);
  if (s.layout.pipeline > 1)
    check_division(model, s, reasons);
  else if (!options.layers_of_chunks.empty())
    reasons.emplace_back("pipeline-model-parallel-layout needs more than one pipeline stage");
  check_interleaving(s, reasons);
  if (s.layout.virtual_stages > 1 && (model.shape.experts || model.shape.latent_attention))
    reasons.emplace_back(
        "virtual stages under Megatron-Core are planned without mixtures of experts and latent attention");
  if (s.layout.virtual_stages > 1 && options.context_exchanges.size() > 1)
    reasons.emplace_back("virtual stages under Megatron-Core are planned with one cp-comm-type");
  check_training(training, s, reasons);
  check_adapters(model, training, s, reasons);
  if (s.layout.sequence > 1) reasons.emplace_back("Megatron-Core divides samples by --cp, not by --sp");
  check_recompute(s, reasons);
  check_context(model, training, s, reasons);
  check_optimizer(s, reasons);
  check_reduction(s, reasons);
  if (s.layout.replicate > 1) reasons.emplace_back("replicas under Megatron-Core are not planned");
  if (options.sequence_parallel && s.layout.tensor > 1 && training.sequence_length % s.layout.tensor != 0)
    reasons.push_back(fmt::format("sequence parallelism needs sequences divisible by {}", s.layout.tensor));
}

/// Leaves options of mixtures to models that have them, and norms the scores of all experts before the choice
/// where the model's own router does.
void fit_to_experts(MegatronOptions& options, const ModelShape& shape) {
  if (!shape.experts) {
    options.dispatcher = RowDispatcher::allgather;
    options.groups_experts = options.balancing_loss = false;
    return;
  }
  const bool norms_all = shape.operators.router == RouterForm::deepseek_v2 ||
                         (shape.operators.router == RouterForm::qwen && !shape.operators.divides_weights);
  options.router_pre_softmax = options.router_pre_softmax || norms_all;
  if (shape.experts->shared_intermediate_size == 0) options.overlaps_shared_experts = false;
}

void choose_options(const Question& question, Strategy& s) {
  MegatronOptions options = question.space.megatron;
  options.sequence_parallel = options.sequence_parallel && s.layout.tensor > 1;
  options.overlap_param_gather = options.overlap_param_gather && s.zero_stage == 1;
  fit_to_experts(options, question.model.shape);
  const std::int64_t layers = question.model.shape.layers,
                     stages = s.layout.pipeline * s.layout.virtual_stages;
  if (options.layers_of_chunks.empty() && layers % stages != 0 && divides_with_ends(layers, stages))
    options.counts_embedding = options.counts_loss = true;
  if (options.offloads_optimizer) s.offload_optimizer = OffloadDevice::cpu;
  s.megatron = options;
}

StepSchedule stage_schedule(const Strategy& strategy, std::int64_t stage) {
  const ParallelLayout& layout = strategy.layout;
  const std::int64_t micro_batches = strategy.gradient_accumulation_steps;
  if (layout.virtual_stages == 1) return one_forward_one_backward(stage, layout.pipeline, micro_batches);
  const MegatronOptions& options = *strategy.megatron;
  return interleaved_one_forward_one_backward(stage, {.stages = layout.pipeline,
                                                      .chunks = layout.virtual_stages,
                                                      .micro_batches = micro_batches,
                                                      .group = options.micro_batch_group(layout.pipeline),
                                                      .overlaps = options.overlaps_transfers,
                                                      .overlaps_ends = options.overlaps_warmup_and_flush});
}

std::vector<megatron::Bucket> first_buckets(const RankModel& model, const Strategy& s) {
  return megatron::buckets(model, s, true);
}

Shard megatron_shard(const RankModel& model, const Training& training, const Strategy& s) {
  const std::vector<megatron::Bucket> all = first_buckets(model, s);
  Shard shard;
  for (const megatron::Piece& each : megatron::owned_pieces(all, s, 0))
    shard.optimizer_elements += each.elements;
  const megatron::StateSizes sizes = megatron::state_sizes(*s.megatron, spec(training.optimizer).moments);
  shard.parameters = model.trainable * Bytes(2) + model.frozen_size;
  shard.master_weights = shard.optimizer_elements * sizes.master;
  shard.moments = shard.optimizer_elements * sizes.moments;
  shard.gradients = megatron::buffer_size(all) * Bytes(s.megatron->sums_in_bf16() ? 2 : 4);
  return shard;
}

std::vector<OptimizerTensor> megatron_tensors(const RankModel& model, const Training&, const Strategy& s) {
  std::vector<OptimizerTensor> tensors;
  for (const megatron::Piece& each : megatron::owned_pieces(first_buckets(model, s), s, 0))
    tensors.push_back({.elements = each.elements, .element = Bytes(4)});
  return tensors;
}

std::optional<std::string> megatron_replication(const Plan& plan, const Question&) {
  if (plan.fits_device || plan.strategy.zero_stage == 1) return std::nullopt;
  return "every data-parallel rank keeps all optimizer states: --use-distributed-optimizer divides them";
}

/// With fewer micro-batches than stages most stages wait. Source: Narayanan et al. 2021, sections 2.2.1 and
/// 2.2.2: stages wait (stages − 1) / (micro-batches · virtual stages) of the time that they work.
Reasons megatron_warnings(const Training&, const Strategy& s) {
  const std::int64_t stages = s.layout.pipeline, micro_batches = s.gradient_accumulation_steps;
  const std::int64_t passes = micro_batches * s.layout.virtual_stages;
  if (stages == 1 || passes >= 4 * (stages - 1)) return {};
  return {fmt::format(
      "{} stages run {} micro-batches a step: they wait {:.0f} % of the time that they work; a "
      "larger --global-batch fills the pipeline",
      stages, micro_batches, 100.0 * static_cast<double>(stages - 1) / static_cast<double>(passes))};
}

RunResult play_megatron(const RunInputs& inputs, const std::optional<AllocatorOptions>& allocator, int steps,
                        bool condensed) {
  return Player<MegatronRun>(inputs, allocator).play(steps, condensed);
}

void tally_megatron(const StepInputs& in, HostTally& tally) {
  const auto pieces = megatron::owned_pieces(first_buckets(in.rank, in.strategy), in.strategy, in.slice.rank);
  megatron::tally_host(megatron::divide(pieces, in.rank, *in.strategy.megatron).on_host,
                       spec(in.training.optimizer).moments, tally);
}

/// Source: Megatron-LM megatron/training/training.py get_model; dist_checkpointing reads into it.
ModelFiles megatron_files(const StepInputs&) {
  return {.made_on_device = true, .saves = SavedModel::sharded, .load_remedy = "", .save_remedy = ""};
}

/// Megatron's own pretraining script, which has neither adapters nor other objectives than next tokens.
Launch megatron_launch(const Plan& plan, const Question& question, const std::string&) {
  if (question.training.method != Method::full || question.training.objective != Objective::sft) return {};
  Words words = torchrun_words(question.cluster);
  add(words, {"pretrain_gpt.py"});
  for (const megatron::Argument& each : megatron::arguments_of(plan, question))
    add(words, {megatron::shell_text(each)});
  return {.torchrun = join(words)};
}

/// Source: mcore-bridge 1.6.5 tuners/lora.py, tuners/patcher.py dispatch_megatron; peft 0.19 to 0.21
/// tuners/lora/model.py, which pass the config in the place of its values.
std::vector<std::string> megatron_notes(const Plan&, const Question& question) {
  const Training& training = question.training;
  std::vector<std::string> notes;
  if (question.model.shape.delta_net)
    notes.emplace_back(
        "gated linear attention is mcore-bridge's over Megatron-Core: its memory follows their source, steps "
        "with it were not recorded");
  if (training.objective != Objective::sft)
    notes.push_back(
        fmt::format("{} over Megatron-Core's layers is ms-swift's (megatron rlhf), not pretrain_gpt.py's: "
                    "planned from its "
                    "source, steps of it were not recorded",
                    to_name(training.objective)));
  if (training.method == Method::full) return notes;
  notes.emplace_back(
      "adapters of Megatron-Core's layers are those of ms-swift (megatron sft --tuner_type lora), not of "
      "pretrain_gpt.py");
  if (training.lora_dropout > 0)
    notes.emplace_back(
        "lora_dropout is planned as peft up to 0.18 applies it: with peft 0.19 and later mcore-bridge 1.6.5 "
        "does not apply it, and the run takes less memory");
  return notes;
}

}  // namespace

const FrameworkSpec& megatron_spec() {
  static const FrameworkSpec kSpec{
      .title = "Megatron-Core: ",
      .calls_source = "Megatron-Core's calls (docs/megatron.md); nccl-tests doc/PERFORMANCE.md",
      .host_source = "",
      .terms = kMegatronTable,
      .config_file = "",
      .reads_ds_config = false,
      .reads_accelerate_config = false,
      .stages = kMegatronStages,
      .offloads = kMegatronOffloads,
      .splits_layers = true,
      .runs_alst = false,
      .runs_ulysses = false,
      .passes_keys = true,
      .divides_experts = false,
      .has_stages = true,
      .replicates = false,
      .sharded_instead = {},
      .packed_instead = {},
      .casts_model = true,
      .handles_weights = true,
      .gathers_at_modules = false,
      .autocasts_masters = false,
      .fused_lion = false,
      .makes_shards = false,
      .fuses_host_optimizer = true,
      .adds_on_host = false,
      .kernel = OptimizerKernel::fused,
      .shards_reference = [](const Strategy&) { return false; },
      .casts_adapters = [](const Training&, const Strategy&) { return true; },
      .adapt = adapt_to_megatron,
      .choose = choose_options,
      .schedule = stage_schedule,
      .check = check_megatron,
      .sharding_name = [](const Strategy& s) { return std::string(s.zero_stage == 1 ? "distopt" : "ddp"); },
      .warnings =
          [](const Training&) {
            return Reasons{
                "few measured runs of Megatron-Core were compared with its plans: ranges of memory and time "
                "are "
                "those "
                "of other frameworks"};
          },
      .strategy_warnings = megatron_warnings,
      .replication = megatron_replication,
      .shard = megatron_shard,
      .slices = [](const RankModel&, const Training&, const Strategy&) { return std::vector<Slice>{}; },
      .optimizer_tensors = megatron_tensors,
      .sums_on_host = [](const RankModel&, const Training&, const Strategy&,
                         const Shard&) { return Elements{}; },
      .play = play_megatron,
      .flattening = [](const RunInputs&) { return std::optional<Flattening>{}; },
      .offload = tally_megatron,
      .files = megatron_files,
      .launch = megatron_launch,
      .config_notes = megatron_notes,
  };
  return kSpec;
}

}  // namespace zplan
