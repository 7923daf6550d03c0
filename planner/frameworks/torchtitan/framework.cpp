#include "planner/question/framework.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>

#include "planner/frameworks/launch/launch.h"
#include "planner/frameworks/torchtitan/settings.h"
#include "planner/frameworks/torchtitan/shards.h"
#include "planner/frameworks/torchtitan/titan_run.h"
#include "planner/plan/plan.h"
#include "planner/question/question.h"
#include "planner/sharding/optimizer_state.h"
#include "planner/sharding/shard.h"
#include "planner/sharding/torchtitan_model.h"
#include "planner/simulation/host_tally.h"
#include "planner/simulation/player.h"
#include "planner/step/step_schedule.h"

namespace zplan {

namespace {

using enum Term;
constexpr std::string_view kSource =
    "torchtitan 0.3.0 on torch 2.14.1, whole steps recorded (docs/torchtitan.md)";
constexpr std::array<TermInfo, 6> kTitanTable{{
    {trained_parameters, MemoryPart::parameters, "shards of parameters",
     "4·σ, σ = Σ⌈rows/N⌉·(elements of a row) over the parameters", kSource},
    {gathered_parameters, MemoryPart::parameters, "gathered parameters",
     "2·σ·N of each unit that is whole, + 2·σ·N of all-gathers' outputs, + 2·σ of what goes into one",
     kSource},
    {gradient_partition, MemoryPart::gradients, "reduced gradients", "4·σ until the next step", kSource},
    {fp32_gradients, MemoryPart::gradients, "whole gradients that are not reduced yet",
     "4·Ψ of the head while the loss runs in slices, of a stage in a pipeline", kSource},
    {gradient_bucket, MemoryPart::communication_buffers, "reduce-scatter inputs", "4·σ·N of a unit", kSource},
    {bucket_copy, MemoryPart::communication_buffers, "sizes of a reduce-scatter", "8 B per entry", kSource},
}};

constexpr std::array kTitanStages{3};
constexpr std::array kTitanOffloads{Offload{}};

/// torchtitan runs modules of its own; modules and kernels that were chosen stay, so that the check can
/// refuse them.
Training adapt_to_titan(Training training) {
  if (training.modules == kTransformers) training.modules = kTorchtitanDecoder;
  training.optimizer_kernel = OptimizerKernel::fused;
  training.fsdp_wraps_ends = true;
  training.fsdp_reduces_fp32 = true;
  return training;
}

/// True if torchtitan has the model's mixtures: Qwen3's without shared experts, and DeepSeek's.
bool is_titan_mixture(const Model& model) {
  const ModelShape& shape = model.shape;
  const RouterForm router = shape.operators.router;
  if (shape.latent_attention) return router == RouterForm::deepseek_v2 || router == RouterForm::deepseek_v3;
  return router == RouterForm::qwen && has_norms_of_heads(model) &&
         shape.experts->shared_intermediate_size == 0;
}

/// True if torchtitan has the model: layers of two norms, attention of grouped heads or, in DeepSeek's,
/// latent attention, and gated feed-forwards or mixtures of experts.
bool is_titan_model(const Model& model) {
  const ModelShape& shape = model.shape;
  const Operators& operators = shape.operators;
  const bool has_program = model.recorded == nullptr && model.analogue == nullptr && !model.vision;
  const bool is_plain =
      !shape.delta_net && !shape.parallel_attention && shape.sliding_window == 0 && !shape.logit_soft_cap &&
      operators.layer == LayerForm::usual && !operators.scales_embedding && !operators.scales_residual &&
      !operators.norms_span_heads && !operators.normalises_head && !operators.bare_norms && shape.gated_mlp;
  const auto is_biased = [](const Tensor& each) { return each.name.ends_with(".bias"); };
  bool has_biases = false;
  for_each_tensor(model.inventory, [&](const Tensor& each, int) { has_biases |= is_biased(each); });
  const bool knows_layers = shape.experts ? is_titan_mixture(model) : !shape.latent_attention;
  return has_program && is_plain && knows_layers && !has_biases && operators.rotary != Rotary::none &&
         !has_tower(model) && shape.modules.norm_behind_attention.empty() &&
         shape.modules.embedding_norm.empty();
}

/// Source: torchtitan 0.3.0 distributed/{parallel_dims,fsdp}.py; torch 2.14.1
/// distributed/fsdp/_fully_shard/_fsdp_param.py.
void check_experts(const Model& model, const Strategy& s, Reasons& reasons) {
  const ParallelLayout& layout = s.layout;
  if (layout.expert_tensor > 1)
    reasons.emplace_back("torchtitan divides experts' tensors among all tensor-parallel ranks: --etp 1");
  if (!model.shape.experts) {
    if (layout.expert > 1) reasons.emplace_back("the model has no experts to divide: --ep 1");
    return;
  }
  const MixtureOfExperts& experts = *model.shape.experts;
  if (layout.expert < 1 || experts.experts % layout.expert != 0)
    reasons.push_back(
        fmt::format("expert_parallel_degree {} does not divide {} experts", layout.expert, experts.experts));
  const std::int64_t ranks = layout.shard_ranks() * layout.tensor;
  if (layout.expert < 1 || ranks % layout.expert != 0)
    reasons.push_back(fmt::format("expert_parallel_degree {} does not divide the {} ranks that shard a copy",
                                  layout.expert, ranks));
  if (layout.expert == 1 && experts.intermediate_size % layout.tensor != 0)
    reasons.push_back(fmt::format("tensor_parallel_degree {} does not divide experts of {}", layout.tensor,
                                  experts.intermediate_size));
  if (!reasons.empty()) return;
  RankTensor stack;
  stack.role = TensorRole::expert, stack.copies = experts.experts / layout.expert;
  const std::int64_t width = experts.intermediate_size / (layout.expert > 1 ? 1 : layout.tensor),
                     among = titan::shard_ranks(stack, layout);
  if (titan::shards_widths(stack, layout) && (width % among != 0 || model.shape.hidden_size % among != 0))
    reasons.push_back(
        fmt::format("more ranks than experts shard each expert's features: {} ranks do not divide {} and {}",
                    among, width, model.shape.hidden_size));
  if (model.shape.latent_attention && s.torchtitan->attention == TitanAttention::varlen)
    reasons.emplace_back("latent attention is planned with attn_backend=flex");
}

/// Source: torchtitan 0.3.0 models/common/decoder.py update_from_config, components/loss.py
/// ChunkedLossWrapper, distributed/full_dtensor.py validate_config.
void check_shapes(const Model& model, const Training& training, const Strategy& s, Reasons& reasons) {
  const ModelShape& shape = model.shape;
  const std::int64_t t = s.layout.tensor, tokens = training.sequence_length;
  if (!is_titan_model(model))
    reasons.push_back(fmt::format(
        "torchtitan is planned for models like Llama 3, Qwen3 and DeepSeek-V3, {} is not one of them",
        shape.architecture));
  if (shape.max_positions > 0 && tokens > shape.max_positions)
    reasons.push_back(
        fmt::format("sequences of {} tokens exceed the model's longest, {}: torchtitan refuses them", tokens,
                    shape.max_positions));
  if (shape.attention_heads % t != 0)
    reasons.push_back(
        fmt::format("tensor_parallel_degree {} must divide {} attention heads", t, shape.attention_heads));
  if (shape.key_value_heads % t != 0)
    reasons.push_back(
        fmt::format("tensor_parallel_degree {} must divide {} key-value heads", t, shape.key_value_heads));
  if (shape.intermediate_size % t != 0)
    reasons.push_back(fmt::format("tensor_parallel_degree {} does not divide a feed-forward of {}", t,
                                  shape.intermediate_size));
  const std::int64_t parts = t * (s.layout.context > 1 ? 2 * s.layout.context : 1);
  if (tokens % parts != 0)
    reasons.push_back(
        fmt::format("sequences of {} tokens must be divisible by {} for tensor and context "
                    "parallelism",
                    tokens, parts));
  if (s.torchtitan->loss_chunks > 0 && tokens % s.torchtitan->loss_chunks != 0)
    reasons.push_back(fmt::format(
        "the loss in {} slices needs sequences divisible by {}: --torchtitan num_chunks=N, or 0 for whole "
        "logits",
        s.torchtitan->loss_chunks, s.torchtitan->loss_chunks));
  // Its own Llama 3 has positions for as many tokens, whatever a config.json says.
  constexpr std::int64_t kLlamaPositions = 131'072;
  const std::int64_t positions =
      has_norms_of_heads(model) ? shape.max_positions : std::max(shape.max_positions, kLlamaPositions);
  if (positions > 0 && tokens > positions)
    reasons.push_back(
        fmt::format("{} tokens exceed the {} positions of the model's rotary embedding", tokens, positions));
}

/// Refuses what only other frameworks, or transformers' modules, have.
void check_training(const Training& training, const Strategy& s, Reasons& reasons) {
  if (training.method != Method::full || training.objective != Objective::sft ||
      !training.trained_layers.empty())
    reasons.emplace_back("under torchtitan full training on next tokens is planned");
  if (training.precision == Precision::fp16)
    reasons.emplace_back("under torchtitan computing in bf16 and fp32 is planned");
  if (training.optimizer != Optimizer::adamw) reasons.emplace_back("under torchtitan AdamW is planned");
  if (s.zero_stage != 3) reasons.emplace_back("torchtitan shards by FSDP2, which is planned as stage 3");
  if (offloads(s)) reasons.emplace_back("offload under torchtitan is not planned");
  if (training.modules.name != kTorchtitanDecoder.name || training.modules.kernels != LayerKernels{} ||
      training.fused_kernels || training.fused_loss || training.fused_head || training.loss_chunks > 1 ||
      training.attention == Attention::eager || training.padding_mask)
    reasons.emplace_back(
        "torchtitan runs layers and a loss of its own: --modules, --kernels, --fused-loss, --fused-head, "
        "--loss-chunks, --attention eager and masks of padding are transformers'");
}

/// Source: torchtitan 0.3.0 distributed/pipeline_parallel.py pipeline_module_split.
void check_chunks(const Strategy& s, Reasons& reasons) {
  const PipelineSchedule schedule = s.torchtitan->schedule;
  const std::int64_t chunks = s.layout.virtual_stages;
  if (is_v_shaped(schedule)) {
    if (chunks != 2)
      reasons.push_back(fmt::format("the schedule {} takes 2 virtual stages on each rank (--vpp 2), not {}",
                                    to_name(schedule), chunks));
    return;
  }
  if (takes_chunks(schedule) == (chunks > 1)) return;
  reasons.push_back(fmt::format("the schedule {} {}", to_name(schedule),
                                takes_chunks(schedule) ? "needs at least 2 virtual stages (--vpp)"
                                                       : "takes one virtual stage (--vpp 1)"));
}

/// Refuses more than titan::kOwnParts on each rank where no number of layers a part makes so many parts.
/// Source: torchtitan 0.3.0 distributed/pipeline_parallel.py _get_pipeline_metadata.
void check_layers_of_stages(const Strategy& s, std::int64_t slots, Reasons& reasons) {
  const std::int64_t stages = s.layout.pipeline, chunks = s.layout.virtual_stages;
  const auto is_made = [&](std::int64_t parts) { return divide_up(slots, divide_up(slots, parts)) == parts; };
  if (chunks <= titan::kOwnParts || slots < stages * chunks || is_made(stages * chunks)) return;
  std::vector<std::int64_t> others{1, titan::kOwnParts};
  for (std::int64_t other = titan::kOwnParts + 1; other <= slots / stages; ++other)
    if (is_made(stages * other)) others.push_back(other);
  reasons.push_back(fmt::format(
      "no pipeline_parallel_layers_per_stage divides {} layers, with what counts for the first and the last, "
      "into {} parts; --vpp {}",
      slots, stages * chunks, fmt::join(others, ", ")));
}

/// Refuses what a backward in two parts cannot do. Source: torch 2.14.1 utils/checkpoint.py
/// _CachedTorchDispatchMode, distributed/pipelining/_backward.py stage_backward_input.
void check_split_backward(const Strategy& s, Reasons& reasons) {
  const PipelineSchedule schedule = s.torchtitan->schedule;
  if (!splits_backward(schedule)) return;
  if (s.checkpointing == Checkpointing::selective)
    reasons.push_back(
        fmt::format("{} goes backward twice through a layer, which selective checkpointing does not allow: "
                    "--checkpointing full or none",
                    to_name(schedule)));
  if (s.torchtitan->resharding == Resharding::always)
    reasons.push_back(
        fmt::format("fsdp_reshard_after_forward=always is not planned under {}: of weights that a forward "
                    "released before their backward torch loses the gradients",
                    to_name(schedule)));
}

/// Source: torchtitan 0.3.0 distributed/pipeline_parallel.py _get_pipeline_metadata,
/// _generate_llm_fqn_per_model_part; torch 2.14.1 distributed/pipelining/schedules.py.
void check_pipeline(const Model& model, const Strategy& s, Reasons& reasons) {
  const TitanOptions& options = *s.torchtitan;
  const std::int64_t stages = s.layout.pipeline, chunks = s.layout.virtual_stages,
                     local = titan::local_batch(s);
  if (stages == 1) {
    if (chunks > 1) reasons.emplace_back("virtual stages need more than one pipeline stage");
    if (options.local_batch > 0)
      reasons.emplace_back(
          "without pipeline stages the local batch is the micro-batch: --micro-batch instead of "
          "local_batch_size");
    return;
  }
  const std::int64_t samples = s.micro_batch_size * s.gradient_accumulation_steps;
  if (local % s.micro_batch_size != 0 || samples % local != 0) {
    reasons.push_back(fmt::format(
        "local_batch_size {} must be a multiple of micro-batches of {} and divide the {} samples of a step",
        local, s.micro_batch_size, samples));
    return;
  }
  constexpr std::int64_t kMostPasses = 64;  // each is simulated
  if (titan::passes_of_step(s) > kMostPasses)
    reasons.push_back(
        fmt::format("{} passes of local_batch_size {} in a step are more than the {} that are "
                    "planned",
                    titan::passes_of_step(s), local, kMostPasses));
  const std::int64_t micro_batches = titan::micro_batches_of_pass(s);
  if (model.shape.tied_embeddings) reasons.emplace_back("weight tying is not supported with pipeline stages");
  const std::int64_t slots = torchtitan_slots(model.shape.layers, options), parts = stages * chunks,
                     each = slots / parts;
  if (each == 0 || options.first_stage_less > each || options.last_stage_less > each)
    reasons.push_back(
        fmt::format("{} layers cannot be divided into {} parts of the pipeline", model.shape.layers, parts));
  check_chunks(s, reasons);
  check_layers_of_stages(s, slots, reasons);
  if (options.schedule == PipelineSchedule::one_forward_one_backward && micro_batches < stages)
    reasons.push_back(
        fmt::format("1F1B needs at least as many micro-batches as stages: {} of {}", micro_batches, stages));
  const bool has_rounds = options.schedule == PipelineSchedule::interleaved ||
                          options.schedule == PipelineSchedule::interleaved_zero_bubble;
  if (has_rounds && micro_batches % std::max<std::int64_t>(1, micro_batches / stages) != 0)
    reasons.push_back(
        fmt::format("{} needs a number of micro-batches that is a multiple of its {} rounds, not {}",
                    to_name(options.schedule), micro_batches / stages, micro_batches));
  if (options.schedule == PipelineSchedule::dual_pipe_v && micro_batches < parts)
    reasons.push_back(fmt::format(
        "DualPipeV needs at least as many micro-batches as virtual stages: {} of {}", micro_batches, parts));
  check_split_backward(s, reasons);
}

/// Source: torchtitan 0.3.0 models/llama3/model.py update_from_config,
/// distributed/context_parallel/api.py.
void check_context(const Training& training, const Strategy& s, Reasons& reasons) {
  const std::int64_t ranks = s.layout.context;
  if (s.layout.sequence > 1) reasons.emplace_back("torchtitan divides samples by --cp, not by --sp");
  if (ranks == 1) return;
  if (s.torchtitan->attention == TitanAttention::varlen)
    reasons.emplace_back("varlen attention is not supported with context parallelism: attn_backend=flex is");
  const std::int64_t chunks = s.torchtitan->loss_chunks;
  if (chunks > 0 && training.sequence_length / ranks % chunks != 0)
    reasons.push_back(fmt::format("the loss in {} slices needs {} tokens of each rank divisible by them",
                                  chunks, training.sequence_length / ranks));
}

void check_titan(const Model& model, const Training& training, const Strategy& s, Reasons& reasons) {
  if (!s.torchtitan) {
    reasons.emplace_back("the strategy is another framework's");
    return;
  }
  check_shapes(model, training, s, reasons);
  check_training(training, s, reasons);
  check_pipeline(model, s, reasons);
  check_context(training, s, reasons);
  check_experts(model, s, reasons);
  if (s.torchtitan->backend != SpmdBackend::spmd_types && (s.layout.pipeline > 1 || model.shape.experts))
    reasons.push_back(fmt::format("spmd_backend {} is planned for dense models without pipeline stages",
                                  to_name(s.torchtitan->backend)));
}

void choose_options(const Question& question, Strategy& s) {
  TitanOptions options = question.space.torchtitan;
  // 1F1B, which is torchtitan's default, has one chunk of layers on each stage.
  if (s.layout.virtual_stages > 1 && options.schedule == PipelineSchedule::one_forward_one_backward)
    options.schedule = PipelineSchedule::interleaved;
  s.torchtitan = options;
}

TorchPipeline::Order chunk_order(PipelineSchedule schedule) {
  using Order = TorchPipeline::Order;
  switch (schedule) {
    case PipelineSchedule::looped_breadth_first: return Order::breadth_first;
    case PipelineSchedule::interleaved_zero_bubble: return Order::interleaved_zero_bubble;
    case PipelineSchedule::zero_bubble_v: return Order::zero_bubble_v;
    case PipelineSchedule::dual_pipe_v: return Order::dual_pipe_v;
    default: return Order::interleaved;
  }
}

StepSchedule pass_schedule(const Strategy& strategy, std::int64_t stage) {
  const ParallelLayout& layout = strategy.layout;
  const std::int64_t micro_batches = titan::micro_batches_of_pass(strategy);
  const PipelineSchedule schedule = strategy.torchtitan->schedule;
  if (schedule == PipelineSchedule::gpipe) return torch_gpipe(stage, layout.pipeline, micro_batches);
  if (!takes_chunks(schedule)) return torch_one_forward_one_backward(stage, layout.pipeline, micro_batches);
  return torch_looped(stage, {.stages = layout.pipeline,
                              .chunks = layout.virtual_stages,
                              .micro_batches = micro_batches,
                              .order = chunk_order(schedule)});
}

StepSchedule stage_schedule(const Strategy& strategy, std::int64_t stage) {
  return repeated(pass_schedule(strategy, stage), titan::passes_of_step(strategy),
                  titan::micro_batches_of_pass(strategy));
}

RunResult play_titan(const RunInputs& inputs, const std::optional<AllocatorOptions>& allocator, int steps,
                     bool condensed) {
  return Player<TitanRun>(inputs, allocator).play(steps, condensed);
}

/// Warns of what backwards in two parts do to training.
Reasons split_backward_warnings(const Training&, const Strategy& s) {
  Reasons warnings;
  if (!s.torchtitan || s.layout.pipeline == 1 || !splits_backward(s.torchtitan->schedule)) return warnings;
  const std::string_view schedule = to_name(s.torchtitan->schedule);
  if (loses_last_gradients(*s.torchtitan))
    warnings.push_back(fmt::format(
        "under {} the loss in slices leaves the final norm {}: --torchtitan num_chunks=0", schedule,
        skips_final_norm(*s.torchtitan, s.layout) ? "without gradients, so that it does not train"
                                                  : "without the gradients of some micro-batches"));
  if (s.checkpointing == Checkpointing::full)
    warnings.push_back(
        fmt::format("under {} full checkpointing runs a layer again for the gradient of each of its weights: "
                    "--checkpointing none",
                    schedule));
  return warnings;
}

std::optional<std::string> titan_replication(const Plan& plan, const Question&) {
  if (plan.fits_device) return std::nullopt;
  return "the head's fp32 gradient and its reduction are whole while the loss runs in slices";
}

/// Source: torchtitan 0.3.0 trainer.py: the meta device, to_empty, then init_weights or a distributed
/// checkpoint.
ModelFiles titan_files(const StepInputs&) {
  return {.made_on_device = true, .saves = SavedModel::sharded, .load_remedy = "", .save_remedy = ""};
}

Launch titan_launch(const Plan& plan, const Question& question, const std::string&) {
  Words words = torchtitan_words(question.cluster);
  for (const auto& [name, value] : titan::settings_of(plan, question)) {
    words.push_back(name);
    if (!value.empty()) words.push_back(shell_word(value));
  }
  return {.torchtitan = join(words)};
}

}  // namespace

const FrameworkSpec& torchtitan_spec() {
  static const FrameworkSpec kSpec{
      .title = "torchtitan: ",
      .calls_source = "torchtitan's calls (docs/torchtitan.md); nccl-tests doc/PERFORMANCE.md",
      .host_source = "",
      .terms = kTitanTable,
      .config_file = "",
      .reads_ds_config = false,
      .reads_accelerate_config = false,
      .stages = kTitanStages,
      .offloads = kTitanOffloads,
      .splits_layers = true,
      .runs_alst = false,
      .runs_ulysses = false,
      .passes_keys = true,
      .divides_experts = false,
      .has_stages = true,
      .replicates = true,
      .sharded_instead = {},
      .packed_instead = {},
      .casts_model = false,
      .handles_weights = true,
      .gathers_at_modules = false,
      .autocasts_masters = false,
      .fused_lion = false,
      .makes_shards = true,
      .fuses_host_optimizer = false,
      .adds_on_host = false,
      .kernel = OptimizerKernel::fused,
      .shards_reference = [](const Strategy&) { return false; },
      .casts_adapters = [](const Training&, const Strategy&) { return false; },
      .adapt = adapt_to_titan,
      .choose = choose_options,
      .schedule = stage_schedule,
      .check = check_titan,
      .sharding_name = [](const Strategy&) { return std::string("titan"); },
      .warnings =
          [](const Training&) {
            return Reasons{
                "few measured runs of torchtitan were compared with its plans: ranges of memory and time are "
                "those of other frameworks"};
          },
      .strategy_warnings = split_backward_warnings,
      .replication = titan_replication,
      .shard = titan::held_shard,
      .slices = [](const RankModel&, const Training&, const Strategy&) { return std::vector<Slice>{}; },
      .optimizer_tensors = [](const RankModel& model, const Training&,
                              const Strategy& s) { return titan::optimized_shards(model, s); },
      .sums_on_host = [](const RankModel&, const Training&, const Strategy&,
                         const Shard&) { return Elements{}; },
      .play = play_titan,
      .flattening = [](const RunInputs&) { return std::optional<Flattening>{}; },
      .offload = [](const StepInputs&, HostTally&) {},
      .files = titan_files,
      .launch = titan_launch,
      .config_notes = [](const Plan&, const Question&) { return std::vector<std::string>{}; },
  };
  return kSpec;
}

}  // namespace zplan
