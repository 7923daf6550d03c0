#include "planner/frameworks/legality.h"

#include <fmt/format.h>

#include <utility>

#include "planner/frameworks/framework.h"
#include "planner/model_trace/recorded_tape.h"

namespace zplan {

namespace {

/// Since when accelerate runs Ulysses with it. Source: accelerate 1.15 parallelism_config.py.
constexpr DeepSpeedRelease kUlysses{0, 18, 2};

/// Whether attention passes transformers' interface, which is what both replace or hook.
bool shares_attention(const ModelShape& shape) {
  return shape.operators.attention == AttentionForm::shared &&
         shape.operators.kernels == AttentionKernels::all;
}

void check_heads(const ModelShape& shape, std::int64_t ranks, Reasons& reasons) {
  const std::int64_t heads = shape.attention_heads, key_value = shape.key_value_heads;
  if (heads % ranks != 0)
    reasons.push_back(fmt::format(
        "sequence parallel {0} does not divide the {1} attention heads; DeepSpeed: Attention head count {1} "
        "is not divisible by SP size {0}",
        ranks, heads));
  if (key_value % ranks != 0 && ranks % key_value != 0)
    reasons.push_back(
        fmt::format("sequence parallel {0} and the {1} key-value heads do not divide one another; DeepSpeed: "
                    "KV attention "
                    "head count {1} is not divisible by SP size {0} or vice versa",
                    ranks, key_value));
}

void check_sequence_parallel(const Model& model, const Training& training, const Strategy& s,
                             const FrameworkSpec& framework, Reasons& reasons) {
  const std::int64_t ranks = s.layout.sequence;
  if (ranks == 1) return;
  if (!framework.runs_alst) {
    reasons.emplace_back(
        "sequence parallelism (Ulysses) is DeepSpeed's: take --framework deepspeed, or --cp");
    return;
  }
  if (training.deepspeed < kUlysses)
    reasons.push_back(fmt::format("accelerate runs Ulysses with DeepSpeed {} or newer, not {}",
                                  to_text(kUlysses), to_text(training.deepspeed)));
  if (s.layout.tensor > 1)
    reasons.emplace_back("Ulysses' process groups leave none for AutoTP: one of --sp and --tp is 1");
  check_heads(model.shape, ranks, reasons);
  if (training.sequence_length % ranks != 0)
    reasons.push_back(fmt::format(
        "sequence parallel {1} does not divide sequences of {0} tokens; DeepSpeed: batch's seqlen={0} isn't "
        "divisible by sp-size={1}",
        training.sequence_length, ranks));
  if (training.attention == Attention::eager)
    reasons.emplace_back(
        "DeepSpeed: eager attn_implementation isn't currently supported by Ulysses sequence parallelism: "
        "take --attention flash or sdpa");
  if (!shares_attention(model.shape) || model.shape.latent_attention)
    reasons.push_back(
        fmt::format("the attention of {} is none that Ulysses takes the place of (one size of heads, through "
                    "transformers' "
                    "attention interface)",
                    model.shape.architecture));
}

void check_context_parallel(const Model& model, const Training& training, const Strategy& s,
                            const FrameworkSpec& framework, Reasons& reasons) {
  const std::int64_t ranks = s.layout.context;
  if (ranks == 1) return;
  if (s.layout.sequence > 1)
    reasons.emplace_back(
        "accelerate takes one of sequence and context parallelism: one of --sp and --cp is 1");
  if (!framework.passes_keys) {
    reasons.emplace_back("context parallelism (ring attention) is FSDP2's: take --framework fsdp, or --sp");
    return;
  }
  if (training.sequence_length % (2 * ranks) != 0)
    reasons.push_back(
        fmt::format("context parallel {} needs sequences of a multiple of {} tokens, head and tail of which "
                    "go to each rank (--seq {} is none)",
                    ranks, 2 * ranks, training.sequence_length));
  if (training.attention == Attention::eager)
    reasons.emplace_back("context parallelism runs scaled_dot_product_attention alone, not eager attention");
  if (model.shape.sliding_window > 0 && model.shape.sliding_layers > 0)
    reasons.emplace_back("ring attention has no sliding window: it drops the mask that makes one");
  if (!shares_attention(model.shape))
    reasons.push_back(fmt::format("the attention of {} is none that the ring takes the place of",
                                  model.shape.architecture));
  if (s.layout.replicate > 1)
    reasons.emplace_back("hybrid sharding beside context parallelism is not planned");
}

void check_tiled_loss(const Model& model, const Training& training, const Strategy& s, Reasons& reasons) {
  if (s.long_context.tiled_loss == 0) return;
  if (training.fused_loss || training.loss_chunks > 1)
    reasons.emplace_back("a tiled loss takes the place of a fused or chunked one: drop one of them");
  if (s.layout.tensor > 1) reasons.emplace_back("a tiled loss under AutoTP is not planned");
  if (!model.shape.tied_embeddings || training.method != Method::full) return;
  if (s.zero_stage == 2)
    reasons.emplace_back(
        "a tiled loss reduces the head's gradient before the embedding's, which tied embeddings share; "
        "DeepSpeed: The parameter model.embed_tokens.weight has already been reduced. Gradient computed "
        "twice for this partition");
  if (s.zero_stage == 3 && parameters(model) <= s.zero.reduce_bucket_size)
    reasons.emplace_back(
        "a tiled loss with tied embeddings stops at ZeRO-3 where all gradients fit the bucket; DeepSpeed: "
        "'NoneType' object has no attribute 'numel'");
}

void check_tiles(const Model& model, const Training& training, const Strategy& s,
                 const FrameworkSpec& framework, Reasons& reasons) {
  const bool tiles = s.long_context.tiles();
  if (tiles && !framework.runs_alst)
    reasons.emplace_back("tiles tell DeepSpeed when a gradient is complete: FSDP2 and DDP have no such word");
  if (s.long_context.tiled_mlp != 0 && model.shape.experts)
    reasons.emplace_back("the tiled feed-forward is not planned for routed experts");
  if (s.long_context.tiled_mlp != 0 && model.shape.operators.linear == LinearForm::conv1d)
    reasons.push_back(fmt::format(
        "{}'s Conv1D views its input as rows, which a slice of several samples is not; PyTorch: view "
        "size is not compatible with input tensor's size and stride: no tiled MLP",
        model.shape.architecture));
  check_tiled_loss(model, training, s, reasons);
}

void check_checkpoint_offload(const Training& training, const Strategy& s, const FrameworkSpec& framework,
                              Reasons& reasons) {
  if (s.long_context.checkpoint_offload == CheckpointOffload::none) return;
  if (!framework.runs_alst) reasons.emplace_back("checkpoints on the host are planned for DeepSpeed alone");
  if (s.checkpointing != Checkpointing::full)
    reasons.emplace_back("there are checkpoints to keep on the host under --checkpointing full alone");
  if (s.long_context.checkpoint_offload == CheckpointOffload::pinned && training.reentrant_checkpointing)
    reasons.emplace_back("DeepSpeed's hooks see what non-reentrant checkpointing saves: not reentrant");
}

void check_positions(const Model& model, const Training& training, Reasons& reasons) {
  const ModelShape& shape = model.shape;
  const bool learned = elements(model.inventory, TensorRole::position_embedding).value > 0;
  if (learned && shape.max_positions > 0 && training.sequence_length > shape.max_positions)
    reasons.push_back(fmt::format("{} has learned positions for {} tokens, fewer than --seq {}",
                                  shape.architecture, shape.max_positions, training.sequence_length));
}

/// What is not known of a model that is run with images.
void check_images(const Model& model, const Training& training, const Strategy& s, Reasons& reasons) {
  if (!model.vision) return;
  const auto unknown = [&](bool is_so, std::string_view what) {
    if (is_so) reasons.push_back(fmt::format("{} with images as input is not known", what));
  };
  unknown(s.layout.tensor > 1, "tensor parallelism");
  unknown(s.layout.token_ranks() > 1, "sequence or context parallelism");
  unknown(s.long_context.tiles() || s.long_context.checkpoint_offload != CheckpointOffload::none,
          "tiling or offloaded checkpoints");
  unknown(training.precision == Precision::fp32, "training in fp32");
  unknown(training.attention == Attention::eager, "eager attention");
  unknown(training.modules != ModuleLibrary::transformers, "another library's layers");
  unknown(training.objective != Objective::sft, "preference training");
  unknown(s.experts.enabled, "expert parallelism");
}

void check_fused_head(const Model& model, const Training& training, const Strategy& s, Reasons& reasons) {
  if (s.layout.tensor > 1 || s.layout.token_ranks() > 1)
    reasons.emplace_back("TRL's fused head is planned without tensor, sequence or context parallelism");
  if (s.long_context.tiled_loss != 0)
    reasons.emplace_back("a tiled loss takes the place of TRL's fused head: drop one of them");
  if (training.objective == Objective::orpo)
    reasons.emplace_back("TRL's ORPO takes log-probabilities of whole logits, without its fused head");
  if (model.recorded || model.analogue)
    reasons.emplace_back("a fused head of a model without a program of its own is not planned");
}

void check_preferences(const Model& model, const Training& training, const Strategy& s, Reasons& reasons) {
  const std::string_view objective = to_name(training.objective);
  if (s.layout.tensor > 1 || s.layout.token_ranks() > 1 || s.experts.enabled)
    reasons.push_back(fmt::format("{} is planned for data parallelism alone", objective));
  if (training.fused_loss || training.loss_chunks > 1 || s.long_context.tiled_loss != 0)
    reasons.push_back(fmt::format(
        "{} takes log-probabilities of tokens: its loss is not planned fused with the head or in slices, but "
        "by TRL's fused head",
        objective));
  if (model.recorded || model.analogue)
    reasons.push_back(fmt::format("{} of a model without a program of its own is not planned", objective));
  const std::optional<ReferenceModel> reference = reference_of(training);
  if (reference == ReferenceModel::adapters_off && training.method == Method::full)
    reasons.emplace_back("full fine-tuning has no adapters that could be switched off: --reference copy");
  if (reference == ReferenceModel::copy && training.method == Method::qlora)
    reasons.emplace_back("a reference copy of packed weights is not planned: --reference adapters-off");
}

/// A generation has whole groups of completions. Source: TRL 1.16 trainer/grpo_config.py __post_init__.
void check_groups(const Training& training, const Strategy& s, Reasons& reasons) {
  const std::int64_t micro_steps = micro_steps_fed(training, s);
  const std::int64_t completions = s.micro_batch_size * s.layout.data_ranks() * micro_steps;
  if (completions % training.rollout.generations != 0)
    reasons.push_back(fmt::format(
        "{} completions of a generation (micro-batch {} x {} GPUs x {} micro-steps) are not whole groups of "
        "{}: --steps-per-generation, --generations",
        completions, s.micro_batch_size, s.layout.data_ranks(), micro_steps, training.rollout.generations));
}

/// accelerate makes fp32 of what a model under autocast returns: logits of twice the size, and another
/// log-softmax. Source: accelerate 1.15 utils/operations.py convert_outputs_to_fp32.
void check_whole_logits(const Training& training, const FrameworkSpec& framework, Reasons& reasons) {
  const bool converts =
      !framework.casts_model && training.precision != Precision::fp32 && training.master_weights;
  if (converts && !training.fused_head)
    reasons.emplace_back(
        "grpo over whole logits under autocast, which accelerate widens to fp32, is not planned: "
        "--fused-head (TRL since 1.15), or --framework deepspeed");
}

void check_method(const Model& model, const Training& training, const Strategy& s,
                  const FrameworkSpec& framework, Reasons& reasons) {
  if (generates(training))
    check_groups(training, s, reasons), check_whole_logits(training, framework, reasons);
  if (training.objective != Objective::sft) check_preferences(model, training, s, reasons);
  if (training.fused_head) check_fused_head(model, training, s, reasons);
  if (training.kernels == LayerKernels::liger && (model.recorded || model.analogue))
    reasons.emplace_back("Liger's kernels in a model without a program of its own are not planned");
  if (training.kernels == LayerKernels::fla && !model.shape.delta_net)
    reasons.emplace_back(
        "the model has no linear attention that flash-linear-attention's kernels are known for");
  const bool more = training.dora || !training.modules_to_save.empty();
  if (training.method != Method::full && more && (model.recorded || model.analogue))
    reasons.emplace_back("DoRA and trained copies are not planned for a model without a program of its own");
}

}  // namespace

Reasons why_illegal(const Model& model, const Training& training, const Strategy& s, World world) {
  const FrameworkSpec& framework = spec(training.framework);
  Reasons reasons = layout_faults(s.layout, world);
  framework.check(model, training, s, reasons);
  check_sequence_parallel(model, training, s, framework, reasons);
  check_context_parallel(model, training, s, framework, reasons);
  check_tiles(model, training, s, framework, reasons);
  check_checkpoint_offload(training, s, framework, reasons);
  check_positions(model, training, reasons);
  check_images(model, training, s, reasons);
  check_method(model, training, s, framework, reasons);
  if (auto reason = why_not_recorded(model, training, s)) reasons.push_back(*std::move(reason));
  return reasons;
}

Reasons warnings_of_tokens(const Training& training, const Strategy& s) {
  Reasons warnings;
  const std::int64_t ranks = s.layout.sequence;
  if (ranks > 1 && divides_groups(s.zero_stage))
    warnings.push_back(fmt::format(
        "at ZeRO-{0} DeepSpeed {1} reports a gradient norm {2} times too large under sequence parallel {2} "
        "(every rank adds the whole loss's gradient, and stages 1 and 2 divide by a {2}th of the ranks), so "
        "gradient_clipping {3:g} clips at {4:g}: set {2} times the norm that is meant, or take ZeRO-3",
        s.zero_stage, to_text(DeepSpeedRelease{}), ranks, s.zero.gradient_clipping,
        s.zero.gradient_clipping / static_cast<double>(ranks)));
  if (s.long_context.tiled_mlp != 0 && training.method != Method::full)
    warnings.emplace_back(
        "tiled MLP with adapters: pass TiledMLP every trained tensor of the module as compute_params; with "
        "the base weights that DeepSpeed's example passes, ZeRO-2 stops (has already been reduced)");
  if (s.long_context.tiled_loss != 0 && (s.gradient_accumulation_steps > 1 || ranks > 1) &&
      training.method == Method::full)
    warnings.emplace_back(
        "TiledFusedLogitsLoss scales the gradient of the hidden states by the loss's, not the head's: with "
        "accumulation or loss weights the head learns at another rate");
  if (s.long_context.checkpoint_offload == CheckpointOffload::pinned && s.zero_stage == 3)
    warnings.emplace_back(
        "DeepSpeed's checkpoint offload moves nothing at ZeRO-3 (a hook replaces the tensor that it marked): "
        "--checkpoint-offload alst does");
  return warnings;
}

}  // namespace zplan
