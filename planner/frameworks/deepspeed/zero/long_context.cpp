#include "planner/frameworks/deepspeed/zero/long_context.h"

#include <fmt/format.h>

#include "planner/plan/legality.h"

namespace zplan {

namespace {

/// Since when accelerate runs Ulysses with it. Source: accelerate 1.15 parallelism_config.py.
constexpr DeepSpeedRelease kUlysses{0, 18, 2};

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
                             Reasons& reasons) {
  const std::int64_t ranks = s.layout.sequence;
  if (ranks == 1) return;
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

void check_tiles(const Model& model, const Training& training, const Strategy& s, Reasons& reasons) {
  if (s.long_context.tiled_mlp != 0 && model.shape.experts)
    reasons.emplace_back("the tiled feed-forward is not planned for routed experts");
  if (s.long_context.tiled_mlp != 0 && model.shape.operators.linear == LinearForm::conv1d)
    reasons.push_back(fmt::format(
        "{}'s Conv1D views its input as rows, which a slice of several samples is not; PyTorch: view "
        "size is not compatible with input tensor's size and stride: no tiled MLP",
        model.shape.architecture));
  check_tiled_loss(model, training, s, reasons);
}

void check_checkpoint_offload(const Training& training, const Strategy& s, Reasons& reasons) {
  if (s.long_context.checkpoint_offload == CheckpointOffload::none) return;
  if (s.checkpointing != Checkpointing::full)
    reasons.emplace_back("there are checkpoints to keep on the host under --checkpointing full alone");
  if (s.long_context.checkpoint_offload == CheckpointOffload::pinned && training.reentrant_checkpointing)
    reasons.emplace_back("DeepSpeed's hooks see what non-reentrant checkpointing saves: not reentrant");
}

}  // namespace

void check_long_context(const Model& model, const Training& training, const Strategy& s, Reasons& reasons) {
  check_sequence_parallel(model, training, s, reasons);
  check_tiles(model, training, s, reasons);
  check_checkpoint_offload(training, s, reasons);
}

Reasons long_context_warnings(const Training& training, const Strategy& s) {
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
