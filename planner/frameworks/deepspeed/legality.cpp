#include "planner/frameworks/deepspeed/legality.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "planner/frameworks/deepspeed/config/expert_config.h"
#include "planner/frameworks/deepspeed/zero/rules.h"
#include "planner/plan/legality.h"

namespace zplan {

namespace {

/// Norms of queries and keys whose weights have a row for each head, which AutoTP leaves whole (Command R+):
/// they do not go with the heads of one rank.
bool norms_each_head(const Model& model) {
  const auto& kinds = model.inventory.kinds;
  return std::any_of(kinds.begin(), kinds.end(), [](const LayerKind& kind) {
    return std::any_of(kind.tensors.begin(), kind.tensors.end(), [](const Tensor& each) {
      return (each.module == "q_norm" || each.module == "k_norm") && each.shape.size() == 2;
    });
  });
}

void check_tensor_parallel(const Model& model, const Training& training, const Strategy& s,
                           Reasons& reasons) {
  const std::int64_t t = s.layout.tensor;
  if (t == 1) return;
  const ModelShape& shape = model.shape;
  if (training.deepspeed < kAutoTpTraining)
    reasons.push_back(fmt::format("DeepSpeed {} does not train under AutoTP: that came with {}",
                                  to_text(training.deepspeed), to_text(kAutoTpTraining)));
  if (shape.libraries.autotp_refuses && !s.experts.enabled)
    reasons.push_back(fmt::format("DeepSpeed 0.19 refuses AutoTP for {}", shape.architecture));
  if (shape.key_value_heads % t != 0)
    reasons.push_back(
        fmt::format("tensor parallel {} does not divide the {} key-value heads{}: AutoTP would leave some "
                    "ranks with fewer heads or none",
                    t, shape.key_value_heads, if_inferred(model)));
  if (shape.intermediate_size % t != 0)
    reasons.push_back(fmt::format("tensor parallel {} does not divide the feed-forward size {}{}", t,
                                  shape.intermediate_size, if_inferred(model)));
  if (norms_each_head(model))
    reasons.emplace_back("AutoTP does not split query and key norms with a row of weights for each head");
  if (shape.experts && !s.experts.enabled)
    reasons.emplace_back("AutoTP training does not split stacked experts (DeepSpeed 0.19)");
  if (training.method != Method::full)
    reasons.emplace_back("AutoTP training does not split LoRA adapters with their layers (DeepSpeed 0.19)");
  if (offloads(s))
    reasons.emplace_back(
        "AutoTP with offload is not planned: no recorded run of DeepSpeed to hold it against");
}

void check_offload(const Training& training, const Strategy& s, Reasons& reasons) {
  const bool optimizer = s.offload_optimizer != OffloadDevice::none;
  if (s.offload_parameters != OffloadDevice::none && s.zero_stage < 3)
    reasons.push_back(
        fmt::format("offload_param needs ZeRO-3: at stage {} every GPU keeps all parameters", s.zero_stage));
  if (optimizer && s.zero_stage == 0) reasons.emplace_back("offload_optimizer needs ZeRO-1 or higher");
  if (s.offload_optimizer == OffloadDevice::nvme && s.zero_stage < 3)
    reasons.push_back(fmt::format("optimizer states on NVMe need ZeRO-3 (stage {} given)", s.zero_stage));
  if (optimizer && !spec(training.optimizer).on_cpu)
    reasons.push_back(fmt::format("no CPU version of {} in DeepSpeed: offload_optimizer takes adamw or lion",
                                  to_name(training.optimizer)));
}

void check_muon(const Training& training, const Strategy& s, Reasons& reasons) {
  const DeepSpeedRelease release = training.deepspeed;
  if (s.zero_stage == 0) reasons.emplace_back("DeepSpeed's Muon runs under ZeRO-1 or higher");
  if (release < kMuon)
    reasons.push_back(
        fmt::format("DeepSpeed {} has no Muon: that came with {}", to_text(release), to_text(kMuon)));
  else if (s.zero_stage == 3 && release < kMuonAtStage3)
    reasons.push_back(fmt::format("DeepSpeed {} has no Muon at ZeRO-3: that came with {}", to_text(release),
                                  to_text(kMuonAtStage3)));
}

/// The engine casts every floating parameter to its own type, which would change the bits that a wider one
/// holds. Source: DeepSpeed 0.19.8 runtime/engine.py _configure_distributed_model.
void check_packed_partitions(const Training& training, Reasons& reasons) {
  if (!shards_packed(training)) return reasons.push_back(packed_reason(training, "ZeRO-3"));
  if (to_name(training.quant_storage) != to_name(training.precision))
    reasons.push_back(
        fmt::format("under ZeRO-3 packed weights are stored in the type that the engine casts to: "
                    "--quant-storage {}, not {}",
                    to_name(training.precision), to_name(training.quant_storage)));
}

/// Source: DeepSpeed 0.19.8 stage3.py defragment, which asserts one type of all trained parameters.
void check_types_of_trained(const Training& training, Reasons& reasons) {
  const bool mixed = training.method == Method::lora && training.fp32_adapters &&
                     !training.modules_to_save.empty() && training.precision != Precision::fp32;
  if (mixed)
    reasons.emplace_back(
        "DeepSpeed 0.19 stops at ZeRO-3 where trained copies are 16-bit beside fp32 adapters: "
        "--no-autocast-adapters");
}

void check_method(const Training& training, const Strategy& s, Reasons& reasons) {
  if (training.method == Method::qlora && s.zero_stage == 3) check_packed_partitions(training, reasons);
  if (s.zero_stage == 3) check_types_of_trained(training, reasons);
  if (training.optimizer == Optimizer::muon) check_muon(training, s, reasons);
  if (needs_reentrant_checkpointing(training, s) && s.checkpointing == Checkpointing::selective)
    reasons.push_back(fmt::format(
        "DeepSpeed {} stops at ZeRO-3 where frozen layers are recomputed (CheckpointError), unless "
        "checkpointing is reentrant, which selective checkpointing cannot be: that came with {}",
        to_text(training.deepspeed), to_text(kRecomputesFrozen)));
  if (s.zero.fp32_gradient_accumulation && s.zero_stage == 0 && training.precision != Precision::fp32)
    reasons.emplace_back("DeepSpeed does not accumulate 16-bit gradients in fp32 at stage 0");
}

bool holds_experts(const LayerKind& kind) {
  return std::any_of(kind.tensors.begin(), kind.tensors.end(),
                     [](const Tensor& each) { return each.role == TensorRole::expert; });
}

bool adapts_experts(const Model& model, const Training& training) {
  if (training.method == Method::full) return false;
  const Inventory adapters = lora_adapters(model, training.lora_rank, training.lora_targets);
  return std::any_of(adapters.kinds.begin(), adapters.kinds.end(), [](const LayerKind& kind) {
    return std::any_of(kind.tensors.begin(), kind.tensors.end(), [](const Tensor& each) {
      return each.role == TensorRole::expert || each.role == TensorRole::router;
    });
  });
}

/// Returns the use of experts that a plan's config states: with the preset, pattern or partition that a model
/// needs.
ExpertUse expert_use(const Model& model, const Training& training, const Strategy& s) {
  ExpertUse use;
  use.config.enabled = true;
  use.config.autoep_size = s.layout.expert;
  use.config.preset_model = preset_for(model.shape.architecture);
  if (training.method != Method::full) use.config.moe_layer_pattern = kAdaptedMixtures;
  use.config.async_split_plan = s.experts.async_split_plan;
  use.config.score_apply = s.experts.weighs_rows ? "pre" : "auto";
  use.config.combine_impl = to_name(s.experts.combine);
  use.architecture = model.shape.architecture;
  use.experts = model.shape.experts ? model.shape.experts->experts : 0;
  const auto& layers = model.inventory.layers;
  for (std::size_t i = 0; i < layers.size(); ++i)
    if (holds_experts(model.inventory.kinds[layers[i]])) {
      use.mixtures = {static_cast<std::int64_t>(i)};
      break;
    }
  use.ranks = s.layout.world();
  use.tensor_parallel = s.layout.tensor;
  use.has_partition_config = true;
  use.zero_stage = s.zero_stage;
  use.precision = training.precision;
  use.offloads = offloads(s);
  use.data_before_expert = s.layout.data_before_expert;
  use.reduce_scatter = s.zero.reduce_scatter;
  use.quantized_gradients = s.zero.quantized_gradients;
  use.secondary_partition = s.zero.secondary_partition;
  use.fp32_accumulation = s.zero.fp32_gradient_accumulation;
  use.adapted = training.method != Method::full;
  return use;
}

void check_experts(const Model& model, const Training& training, const Strategy& s, Reasons& reasons) {
  if (!s.experts.enabled) return;
  const ExpertAnswer answer = answer_of_deepspeed(expert_use(model, training, s));
  if (answer.error)
    reasons.push_back(fmt::format("DeepSpeed 0.19.8 refuses: {}", *answer.error));
  else if (!answer.replaces)
    reasons.push_back(
        fmt::format("AutoEP replaces nothing in {}: DeepSpeed 0.19.8 warns of it and trains "
                    "without expert parallelism",
                    model.shape.architecture));
  if (model.recorded || model.analogue) reasons.push_back(for_described_models("expert parallelism"));
  if (adapts_experts(model, training))
    reasons.emplace_back(
        "AutoEP makes routers and experts anew, without the adapters that peft gave them: name modules of "
        "attention with --lora-targets");
  if (training.beside.save == SavedModel::full && usual_save(s) == SavedModel::sharded)
    reasons.emplace_back(
        "AutoEP with ZeRO-3 refuses to gather the weights as they are saved: take --save sharded, and "
        "ds_to_universal.py afterwards");
  const auto unseen = [&](bool asked, std::string_view what) {
    if (asked)
      reasons.push_back(
          fmt::format("expert parallelism {} is not planned: no recorded run of DeepSpeed to "
                      "validate it against",
                      what));
  };
  unseen(training.method == Method::qlora, "with quantised weights");
  unseen(s.layout.sequence > 1, "with sequence parallelism");
  unseen(training.optimizer == Optimizer::muon, "with Muon");
  unseen(s.offload_optimizer == OffloadDevice::nvme || s.offload_parameters == OffloadDevice::nvme,
         "with states on NVMe");
}

// ---- long samples: Ulysses as accelerate sets it up, and ALST's tiles and checkpoints on the host

/// Since when accelerate runs Ulysses with it. Source: accelerate 1.15 parallelism_config.py.
constexpr DeepSpeedRelease kUlysses{0, 18, 2};

void check_heads(const Model& model, std::int64_t ranks, Reasons& reasons) {
  const std::int64_t heads = model.shape.attention_heads, key_value = model.shape.key_value_heads;
  if (heads % ranks != 0)
    reasons.push_back(fmt::format(
        "sequence parallel {0} does not divide the {1} attention heads{2}; DeepSpeed: Attention head count "
        "{1} is not divisible by SP size {0}",
        ranks, heads, if_inferred(model)));
  if (key_value % ranks != 0 && ranks % key_value != 0)
    reasons.push_back(
        fmt::format("sequence parallel {0} and the {1} key-value heads{2} do not divide one another; "
                    "DeepSpeed: KV attention head count {1} is not divisible by SP size {0} or vice versa",
                    ranks, key_value, if_inferred(model)));
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
  check_heads(model, ranks, reasons);
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
  constexpr std::int64_t kMostTiles = 512;  // each is played: as many take ten seconds and gigabytes
  if (const std::int64_t tiles = mlp_tiles(s, training, model.shape.hidden_size); tiles > kMostTiles)
    reasons.push_back(
        fmt::format("a tiled MLP of {} slices is not planned: at most {} are", tiles, kMostTiles));
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

void check_deepspeed(const Model& model, const Training& training, const Strategy& s, Reasons& reasons) {
  if (s.layout.replicate > 1)
    reasons.emplace_back(
        "hybrid sharding is planned for FSDP2 alone: DeepSpeed's MiCS is not, and 0.19.7 removed it");
  check_tensor_parallel(model, training, s, reasons);
  check_experts(model, training, s, reasons);
  check_offload(training, s, reasons);
  check_method(training, s, reasons);
  check_long_context(model, training, s, reasons);
}

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
