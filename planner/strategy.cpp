#include "planner/strategy.h"

#include <fmt/format.h>

#include <algorithm>

namespace zplan {

namespace {

using Reasons = std::vector<std::string>;

/// Since when DeepSpeed has what a plan may ask for. Source:
/// planner/frameworks/deepspeed/config/releases.json; tests compare.
constexpr DeepSpeedRelease kAutoTpTraining{0, 16, 4}, kMuon{0, 17, 6}, kBf16Masters{0, 18, 3},
    kMuonAtStage3{0, 18, 9}, kRecomputesFrozen{0, 19, 3};

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
  const std::int64_t t = s.tensor_parallel;
  if (t == 1 || training.framework != Framework::deepspeed) return;
  const ModelShape& shape = model.shape;
  if (training.deepspeed < kAutoTpTraining)
    reasons.push_back(fmt::format("DeepSpeed {} does not train under AutoTP: that came with {}",
                                  to_text(training.deepspeed), to_text(kAutoTpTraining)));
  if (shape.libraries.autotp_refuses)
    reasons.push_back(fmt::format("DeepSpeed 0.19 refuses AutoTP for {}", shape.architecture));
  if (shape.key_value_heads % t != 0)
    reasons.push_back(
        fmt::format("tensor parallel {} does not divide the {} key-value heads: AutoTP would leave some "
                    "ranks with fewer heads or none",
                    t, shape.key_value_heads));
  if (shape.intermediate_size % t != 0)
    reasons.push_back(fmt::format("tensor parallel {} does not divide the feed-forward size {}", t,
                                  shape.intermediate_size));
  if (norms_each_head(model))
    reasons.emplace_back("AutoTP does not split query and key norms with a row of weights for each head");
  if (shape.experts) reasons.emplace_back("AutoTP training does not split stacked experts (DeepSpeed 0.19)");
  if (training.method != Method::full)
    reasons.emplace_back("AutoTP training does not split LoRA adapters with their layers (DeepSpeed 0.19)");
  if (s.offload_optimizer != OffloadDevice::none || s.offload_parameters != OffloadDevice::none)
    reasons.emplace_back(
        "AutoTP with offload is not planned: no recorded run of DeepSpeed to hold it against");
}

/// FSDP2 has two ways to reshard, plain PyTorch shards nothing; neither splits layers here.
void check_framework(const Training& training, const Strategy& s, Reasons& reasons) {
  if (training.framework == Framework::deepspeed) {
    if (s.replicas > 1)
      reasons.emplace_back(
          "hybrid sharding is planned for FSDP2 alone: DeepSpeed's MiCS is not, and 0.19.7 removed it");
    return;
  }
  const bool fsdp = training.framework == Framework::fsdp;
  if (fsdp && s.zero_stage < 2)
    reasons.push_back(
        fmt::format("FSDP2 shards parameters, gradients and states: it is planned as stage 3 "
                    "(reshard_after_forward) or 2 "
                    "(without), not {}",
                    s.zero_stage));
  if (!fsdp && s.zero_stage > 0)
    reasons.emplace_back("plain PyTorch shards nothing: it is planned as stage 0");
  if (s.replicas > 1 && !fsdp) reasons.emplace_back("plain PyTorch shards nothing that could be replicated");
  if (s.replicas > 1 && s.data_parallel % s.replicas != 0)
    reasons.push_back(fmt::format("{} replicas do not divide {} ranks", s.replicas, s.data_parallel));
  if (s.tensor_parallel > 1)
    reasons.emplace_back("tensor parallelism is planned for DeepSpeed's AutoTP alone");
  if (fsdp && training.method == Method::qlora)
    reasons.emplace_back("FSDP2 with bitsandbytes' packed weights (quant_storage) is not planned");
  if (training.optimizer == Optimizer::muon) reasons.emplace_back("Muon is planned as DeepSpeed's alone");
}

/// CPUOffloadPolicy: shards, gradients and states are on the host together.
void check_torch_offload(const Training& training, const Strategy& s, Reasons& reasons) {
  const bool optimizer = s.offload_optimizer != OffloadDevice::none;
  const bool parameters = s.offload_parameters != OffloadDevice::none;
  if (!optimizer && !parameters) return;
  if (training.framework == Framework::torch)
    reasons.emplace_back("plain PyTorch offloads nothing: take DeepSpeed or FSDP");
  else if (s.offload_parameters != OffloadDevice::cpu || s.offload_optimizer == OffloadDevice::nvme)
    reasons.emplace_back("FSDP2 offloads parameters, gradients and optimizer states to the host together");
  if (packed_optimizer(training.optimizer))  // CUDA kernels
    reasons.push_back(fmt::format("{} runs on the device alone", to_name(training.optimizer)));
}

void check_offload(const Training& training, const Strategy& s, Reasons& reasons) {
  if (training.framework != Framework::deepspeed) return check_torch_offload(training, s, reasons);
  const bool optimizer = s.offload_optimizer != OffloadDevice::none;
  if (s.offload_parameters != OffloadDevice::none && s.zero_stage < 3)
    reasons.push_back(
        fmt::format("offload_param needs ZeRO-3: at stage {} every GPU keeps all parameters", s.zero_stage));
  if (optimizer && s.zero_stage == 0) reasons.emplace_back("offload_optimizer needs ZeRO-1 or higher");
  if (s.offload_optimizer == OffloadDevice::nvme && s.zero_stage < 3)
    reasons.push_back(fmt::format("optimizer states on NVMe need ZeRO-3 (stage {} given)", s.zero_stage));
  if (optimizer && training.optimizer != Optimizer::adamw && training.optimizer != Optimizer::lion)
    reasons.push_back(fmt::format("no CPU version of {} in DeepSpeed: offload_optimizer takes adamw or lion",
                                  to_name(training.optimizer)));
}

void check_positions(const Model& model, const Training& training, Reasons& reasons) {
  const ModelShape& shape = model.shape;
  const bool learned = elements(model.inventory, TensorRole::position_embedding).value > 0;
  if (learned && shape.max_positions > 0 && training.sequence_length > shape.max_positions)
    reasons.push_back(fmt::format("{} has learned positions for {} tokens, fewer than --seq {}",
                                  shape.architecture, shape.max_positions, training.sequence_length));
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

void check_method(const Training& training, const Strategy& s, Reasons& reasons) {
  const bool deepspeed = training.framework == Framework::deepspeed;
  if (deepspeed && training.method == Method::qlora && s.zero_stage == 3)
    reasons.emplace_back(
        "ZeRO-3 does not shard bitsandbytes' packed 4- and 8-bit weights without special storage: "
        "use stage 2 or lower, or LoRA on 16-bit weights");
  if (deepspeed && training.optimizer == Optimizer::muon) check_muon(training, s, reasons);
  if (needs_reentrant_checkpointing(training, s) && s.checkpointing == Checkpointing::selective)
    reasons.push_back(fmt::format(
        "DeepSpeed {} stops at ZeRO-3 where frozen layers are recomputed (CheckpointError), unless "
        "checkpointing is reentrant, which selective checkpointing cannot be: that came with {}",
        to_text(training.deepspeed), to_text(kRecomputesFrozen)));
  if (s.zero.fp32_gradient_accumulation && s.zero_stage == 0 && training.precision != Precision::fp32)
    reasons.emplace_back("DeepSpeed does not accumulate 16-bit gradients in fp32 at stage 0");
}

}  // namespace

std::string to_text(DeepSpeedRelease release) {
  return fmt::format("{}.{}.{}", release.major, release.minor, release.patch);
}

std::optional<PackedOptimizer> packed_optimizer(Optimizer optimizer) {
  switch (optimizer) {
    case Optimizer::adamw8bit: return PackedOptimizer{2, true, false};
    case Optimizer::adamw32bit: return PackedOptimizer{2, false, false};
    case Optimizer::paged_adamw8bit: return PackedOptimizer{2, true, true};
    case Optimizer::paged_adamw32bit: return PackedOptimizer{2, false, true};
    case Optimizer::lion8bit: return PackedOptimizer{1, true, false};
    case Optimizer::lion32bit: return PackedOptimizer{1, false, false};
    case Optimizer::paged_lion8bit: return PackedOptimizer{1, true, true};
    case Optimizer::paged_lion32bit: return PackedOptimizer{1, false, true};
    default: return std::nullopt;
  }
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
  if (framework == Framework::deepspeed) return training;
  const bool is_16_bit = training.precision != Precision::fp32;
  training.optimizer_kernel = OptimizerKernel::fused;
  training.autocast = is_16_bit;
  if (training.method == Method::lora && is_16_bit) training.master_weights = false;
  training.fsdp_makes_shards = framework == Framework::fsdp;
  training.fsdp_reduces_fp32 = !is_16_bit;
  return training;
}

namespace {

std::string name_of_sharding(Framework framework, const Strategy& s) {
  if (framework == Framework::torch) return "ddp";
  if (framework == Framework::fsdp) return s.zero_stage == 3 ? "fsdp" : "fsdp+no-reshard";
  return s.tensor_parallel > 1 ? fmt::format("tp{}+zero{}", s.tensor_parallel, s.zero_stage)
                               : fmt::format("zero{}", s.zero_stage);
}

}  // namespace

std::string strategy_id(const Strategy& s) { return plan_id(Framework::deepspeed, s); }

std::string plan_id(Framework framework, const Strategy& s) {
  std::string id = name_of_sharding(framework, s);
  if (s.replicas > 1) id += fmt::format("+replicas{}", s.replicas);
  const Offload offload{s.offload_optimizer, s.offload_parameters};
  if (offload != Offload{}) id += fmt::format("+offload-{}", to_name(offload));
  if (s.checkpointing != Checkpointing::full)
    id += fmt::format("+checkpointing-{}", to_name(s.checkpointing));
  return id;
}

std::vector<std::string> why_illegal(const Model& model, const Training& training, const Strategy& s,
                                     World world) {
  Reasons reasons;
  const std::int64_t t = s.tensor_parallel;
  if (world.gpus % t != 0)
    reasons.push_back(fmt::format("{} GPUs are not a multiple of tensor parallel {}", world.gpus, t));
  else if (world.gpus_per_node % t != 0)
    reasons.push_back(
        fmt::format("tensor parallel {} does not divide the {} GPUs of a node: some groups would "
                    "reach across the network",
                    t, world.gpus_per_node));
  check_framework(training, s, reasons);
  check_tensor_parallel(model, training, s, reasons);
  check_offload(training, s, reasons);
  check_method(training, s, reasons);
  check_positions(model, training, reasons);
  return reasons;
}

Bytes weight_size(const Training& training) { return Bytes(training.precision == Precision::fp32 ? 4 : 2); }

bool widens_unpacked(const Training& training) {
  return training.method == Method::qlora && training.prepares_kbit_training &&
         !is_gptq(training.quantization);
}

Bytes parameter_size(const Training& training) {
  const bool keeps_fp32 = training.framework != Framework::deepspeed && training.master_weights &&
                          training.method != Method::qlora;
  return keeps_fp32 ? Bytes(4) : weight_size(training);
}

Bytes adapter_size(const Training& training) {
  return training.fp32_adapters ? Bytes(4) : parameter_size(training);
}

bool needs_reentrant_checkpointing(const Training& training, const Strategy& s) {
  const bool recomputes_frozen = s.checkpointing != Checkpointing::none && training.method != Method::full;
  return training.framework == Framework::deepspeed && s.zero_stage == 3 && recomputes_frozen &&
         training.deepspeed < kRecomputesFrozen;
}

bool quantizes_gradients(const Strategy& s, std::int64_t gpus_per_node) {
  const bool several_nodes = gpus_per_node > 0 && s.data_parallel * s.tensor_parallel / gpus_per_node > 1;
  return s.zero_stage == 3 && s.zero.quantized_gradients && several_nodes;
}

Precision sent_gradient_type(const Training& training, const Strategy& s) {
  return s.zero.communication_type.value_or(training.precision);
}

bool can_drop_master(const Training& training, const Strategy& s) {
  if (s.zero_stage == 0 || training.precision == Precision::fp32) return false;
  if (training.precision == Precision::bf16 && training.deepspeed < kBf16Masters) return false;
  const bool on_device = s.offload_optimizer == OffloadDevice::none;
  const bool cpu_adam = !on_device && training.optimizer == Optimizer::adamw;
  return training.precision == Precision::fp16 ? cpu_adam : on_device || cpu_adam;
}

bool drops_master(const Training& training, const Strategy& s) {
  return !training.master_weights && can_drop_master(training, s);
}

Bytes master_size(const Training& training, const Strategy& s) {
  if (training.precision == Precision::fp32) return Bytes(0);
  return Bytes(drops_master(training, s) ? 2 : 4);
}

bool accumulates_whole_fp32(const Training& training, const Strategy& s) {
  return s.zero_stage == 1 && s.zero.fp32_gradient_accumulation && training.precision != Precision::fp32 &&
         !uses_bf16_optimizer(training, s);
}

bool uses_bf16_optimizer(const Training& training, const Strategy& s) {
  return s.zero_stage == 1 && s.zero.fp32_gradient_accumulation && training.precision == Precision::bf16 &&
         s.offload_optimizer == OffloadDevice::none;
}

}  // namespace zplan
