#include "planner/frameworks/megatron/mixtures.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string_view>
#include <utility>

namespace zplan::megatron {

namespace {

void check_degrees(const MixtureOfExperts& experts, const Strategy& s, Reasons& reasons) {
  const ParallelLayout& layout = s.layout;
  const std::int64_t ranks = layout.world() / layout.pipeline;
  if (experts.experts % layout.expert != 0)
    reasons.push_back(
        fmt::format("expert parallel {} does not divide {} experts", layout.expert, experts.experts));
  if (ranks % layout.expert_ranks() != 0)
    reasons.push_back(
        fmt::format("expert parallel {} x expert tensor parallel {} does not divide the {} ranks of a stage",
                    layout.expert, layout.expert_tensor, ranks));
  if (experts.intermediate_size % layout.expert_tensor != 0)
    reasons.push_back(fmt::format("expert tensor parallel {} does not divide experts of {}",
                                  layout.expert_tensor, experts.intermediate_size));
  if (layout.tensor > 1 && !s.megatron->sequence_parallel)
    reasons.emplace_back(
        "Megatron-Core runs mixtures of experts under tensor parallelism with sequence parallelism alone");
}

void check_options(const MegatronOptions& options, Reasons& reasons) {
  if (options.dispatcher == RowDispatcher::flex)
    reasons.emplace_back("the memory of the dispatcher flex was not recorded: alltoall is planned");
  if (!options.exchanges_rows() && (options.permute_fusion || options.overlaps_shared_experts))
    reasons.emplace_back(
        "the dispatcher allgather is planned without --moe-permute-fusion; shared experts overlap alltoall "
        "alone");
  if (!options.groups_experts &&
      (options.overlap_grad_reduce || options.recomputes(RecomputedModule::moe_act)))
    reasons.emplace_back(
        "without --moe-grouped-gemm experts are planned without --overlap-grad-reduce; their activation is "
        "not "
        "recomputed alone");
}

/// Arguments whose effect on a second buffer and a second optimizer, or on layers with experts, was not
/// compared with recordings.
void check_further_options(const MegatronOptions& options, Reasons& reasons) {
  const std::array<std::pair<bool, std::string_view>, 6> all{{
      {options.optimizer_instances > 1, "num-distributed-optimizer-instances"},
      {options.bucket_count > 0, "ddp-num-buckets"},
      {options.pads_buckets, "ddp-pad-buckets-for-high-nccl-busbw"},
      {options.sums_in_fp32, "ddp-reduce-scatter-with-fp32-accumulation"},
      {!options.fuses_swiglu, "no-bias-swiglu-fusion"},
      {grouped_layers(options) > 1, "recompute-num-layers of several layers at a time"},
  }};
  for (const auto& [is_set, name] : all)
    if (is_set) reasons.push_back(fmt::format("{} is planned for models without experts", name));
}

/// True if every expert of the model is a gate, an up and a down projection without biases, and the router is
/// one that Megatron-Core has.
bool has_known_mixtures(const Model& model) {
  const ModelShape& shape = model.shape;
  const RouterForm router = shape.operators.router;
  if (router == RouterForm::gpt_oss || !shape.gated_mlp || shape.operators.interleaves_experts) return false;
  return std::ranges::none_of(model.inventory.kinds, [](const LayerKind& kind) {
    return std::ranges::any_of(kind.tensors, [](const Tensor& each) {
      const bool of_mixture = each.role == TensorRole::router || each.role == TensorRole::expert ||
                              each.role == TensorRole::shared_expert;
      return of_mixture && each.name.ends_with(".bias");
    });
  });
}

}  // namespace

void check_mixtures(const Model& model, const Strategy& strategy, Reasons& reasons) {
  const std::optional<MixtureOfExperts>& experts = model.shape.experts;
  if (!experts) {
    if (strategy.layout.expert_ranks() > 1)
      reasons.emplace_back("--ep and --etp divide experts, which the model does not have");
    return;
  }
  check_degrees(*experts, strategy, reasons);
  check_options(*strategy.megatron, reasons);
  check_further_options(*strategy.megatron, reasons);
  if (!has_known_mixtures(model))
    reasons.push_back(fmt::format(
        "under Megatron-Core mixtures of gated experts without biases are planned, {} is not one of them",
        model.shape.architecture));
}

void check_predictions(const Model& model, const Strategy& strategy, Reasons& reasons) {
  if (strategy.megatron->predictions == 0) return;
  const ModelShape& shape = model.shape;
  const bool learns_positions = shape.operators.rotary == Rotary::none;
  if (strategy.layout.pipeline > 1 || strategy.layout.context > 1 ||
      strategy.checkpointing != Checkpointing::none)
    reasons.emplace_back(
        "--mtp-num-layers is planned without pipeline stages, context parallelism and recompute");
  if (shape.experts || shape.latent_attention || learns_positions || shape.dropout > 0)
    reasons.emplace_back(
        "--mtp-num-layers is planned for dense models with rotated positions, without dropout");
  if (strategy.megatron->counts_tokens)
    reasons.emplace_back("--mtp-num-layers is planned without calculate-per-token-loss");
}

void check_latent_attention(const Model& model, const Strategy& strategy, Reasons& reasons) {
  if (!model.shape.latent_attention) return;
  if (strategy.layout.context > 1)
    reasons.emplace_back("latent attention under Megatron-Core is planned without context parallelism");
  if (grouped_layers(*strategy.megatron) > 1)
    reasons.emplace_back(
        "recompute-num-layers of several layers at a time is planned for models without latent attention");
  if (strategy.layout.tensor > 1 && !strategy.megatron->sequence_parallel)
    reasons.emplace_back(
        "latent attention under tensor parallelism is planned with sequence parallelism alone");
}

}  // namespace zplan::megatron
