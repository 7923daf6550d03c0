#include "planner/question/framework.h"

#include <fmt/format.h>

#include <array>

#include "planner/frameworks/ddp/ddp_run.h"
#include "planner/frameworks/launch/accelerate_config.h"
#include "planner/frameworks/launch/launch.h"
#include "planner/frameworks/torch_rules.h"
#include "planner/plan/plan.h"
#include "planner/question/question.h"
#include "planner/sharding/optimizer_state.h"
#include "planner/sharding/shard.h"
#include "planner/simulation/host_tally.h"
#include "planner/simulation/player.h"

namespace zplan {

namespace {

using enum Term;
constexpr std::string_view kPlain =
    "torch 2.11 nn/parallel/distributed.py, reducer.cpp, whole steps traced (docs/fsdp.md)";

constexpr std::array<TermInfo, 5> kPlainTable{{
    {trained_parameters, MemoryPart::parameters, "trained parameters",
     "4·Ψ under autocast; 2·Ψ without fp32 weights", kPlain},
    {frozen_parameters, MemoryPart::parameters, "frozen parameters", "as they are loaded", kPlain},
    {gradients, MemoryPart::gradients, "gradients", "as the parameters: 4·Ψ or 2·Ψ", kPlain},
    {gradient_bucket, MemoryPart::communication_buffers, "DDP's buckets", "every gradient once more", kPlain},
    {bucket_copy, MemoryPart::communication_buffers, "flat copy of a bucket",
     "parameters as they are broadcast, or a bucket", kPlain},
}};

constexpr std::array kDdpStages{0};
constexpr std::array kDdpOffloads{Offload{}};

void check_ddp(const Model& model, const Training& training, const Strategy& s, Reasons& reasons) {
  if (s.zero_stage > 0) reasons.emplace_back("plain PyTorch shards nothing: it is planned as stage 0");
  if (s.layout.replicate > 1) reasons.emplace_back("plain PyTorch shards nothing that could be replicated");
  if (training.steps_in_backward && s.layout.data_ranks() > 1)
    reasons.emplace_back(
        "an optimizer that steps in the backward needs gradients that are reduced: one GPU, or FSDP2");
  check_torch(training, s, reasons);
  check_ulysses(model, training, s, reasons);
  if (s.offload_optimizer == OffloadDevice::none && s.offload_parameters == OffloadDevice::none) return;
  reasons.emplace_back("plain PyTorch offloads nothing: take DeepSpeed or FSDP");
  check_offloaded_optimizer(training, reasons);
}

/// One GPU has no buckets.
Reasons ddp_warnings(const Training& training, const Strategy& s) {
  Reasons warnings;
  if (s.layout.world() > 1)
    warnings.emplace_back(
        "DistributedDataParallel is planned with torch's defaults: buckets of 25 MiB, "
        "gradient_as_bucket_view off");
  for (std::string& each : ulysses_warnings(training, s)) warnings.push_back(std::move(each));
  return warnings;
}

std::optional<std::string> ddp_replication(const Plan& plan, const Question& q) {
  const Bytes frozen = plan.memory().peak.holds[Term::frozen_parameters];
  if (frozen.value > available(q.cluster, q.headroom).value / 2)
    return fmt::format("every GPU keeps {} of frozen weights: only sharding divides them",
                       format_bytes(frozen, q.unit));
  if (plan.fits_device) return std::nullopt;
  return "every GPU keeps all parameters, gradients and optimizer states";
}

RunResult play_ddp(const RunInputs& inputs, const std::optional<AllocatorOptions>& allocator, int steps,
                   bool condensed) {
  return Player<DdpRun>(inputs, allocator).play(steps, condensed);
}

/// Source: transformers 5.23 trainer.py save_model, modeling_utils.py save_pretrained; safetensors 0.8
/// torch.py.
ModelFiles ddp_files(const StepInputs& in) {
  return {.saves = SavedModel::full,
          .trained_alone = true,
          .copied_state = in.rank.largest_trainable * Bytes(4),
          .load_remedy =
              "load in the checkpoint's type (dtype=\"auto\", --load-dtype bf16), whose file is "
              "mapped, or FSDP2 with dtype=torch.float32, of which rank 0 alone reads it",
          .save_remedy = "a smaller max_shard_size of save_pretrained: one file at a time is on the host"};
}

Launch ddp_launch(const Plan& plan, const Question& question, const std::string&) {
  const Training& training = question.training;
  const Cluster& cluster = question.cluster;
  Words plain = torchrun_words(cluster), words{"accelerate", "launch"};
  plain.emplace_back("train.py");
  if (cluster.gpus > 1) words.emplace_back("--multi_gpu");
  add(words, {"--num_processes", std::to_string(cluster.gpus), "--mixed_precision",
              std::string(mixed_precision(plan, training))});
  if (cluster.nodes > 1) add(words, {"--num_machines", std::to_string(cluster.nodes)});
  add_meeting_place(words, cluster);
  words.emplace_back("train.py");
  // DDP keeps weights as they are loaded: DeepSpeed and FSDP2 make fp32 master weights of 16-bit ones.
  const SwiftWords own{.keeps_fp32 = training.method == Method::full && training.master_weights,
                       .checkpoints = plan.strategy.checkpointing != Checkpointing::none};
  const std::string swift = swift_line(plan, question, own);
  // No other trainer exchanges tokens for heads beside DDP.
  if (plan.strategy.layout.sequence > 1) return {.swift = swift};
  return {.torchrun = join(plain),
          .swift = swift,
          .accelerate = join(words),
          .torchtitan = torchtitan_line(plan, question, {.replicate = plan.strategy.layout.data_ranks()})};
}

}  // namespace

const FrameworkSpec& ddp_spec() {
  static const FrameworkSpec kSpec{
      .title = "plain PyTorch (DDP): ",
      .calls_source = "DistributedDataParallel's buckets (docs/fsdp.md); nccl-tests doc/PERFORMANCE.md",
      .host_source = "",
      .terms = kPlainTable,
      .config_file = "",
      .reads_ds_config = false,
      .reads_accelerate_config = false,
      .stages = kDdpStages,
      .offloads = kDdpOffloads,
      .splits_layers = false,
      .runs_alst = false,
      .runs_ulysses = true,
      .passes_keys = false,
      .divides_experts = false,
      .has_stages = false,
      .replicates = false,
      .sharded_instead = Framework::fsdp,
      .packed_instead = Framework::fsdp,
      .casts_model = false,
      .handles_weights = false,
      .gathers_at_modules = false,
      .autocasts_masters = true,
      .fused_lion = false,
      .makes_shards = false,
      .fuses_host_optimizer = false,
      .adds_on_host = false,
      .kernel = OptimizerKernel::foreach,
      .shards_reference = [](const Strategy&) { return false; },
      .casts_adapters = [](const Training&, const Strategy&) { return false; },
      .adapt = adapt_to_torch,
      .choose = nullptr,
      .schedule = nullptr,
      .check = check_ddp,
      .sharding_name = [](const Strategy&) { return std::string("ddp"); },
      .warnings = [](const Training&) { return Reasons{}; },
      .strategy_warnings = ddp_warnings,
      .replication = ddp_replication,
      .shard = [](const RankModel& model, const Training& training,
                  const Strategy&) { return shard_by_rows(model, training, 1); },
      .slices = [](const RankModel&, const Training&, const Strategy&) { return std::vector<Slice>{}; },
      .optimizer_tensors = [](const RankModel& model, const Training&,
                              const Strategy&) { return tensors_by_rows(model, 1); },
      .sums_on_host = [](const RankModel&, const Training&, const Strategy&,
                         const Shard&) { return Elements{}; },
      .play = play_ddp,
      .flattening = [](const RunInputs&) { return std::optional<Flattening>{}; },
      .offload = [](const StepInputs&, HostTally&) {},
      .files = ddp_files,
      .launch = ddp_launch,
      .config_notes = ddp_notes,
  };
  return kSpec;
}

}  // namespace zplan
