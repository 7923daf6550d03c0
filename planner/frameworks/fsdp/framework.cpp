#include "planner/question/framework.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>

#include "planner/frameworks/fsdp/fsdp_run.h"
#include "planner/frameworks/fsdp/tensor_plan.h"
#include "planner/frameworks/launch/accelerate_config.h"
#include "planner/frameworks/launch/launch.h"
#include "planner/frameworks/torch_rules.h"
#include "planner/plan/legality.h"
#include "planner/plan/plan.h"
#include "planner/question/question.h"
#include "planner/sharding/optimizer_state.h"
#include "planner/sharding/plan_split.h"
#include "planner/sharding/shard.h"
#include "planner/simulation/host_tally.h"
#include "planner/simulation/player.h"

namespace zplan {

namespace {

using enum Term;
constexpr std::string_view kFsdp =
    "torch 2.11 distributed/fsdp/_fully_shard, whole steps traced (docs/fsdp.md)";
constexpr std::array<TermInfo, 8> kFsdpTable{{
    {trained_parameters, MemoryPart::parameters, "shards of trained parameters",
     "q·σ, σ = Σ⌈rows/N⌉·(elements of a row) over the parameters", kFsdp},
    {frozen_parameters, MemoryPart::parameters, "shards of frozen parameters", "q·σ, as they are loaded",
     kFsdp},
    {gathered_parameters, MemoryPart::parameters, "gathered parameters",
     "c·σ·N of each group that is whole, + c·σ·N of all-gathers' outputs, + c·σ of what goes into one",
     kFsdp},
    {gradients, MemoryPart::gradients, "gradients", "c·n per parameter of a group until it is reduced",
     kFsdp},
    {gradient_partition, MemoryPart::gradients, "reduced gradients",
     "r·σ, and q·σ where the shards are wider", kFsdp},
    {fp32_gradients, MemoryPart::gradients, "whole gradients under no_sync", "r·Ψ", kFsdp},
    {gradient_bucket, MemoryPart::communication_buffers, "reduce-scatter inputs", "r·σ·N of a group", kFsdp},
    {bucket_copy, MemoryPart::communication_buffers, "sizes of a reduce-scatter", "8 B per entry", kFsdp},
}};

constexpr std::array kFsdpStages{2, 3};
constexpr std::array kFsdpOffloads{Offload{}, Offload{OffloadDevice::cpu, OffloadDevice::cpu}};

/// torch's ring attention as accelerate sets it up. Source: accelerate 1.15 parallelism_config.py; torch 2.11
/// distributed/tensor/experimental/_context_parallel.
void check_context_parallel(const Model& model, const Training& training, const Strategy& s,
                            Reasons& reasons) {
  const std::int64_t ranks = s.layout.context;
  if (ranks == 1) return;
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

void check_fsdp(const Model& model, const Training& training, const Strategy& s, Reasons& reasons) {
  if (s.zero_stage < 2)
    reasons.push_back(
        fmt::format("FSDP2 shards parameters, gradients and states: it is planned as stage 3 "
                    "(reshard_after_forward) or 2 "
                    "(without), not {}",
                    s.zero_stage));
  if (training.method == Method::qlora && !shards_packed(training))
    reasons.push_back(packed_reason(training, "FSDP2"));
  check_torch(training, s, reasons);
  check_ulysses(model, training, s, reasons);
  check_context_parallel(model, training, s, reasons);
  check_tensor_plan(model, training, s, reasons);
  if (s.offload_optimizer == OffloadDevice::none && s.offload_parameters == OffloadDevice::none) return;
  if (s.offload_parameters != OffloadDevice::cpu || s.offload_optimizer == OffloadDevice::nvme)
    reasons.emplace_back("FSDP2 offloads parameters, gradients and optimizer states to the host together");
  check_offloaded_optimizer(training, reasons);
}

Reasons fsdp_strategy_warnings(const Training& training, const Strategy& s) {
  Reasons warnings;
  if (!follows_plan(training, s))
    warnings.emplace_back(
        "FSDP2 is planned with one group for embedding, final norm and head together: accelerate 1.15 wraps "
        "them apart, which gathers less at one time; not counted: what a checkpoint of the full state "
        "gathers");
  for (std::string& each : ulysses_warnings(training, s)) warnings.push_back(std::move(each));
  for (std::string& each : tensor_plan_warnings(s)) warnings.push_back(std::move(each));
  return warnings;
}

std::optional<std::string> fsdp_replication(const Plan& plan, const Question&) {
  if (plan.fits_device) return std::nullopt;
  return "parameters stay whole from the forward to their layer's backward";
}

Shard fsdp_rank_shard(const RankModel& model, const Training& training, const Strategy& s) {
  return shard_by_rows(model, training, s.layout.shard_ranks());
}

RunResult play_fsdp(const RunInputs& inputs, const std::optional<AllocatorOptions>& allocator, int steps,
                    bool condensed) {
  return Player<FsdpRun>(inputs, allocator).play(steps, condensed);
}

/// CPUOffloadPolicy: shards and reduced gradients are pinned parameter by parameter; torch's optimizer makes
/// its moments beside them. Source: torch 2.11 distributed/fsdp/_fully_shard/_fsdp_param.py,
/// _fsdp_collectives.py.
void offload_fsdp(const StepInputs& in, HostTally& host) {
  for (const RankTensor& tensor : in.rank.tensors) {
    const std::int64_t ranks = in.strategy.layout.shard_ranks();
    const Bytes stored(tensor.stored.value / std::max<std::int64_t>(tensor.elements.value, 1));
    const Bytes part =
        tensor.packed ? share(numbers_of(tensor), ranks) * tensor.number : fsdp_shard(tensor, ranks) * stored;
    host.pinned(part);
    if (tensor.trainable) host.pinned(part);
  }
  for (const RankTensor& tensor : in.rank.compared) {
    const Bytes stored(tensor.stored.value / std::max<std::int64_t>(tensor.elements.value, 1));
    host.pinned(fsdp_shard(tensor, in.strategy.layout.shard_ranks()) * stored);
  }
  host.pageable(in.shard.moments);
  // Each rank loads the packed model whole on the host: accelerate moves none that bitsandbytes packed to the
  // meta device (utils/fsdp_utils.py fsdp2_prepare_model).
  if (in.training.fsdp_makes_shards && shards_packed(in.training)) host.pageable(in.rank.frozen_size);
}

void offload_fsdp_if_asked(const StepInputs& in, HostTally& host) {
  if (in.strategy.offload_parameters != OffloadDevice::none) offload_fsdp(in, host);
}

/// Whatever cpu_ram_efficient_loading says, transformers 5.23 reads the checkpoint on every rank (measured:
/// tests/reference/host_memory). Source: accelerate 1.15 utils/fsdp_utils.py fsdp2_prepare_model,
/// save_fsdp_model, save_fsdp_optimizer; torch 2.11 distributed/checkpoint/filesystem.py.
ModelFiles fsdp_files(const StepInputs& in) {
  const bool packed = in.training.method == Method::qlora;
  Bytes largest{};
  for (const RankTensor& each : in.rank.tensors)
    largest = std::max(largest, fsdp_shard(each, in.strategy.layout.shard_ranks()) * Bytes(4));
  const bool widens = in.training.precision != Precision::fp32 && in.training.master_weights && !packed;
  return {.widens_on_host = widens,
          .saves = SavedModel::sharded,
          .gathers = true,
          .copied_state = in.strategy.offload_parameters == OffloadDevice::none ? largest : Bytes{},
          .gathers_states = true,
          .load_remedy =
              "16-bit weights without fp32 masters (mixed_precision: no, --no-master-weights), which "
              "stay mapped, or a model made on the meta device on all ranks but the first: "
              "transformers 5.23 reads the checkpoint on every rank, cpu_ram_efficient_loading or not, "
              "and accelerate widens what is trained before it shards it",
          .save_remedy = "fsdp_state_dict_type: SHARDED_STATE_DICT (--save sharded)"};
}

/// Returns the Trainer's `fsdp` and `fsdp_config` as one object, which ms-swift reads.
/// Source: ms-swift 4.6 swift/arguments/sft_args.py _init_fsdp, swift/config/fsdp2.json.
std::string swift_fsdp(const Plan& plan) {
  const Strategy& s = plan.strategy;
  const bool offloads = s.offload_parameters != OffloadDevice::none;
  const bool shipped = s.zero_stage == 3 && !offloads && s.checkpointing == Checkpointing::full;
  if (shipped) return "fsdp2";
  const Json settings = {{"fsdp_version", 2},
                         {"reshard_after_forward", s.zero_stage == 3},
                         {"auto_wrap_policy", "TRANSFORMER_BASED_WRAP"},
                         {"cpu_ram_efficient_loading", true},
                         {"state_dict_type", "SHARDED_STATE_DICT"},
                         {"activation_checkpointing", s.checkpointing == Checkpointing::full}};
  const Json both = {{"fsdp", offloads ? "full_shard auto_wrap offload" : "full_shard auto_wrap"},
                     {"fsdp_config", settings}};
  return shell_word(both.dump());
}

/// Returns the lines of a plan. accelerate's own config describes FSDP2; torchrun has no words for it.
Launch fsdp_launch(const Plan& plan, const Question& question, const std::string& config) {
  const Strategy& s = plan.strategy;
  Words words{"accelerate", "launch", "--config_file", shell_word(config)};
  add_meeting_place(words, question.cluster);
  words.emplace_back("train.py");
  const Words reshard{"--parallelism.fsdp_reshard_after_forward", s.zero_stage == 3 ? "always" : "never"};
  const std::string swift = swift_line(plan, question, {.sharding = {"--fsdp", swift_fsdp(plan)}});
  if (s.layout.sequence > 1) return {.swift = swift};  // no other trainer exchanges tokens for heads
  if (s.layout.tensor > 1) return {.accelerate = join(words)};
  return {.swift = swift,
          .accelerate = join(words),
          .torchtitan = torchtitan_line(plan, question, {s.layout.replicate, s.layout.shard}, reshard)};
}

}  // namespace

const FrameworkSpec& fsdp_spec() {
  static const FrameworkSpec kSpec{
      .title = "FSDP2: ",
      .calls_source = "FSDP2's calls (docs/fsdp.md); nccl-tests doc/PERFORMANCE.md",
      .host_source = "torch 2.11 CPUOffloadPolicy (docs/fsdp.md)",
      .terms = kFsdpTable,
      .config_file = "fsdp.yaml",
      .reads_ds_config = false,
      .reads_accelerate_config = true,
      .stages = kFsdpStages,
      .offloads = kFsdpOffloads,
      .splits_layers = false,
      .runs_alst = false,
      .runs_ulysses = true,
      .passes_keys = true,
      .divides_experts = false,
      .has_stages = false,
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
      .adds_on_host = true,
      .kernel = OptimizerKernel::foreach,
      .shards_reference = [](const Strategy&) { return true; },
      // By its MixedPrecisionPolicy, which accelerate gives it together with autocast; without one adapters
      // are computed with as they are stored.
      .casts_adapters =
          [](const Training& training, const Strategy&) {
            return training.autocast || (training.master_weights && training.precision != Precision::fp32);
          },
      .adapt = adapt_to_torch,
      .choose = nullptr,
      .schedule = nullptr,
      .check = check_fsdp,
      .sharding_name =
          [](const Strategy& s) { return std::string(s.zero_stage == 3 ? "fsdp" : "fsdp+no-reshard"); },
      .warnings = [](const Training&) { return Reasons{}; },
      .strategy_warnings = fsdp_strategy_warnings,
      .replication = fsdp_replication,
      .shard = fsdp_rank_shard,
      .slices = [](const RankModel&, const Training&, const Strategy&) { return std::vector<Slice>{}; },
      .optimizer_tensors = [](const RankModel& model, const Training&,
                              const Strategy& s) { return tensors_by_rows(model, s.layout.shard_ranks()); },
      .sums_on_host = [](const RankModel&, const Training&, const Strategy&,
                         const Shard&) { return Elements{}; },
      .play = play_fsdp,
      .flattening = [](const RunInputs&) { return std::optional<Flattening>{}; },
      .offload = offload_fsdp_if_asked,
      .files = fsdp_files,
      .launch = fsdp_launch,
      .config_notes = fsdp_notes,
  };
  return kSpec;
}

}  // namespace zplan
