#include "planner/question/strategy.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "planner/question/framework.h"

namespace zplan {

std::string to_text(DeepSpeedRelease release) {
  return fmt::format("{}.{}.{}", release.major, release.minor, release.patch);
}

Training with_framework(Training training, Framework framework) {
  training.framework = framework;
  return spec(framework).adapt(std::move(training));
}

bool quantizes_gradients(const Strategy& s, std::int64_t gpus_per_node) {
  const bool several_nodes = gpus_per_node > 0 && s.layout.world() / gpus_per_node > 1;
  return s.zero_stage == 3 && s.zero.quantized_gradients && several_nodes;
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

Bytes weight_size(const Training& training) { return Bytes(training.precision == Precision::fp32 ? 4 : 2); }

bool widens_unpacked(const Training& training) {
  return training.method == Method::qlora && training.prepares_kbit_training &&
         spec(training.quantization).prepared;
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

std::int64_t held_adapters(const Training& training) {
  if (training.method == Method::full) return 0;
  const std::int64_t compared = reference_of(training) == ReferenceModel::adapter ? 2 : 1;
  return std::max(training.adapters, compared);
}

std::optional<ReferenceModel> reference_of(const Training& training) {
  const bool generated = generates(training);
  if (!generated && !distils(training) && training.objective != Objective::dpo &&
      training.objective != Objective::kto)
    return std::nullopt;
  if (training.reference == ReferenceModel::none) return std::nullopt;
  if (distils(training)) return training.reference.value_or(ReferenceModel::copy);
  if (training.objective == Objective::grpo && !training.reference) return std::nullopt;
  if (training.reference) return training.reference;
  return training.method == Method::full ? ReferenceModel::copy : ReferenceModel::adapters_off;
}

std::int64_t forwards_together(const Training& training, const Strategy& strategy) {
  if (!strategy.megatron || !compares_answers(training) || !reference_of(training)) return 1;
  return training.objective == Objective::kto ? 4 : 2;
}

Model scoring_model(Model model) {
  replace_head_by_score(model.inventory, model.shape.hidden_size);
  model.shape.tied_embeddings = false;
  return model;
}

Model as_trained(Model model, const Model& asked, Objective objective) {
  if (objective == Objective::reward) return scoring_model(std::move(model));
  if (objective != Objective::ppo) return model;
  const ModelShape own = scoring_model(asked).shape;
  const auto scorer = [&](const std::shared_ptr<const Model>& given) {
    const bool follows = !given || given->shape == own;
    return follows ? std::make_shared<const Model>(scoring_model(model)) : given;
  };
  const auto value = scorer(asked.value), reward = scorer(asked.reward);
  model.value = value, model.reward = reward;
  return model;
}

void make_reward_model(Model& model, Training& training) {
  model = scoring_model(std::move(model));
  if (training.method != Method::full) training.modules_to_save.emplace_back("score");
}

bool shards_packed(const Training& training) {
  return training.method == Method::qlora && is_nf4(training.quantization) &&
         training.quant_storage != QuantStorage::uint8;
}

bool keeps_adapters_fp32(const Training& training) {
  return training.method == Method::qlora && !spec(training.quantization).types_adapters;
}

bool makes_fp32_adapters(const Training& training) {
  return training.fp32_adapters || keeps_adapters_fp32(training);
}

Bytes adapter_size(const Training& training) {
  return makes_fp32_adapters(training) ? Bytes(4) : parameter_size(training);
}

}  // namespace zplan
