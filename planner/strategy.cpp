#include "planner/strategy.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "planner/frameworks/framework.h"
#include "planner/frameworks/token_rules.h"
#include "planner/model_trace/recorded_tape.h"

namespace zplan {

namespace {

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
    reasons.push_back(
        fmt::format("{} compares log-probabilities of whole sequences: its loss is not planned fused or "
                    "in slices",
                    objective));
  if (model.recorded || model.analogue)
    reasons.push_back(fmt::format("{} of a model without a program of its own is not planned", objective));
  const std::optional<ReferenceModel> reference = reference_of(training);
  if (reference == ReferenceModel::adapters_off && training.method == Method::full)
    reasons.emplace_back("full fine-tuning has no adapters that could be switched off: --reference copy");
  if (reference == ReferenceModel::copy && training.method == Method::qlora)
    reasons.emplace_back("a reference copy of packed weights is not planned: --reference adapters-off");
}

void check_method(const Model& model, const Training& training, const Strategy& s, Reasons& reasons) {
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

std::string to_text(DeepSpeedRelease release) {
  return fmt::format("{}.{}.{}", release.major, release.minor, release.patch);
}

ZeroOptions zero_options(Buckets buckets, std::int64_t hidden_size) {
  ZeroOptions options;
  if (buckets == Buckets::defaults) return options;
  const std::int64_t square = hidden_size * hidden_size;
  options.reduce_bucket_size = Elements(square);
  options.prefetch_bucket_size = Elements(square / 10 * 9 + square % 10 * 9 / 10);  // floor(0.9·h²)
  options.persistence_threshold = Elements(10 * hidden_size);
  return options;
}

Training with_framework(Training training, Framework framework) {
  training.framework = framework;
  return spec(framework).adapt(std::move(training));
}

std::int64_t mlp_tiles(const Strategy& s, const Training& training, std::int64_t hidden_size) {
  if (s.long_context.tiled_mlp != LongContext::kAutoTiles) return s.long_context.tiled_mlp;
  return divide_up(local_tokens(training, s), hidden_size);
}

std::int64_t loss_tiles(const Strategy& s, const Training& training, std::int64_t vocabulary_size) {
  constexpr std::int64_t kSlice = std::int64_t{1} << 30, kLogit = 4;
  if (s.long_context.tiled_loss != LongContext::kAutoTiles) return s.long_context.tiled_loss;
  return divide_up(s.micro_batch_size * local_tokens(training, s) * vocabulary_size * kLogit, kSlice);
}

std::string strategy_id(const Strategy& s) { return plan_id(Framework::deepspeed, s); }

std::string plan_id(Framework framework, const Strategy& s) {
  std::string id = id_prefix(s.layout) + spec(framework).sharding_name(s);
  if (s.layout.replicate > 1) id += fmt::format("+replicas{}", s.layout.replicate);
  const Offload offload{s.offload_optimizer, s.offload_parameters};
  if (offload != Offload{}) id += fmt::format("+offload-{}", to_name(offload));
  if (s.checkpointing != Checkpointing::full)
    id += fmt::format("+checkpointing-{}", to_name(s.checkpointing));
  if (s.long_context.checkpoint_offload != CheckpointOffload::none)
    id += fmt::format("+checkpoint-offload-{}", to_name(s.long_context.checkpoint_offload));
  const auto tiles = [&id](std::string_view what, std::int64_t count) {
    if (count == 0) return;
    id += fmt::format("+tiled-{}", what);
    if (count != LongContext::kAutoTiles) id += fmt::format("{}", count);
  };
  tiles("mlp", s.long_context.tiled_mlp), tiles("loss", s.long_context.tiled_loss);
  if (s.layout.context > 1 && s.long_context.rotation != KeyRotation::all_gather)
    id += fmt::format("+rotate-{}", to_name(s.long_context.rotation));
  return id;
}

std::vector<std::string> why_illegal(const Model& model, const Training& training, const Strategy& s,
                                     World world) {
  Reasons reasons = why_illegal(s.layout, world);
  spec(training.framework).check(model, training, s, reasons);
  check_tokens(model, training, s, reasons);
  check_positions(model, training, reasons);
  check_images(model, training, s, reasons);
  check_method(model, training, s, reasons);
  if (auto reason = why_not_recorded(model, training, s)) reasons.push_back(*std::move(reason));
  return reasons;
}

Bytes weight_size(const Training& training) { return Bytes(training.precision == Precision::fp32 ? 4 : 2); }

bool widens_unpacked(const Training& training) {
  return training.method == Method::qlora && training.prepares_kbit_training &&
         !is_gptq(training.quantization);
}

Bytes parameter_size(const Training& training) {
  const bool keeps_fp32 =
      !spec(training.framework).casts_model && training.master_weights && training.method != Method::qlora;
  return keeps_fp32 ? Bytes(4) : weight_size(training);
}

AdapterSpec adapters_of(const Training& training) {
  return {.rank = training.lora_rank,
          .targets = training.lora_targets,
          .magnitudes = training.dora,
          .saved_modules = training.modules_to_save,
          .ties_saved = training.ties_saved_modules};
}

std::optional<ReferenceModel> reference_of(const Training& training) {
  if (training.objective != Objective::dpo && training.objective != Objective::kto) return std::nullopt;
  if (training.reference) return training.reference;
  return training.method == Method::full ? ReferenceModel::copy : ReferenceModel::adapters_off;
}

void make_reward_model(Model& model, Training& training) {
  replace_head_by_score(model.inventory, model.shape.hidden_size);
  model.shape.tied_embeddings = false;
  if (training.method != Method::full) training.modules_to_save.emplace_back("score");
}

bool shards_packed(const Training& training) {
  return training.method == Method::qlora && is_nf4(training.quantization) &&
         training.quant_storage != QuantStorage::uint8;
}

Bytes adapter_size(const Training& training) {
  return training.fp32_adapters ? Bytes(4) : parameter_size(training);
}

}  // namespace zplan
