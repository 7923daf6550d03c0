#include "planner/question/framework.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "planner/frameworks/deepspeed/config/ds_config.h"
#include "planner/frameworks/deepspeed/launch.h"
#include "planner/frameworks/deepspeed/legality.h"
#include "planner/frameworks/deepspeed/zero/offload.h"
#include "planner/frameworks/deepspeed/zero/partitioned_run.h"
#include "planner/frameworks/deepspeed/zero/replicated_run.h"
#include "planner/frameworks/deepspeed/zero/sharding.h"
#include "planner/frameworks/deepspeed/zero/sliced_run.h"
#include "planner/plan/plan.h"
#include "planner/question/question.h"
#include "planner/simulation/player.h"

namespace zplan {

namespace {

constexpr std::array kZeroStages{0, 1, 2, 3};
constexpr std::array kZeroOffloads{Offload{}, Offload{OffloadDevice::cpu, OffloadDevice::none},
                                   Offload{OffloadDevice::cpu, OffloadDevice::cpu}};

Reasons deepspeed_warnings(const Training& training) {
  Reasons warnings;
  if (training.deepspeed != DeepSpeedRelease{})
    warnings.push_back(fmt::format(
        "memory, traffic and time are those of DeepSpeed {}: {} decides what can be had and what the "
        "ds_config says",
        to_text(DeepSpeedRelease{}), to_text(training.deepspeed)));
  if (!training.master_weights && training.precision != Precision::fp32)
    warnings.emplace_back(
        "--no-master-weights: memory counts a 16-bit master copy and 16-bit moments, as DeepSpeed's "
        "bf16_master_weights_and_grads and bf16_optimizer_states keep them; where DeepSpeed cannot (stage 0, "
        "fp16 without offload, Lion offloaded) it counts fp32 master weights; \"steady\" is the ZeRO papers' "
        "table, with fp32 moments");
  return warnings;
}

std::optional<std::string> zero_replication(const Plan& plan, const Question& q) {
  const Strategy& s = plan.strategy;
  const Bytes frozen = plan.memory().peak.holds[Term::frozen_parameters];
  if (frozen.value > available(q.cluster, q.headroom).value / 2)
    return fmt::format("ZeRO-{} leaves {} of frozen weights on every GPU{}", s.zero_stage,
                       format_bytes(frozen, q.unit),
                       q.training.method == Method::qlora ? "" : ": only stage 3 shards them");
  if (plan.fits_device) return std::nullopt;
  static constexpr std::array<std::string_view, 3> kWhole{"parameters, gradients and optimizer states",
                                                          "parameters and gradients", "parameters"};
  return fmt::format("ZeRO-{} keeps all {} {}", s.zero_stage, kWhole[static_cast<std::size_t>(s.zero_stage)],
                     s.layout.tensor > 1 ? "of its tensor-parallel share on every GPU" : "on every GPU");
}

RunResult play_sliced(const RunInputs& inputs, const std::optional<AllocatorOptions>& allocator, int steps,
                      bool condensed) {
  RunResult result = Player<SlicedRun>(inputs, allocator).play(steps, condensed);
  if (!allocator || !result.flattening) return result;
  const RunInputs least = flattening_on_host(inputs);
  Player<SlicedRun> player(least, allocator_options(inputs.step.training));
  result.least_initialisation = player.initialise();
  result.least_start = player.take_trace();
  return result;
}

RunResult play_deepspeed(const RunInputs& inputs, const std::optional<AllocatorOptions>& allocator, int steps,
                         bool condensed) {
  switch (inputs.step.strategy.zero_stage) {
    case 0: return Player<ReplicatedRun>(inputs, allocator).play(steps, condensed);
    case 3: return Player<PartitionedRun>(inputs, allocator).play(steps, condensed);
    default: return play_sliced(inputs, allocator, steps, condensed);
  }
}

std::optional<Flattening> zero_flattening(const RunInputs& inputs) {
  const StepInputs& in = inputs.step;
  if (in.strategy.zero_stage < 1 || in.strategy.zero_stage > 2) return std::nullopt;
  RunInputs roomy = flattening_on_host(inputs);
  roomy.flattens_on_host = false;
  Player<SlicedRun> player(roomy, allocator_options(in.training));
  static_cast<void>(player.initialise());
  return player.flattening();
}

/// The largest flat state that a checkpoint of this rank has on the device. Source: torch 2.11
/// serialization.py _save copies one storage after the other; DeepSpeed 0.19.8 stage_1_and_2.py and stage3.py
/// state_dict.
Bytes largest_flat_state(const StepInputs& in) {
  if (in.strategy.offload_optimizer != OffloadDevice::none) return {};
  constexpr Bytes kFp32(4);
  if (in.strategy.zero_stage == 0) return in.rank.largest_trainable * kFp32;
  if (in.strategy.zero_stage == 3) return largest_sub_group(in.rank, in.training, in.strategy) * kFp32;
  Elements largest{};
  for (const GroupSlice& each : in.slice.groups) largest = std::max(largest, each.size);
  return largest * kFp32;
}

/// Source: transformers 5.23 modeling_utils.py _load_pretrained_model, trainer.py save_model; accelerate 1.15
/// Accelerator.get_state_dict; DeepSpeed 0.19.8 engine.py _zero3_consolidated_16bit_state_dict.
ModelFiles zero_files(const StepInputs& in) {
  const bool stage3 = in.strategy.zero_stage == 3;
  const bool divided = stage3 || in.strategy.layout.tensor > 1;
  return {.hands_out = stage3 && in.training.method != Method::qlora,
          .saves = usual_save(in.strategy),
          .clones_everywhere = !divided,
          .trained_alone = stage3,
          .gathers = divided,
          .copied_state = largest_flat_state(in),
          .load_remedy =
              "load in the checkpoint's type (dtype=\"auto\", --load-dtype bf16), whose file is "
              "mapped; at stage 3 make TrainingArguments before from_pretrained, so that rank 0 "
              "alone reads it",
          .save_remedy =
              divided ? "stage3_gather_16bit_weights_on_model_save: false and zero_to_fp32.py afterwards "
                        "(--save sharded)"
                      : "ZeRO-3, of which the first rank alone has a copy: below it every rank clones the "
                        "whole state dict to the host"};
}

std::vector<Slice> zero_slices(const RankModel& model, const Training& training, const Strategy& s) {
  return divides_groups(s.zero_stage) ? slices(model, training, s) : std::vector<Slice>{};
}

/// None at stage 1, which reduces once; whole parameters that touch the slice at stage 2, where there is
/// something to sum; the shard at stage 3.
Elements zero_sums_on_host(const RankModel& model, const Training& training, const Strategy& s,
                           const Shard& shard) {
  if (s.zero_stage == 3) return shard.optimizer_elements;
  if (s.zero_stage < 2 || s.gradient_accumulation_steps == 1) return {};
  return worst_slice(model, training, s).touching;
}

}  // namespace

const FrameworkSpec& deepspeed_spec() {
  static const FrameworkSpec kSpec{
      .title = "",
      .calls_source = "DeepSpeed's schedule (docs/communication.md); nccl-tests doc/PERFORMANCE.md",
      .host_source = "DeepSpeed 0.19.8 stage_1_and_2.py, stage3.py, swap_tensor/ (docs/host-memory.md)",
      .terms = {},
      .config_file = "ds_config.json",
      .reads_ds_config = true,
      .reads_accelerate_config = false,
      .stages = kZeroStages,
      .offloads = kZeroOffloads,
      .splits_layers = true,
      .runs_alst = true,
      .runs_ulysses = true,
      .passes_keys = false,
      .divides_experts = true,
      .has_stages = false,
      .replicates = false,
      .sharded_instead = {},
      .packed_instead = Framework::fsdp,
      .casts_model = true,
      .handles_weights = true,
      .gathers_at_modules = true,
      .autocasts_masters = false,
      .fused_lion = true,
      .makes_shards = false,
      .fuses_host_optimizer = true,
      .adds_on_host = false,
      .kernel = OptimizerKernel::deepspeed_fused,
      .shards_reference = [](const Strategy& s) { return s.zero_stage == 3; },
      .casts_adapters =
          [](const Training& training, const Strategy& s) {
            // zero.Init leaves them; transformers makes a quantised model without it.
            return s.zero_stage < 3 || training.method == Method::qlora;
          },
      .adapt = [](Training training) { return training; },
      .choose = nullptr,
      .schedule = nullptr,
      .check = check_deepspeed,
      .sharding_name = [](const Strategy& s) { return fmt::format("zero{}", s.zero_stage); },
      .warnings = deepspeed_warnings,
      .strategy_warnings = long_context_warnings,
      .replication = zero_replication,
      .shard = deepspeed_shard,
      .slices = zero_slices,
      .optimizer_tensors = deepspeed_optimizer_tensors,
      .sums_on_host = zero_sums_on_host,
      .play = play_deepspeed,
      .flattening = zero_flattening,
      .offload = offload_deepspeed,
      .files = zero_files,
      .launch = deepspeed_launch,
      .config_notes = ds_config_notes,
  };
  return kSpec;
}

}  // namespace zplan
