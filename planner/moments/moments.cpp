#include "planner/moments/moments.h"

#include <algorithm>

#include "planner/moments/evaluation.h"
#include "planner/moments/rollout.h"
#include "planner/question/framework.h"
#include "planner/sharding/rank_model.h"
#include "planner/simulation/run.h"

namespace zplan {

namespace {

constexpr std::string_view kTransformers = "transformers 5.23 modeling_utils.py, core_model_loading.py";
constexpr std::string_view kTrainer = "transformers 5.23 trainer.py save_model; accelerate 1.15";
constexpr Bytes kFp32(4), kCheckpointNumber(2);

Bytes size_of(Precision precision) { return precision == Precision::fp32 ? kFp32 : kCheckpointNumber; }

/// Returns the type that from_pretrained loads in; nothing for the checkpoint's own, which is assumed to be
/// 16-bit.
std::optional<Precision> load_type(const StepInputs& in, const ModelFiles& files) {
  if (in.training.beside.load_dtype) return in.training.beside.load_dtype;
  if (in.training.precision == Precision::fp32) return Precision::fp32;
  const bool masters = in.training.method == Method::full && !spec(in.training.framework).casts_model &&
                       in.training.master_weights;
  if (masters && !files.widens_on_host) return Precision::fp32;
  return std::nullopt;
}

/// Elements of the checkpoint's tensors that are trained: a whole model's, whatever a rank holds of it.
Elements trained_whole(const StepInputs& in) {
  return in.training.method == Method::full ? parameters(in.model) : in.rank.trainable;
}

/// The parameter that GatheredParameters makes whole, and the flat buffer that it is gathered into.
Resident gathered_tensor(const StepInputs& in) {
  return {.name = "the largest tensor, gathered",
          .device = in.rank.largest_tensor * weight_size(in.training) * 2,
          .formula = "2 · w · elements",
          .source = "DeepSpeed 0.19.8 partition_parameters.py _allgather_params"};
}

/// Returns the part of the shards on the device. Offloaded ones go to the host one by one and count with what
/// offload keeps there.
Bytes shards_on_device(const StepInputs& in) {
  return in.strategy.offload_parameters == OffloadDevice::none ? in.shard.parameters : Bytes{};
}

/// Weights in the checkpoint's type are mapped from its files, which the kernel can drop again; what is made
/// of them is allocated.
std::vector<Resident> loaded(const StepInputs& in, const ModelFiles& files) {
  const BesideSteps& beside = in.training.beside;
  if (files.made_on_device) return {};
  const bool handed = files.hands_out && !beside.loads_everywhere;
  std::vector<Resident> parts;
  if (handed)
    parts = {{.name = "shards",
              .device = shards_on_device(in) + in.shard.persistent_parameters,
              .formula = "as between steps; offloaded ones are sent to the host as they are made",
              .source = "DeepSpeed 0.19.8 partition_parameters.py Init, remote_device; docs/states.md"},
             gathered_tensor(in)};
  if (in.training.method == Method::qlora) return parts;  // bitsandbytes packs each weight on the device
  Bytes adapters{};
  for (const RankTensor& each : in.rank.tensors)
    if (each.added) adapters += each.stored;
  if (adapters.value > 0)
    parts.push_back({.name = "adapters, before they reach the device",
                     .host = adapters,
                     .formula = "bytes of the adapters",
                     .source = "peft 0.21 get_peft_model"});
  const std::optional<Precision> type = load_type(in, files);
  const bool converts = type && *type != Precision::bf16;
  const auto add = [&](std::string_view name, Bytes size, std::string_view formula, std::string_view source) {
    if (size.value > 0) parts.push_back({.name = name, .host = size, .formula = formula, .source = source});
  };
  if (converts && !handed)
    add("weights in another type than the checkpoint's", parameters(in.model) * size_of(*type),
        "Ψ · bytes of a number", kTransformers);
  else if (!handed)
    add("experts stacked into one tensor",
        elements(in.model.inventory, TensorRole::expert) * kCheckpointNumber, "2 B · Ψ of experts",
        kTransformers);
  if (files.widens_on_host) {
    const Bytes whole = in.rank.largest_tensor * kFp32;
    const Bytes own = share(in.rank.largest_tensor, in.strategy.layout.shard_ranks()) * kFp32;
    parts.push_back({.name = "shards, and the last parameter before it is one",
                     .device = shards_on_device(in) + whole - own,
                     .formula = "4·σ + 4·n·(1 − 1/N) of the largest",
                     .source = "accelerate 1.15 utils/fsdp_utils.py fsdp2_load_full_state_dict"});
  }
  if (files.widens_on_host && !(type && *type == Precision::fp32))
    add("trained weights widened to fp32", trained_whole(in) * kFp32, "4 B · Ψ on every rank",
        "accelerate 1.15 utils/fsdp_utils.py fsdp2_prepare_model");
  return parts;
}

/// Bytes of what the Trainer's save_model writes, as the weights are held.
Bytes saved_weights(const StepInputs& in, const ModelFiles& files) {
  const bool trained_alone = files.trained_alone && in.training.method != Method::full;
  if (in.strategy.layout.tensor > 1 || in.strategy.layout.expert > 1)
    return (trained_alone ? in.rank.trainable : parameters(in.model)) * weight_size(in.training);
  Bytes sum{};
  for (const RankTensor& each : in.rank.tensors)
    if (each.trainable || !trained_alone) sum += each.stored;
  return sum;
}

SavedModel saved_model(const StepInputs& in, const ModelFiles& files) {
  return in.training.beside.save.value_or(files.saves);
}

std::vector<Resident> saved(const StepInputs& in, const ModelFiles& files) {
  if (files.gathers && saved_model(in, files) == SavedModel::sharded) return {};
  // save_pretrained writes files of at most 50 GB (max_shard_size), one after the other.
  constexpr Bytes kShardFile(50'000'000'000);
  Bytes weights = saved_weights(in, files);
  if (files.clones_everywhere)
    return {{.name = "clone of the state dict on every rank",
             .host = weights,
             .formula = "bytes of the weights as a rank holds them",
             .source = "accelerate 1.15 Accelerator.get_state_dict: clone_tensors_for_torch_save"}};
  if (!files.gathers) weights = std::min(weights, kShardFile);
  Resident part{.name = files.gathers ? "gathered weights" : "weights of a file",
                .host_of_first = weights,
                .formula = files.gathers ? "bytes of the weights, whole" : "at most 50 GB (max_shard_size)",
                .source = kTrainer};
  if (files.gathers && files.widens_on_host)
    return {part,
            {.name = "the largest tensor, gathered",
             .device = in.rank.largest_tensor * kFp32,
             .formula = "4 B · elements",
             .source = "torch 2.11 distributed/tensor DTensor.full_tensor"}};
  if (files.gathers) return {part, gathered_tensor(in)};
  part.is_copy = true;
  return {part};
}

std::vector<Resident> checkpointed(const StepInputs& in, const ModelFiles& files) {
  std::vector<Resident> parts;
  if (files.copied_state.value > 0)
    parts.push_back({.name = "copy of one state",
                     .host = files.copied_state,
                     .formula = "the largest tensor of states that a rank has on the device",
                     .source = "torch 2.11 serialization.py _save",
                     .is_copy = true});
  if (files.gathers_states && saved_model(in, files) == SavedModel::full)
    parts.push_back({.name = "gathered optimizer states",
                     .host_of_first = in.shard.moments * in.strategy.layout.shard_ranks(),
                     .formula = "states of every rank",
                     .source = "accelerate 1.15 utils/fsdp_utils.py save_fsdp_optimizer"});
  return parts;
}

/// Adds a moment up, with what offload keeps on the host all the while.
MomentMemory moment_of(RunMoment moment, std::vector<Resident> parts, std::int64_t ranks, Bytes offload,
                       std::string_view remedy) {
  MomentMemory memory{
      .moment = moment, .parts = std::move(parts), .device = {}, .host = offload, .remedy = remedy};
  memory.device = on_device(memory.parts);
  for (const Resident& each : memory.parts) memory.host += each.host * ranks + each.host_of_first;
  return memory;
}

}  // namespace

std::vector<MomentMemory> host_moments(const StepInputs& in, std::int64_t ranks_per_node, Bytes offload) {
  const ModelFiles files = spec(in.training.framework).files(in);
  return {moment_of(RunMoment::load, loaded(in, files), ranks_per_node, {}, files.load_remedy),
          moment_of(RunMoment::training, {}, ranks_per_node, offload, {}),
          moment_of(RunMoment::save_model, saved(in, files), ranks_per_node, offload, files.save_remedy),
          moment_of(RunMoment::save_checkpoint, checkpointed(in, files), ranks_per_node, offload,
                    "save_only_model=True of TrainingArguments, which leaves optimizer states out, or, of "
                    "FSDP2, SHARDED_STATE_DICT (--save sharded)")};
}

Bytes on_device(const std::vector<Resident>& parts) {
  Bytes all{};
  for (const Resident& each : parts) all += each.device;
  return all;
}

Bytes most_on_host(const std::vector<MomentMemory>& moments) {
  Bytes most{};
  for (const MomentMemory& each : moments) most = std::max(most, each.host);
  return most;
}

std::vector<MomentMemory> run_moments(const RunInputs& inputs, const StepFigures& step,
                                      std::int64_t ranks_per_node) {
  const Bytes away = step.offload + engine_on_host(inputs.step.model, inputs.step.training) * ranks_per_node;
  std::vector<MomentMemory> moments = host_moments(inputs.step, ranks_per_node, away);
  std::vector<MomentMemory> some;
  const auto add = [&](RunMoment moment, std::vector<Resident> parts, std::string_view remedy) {
    if (!parts.empty()) some.push_back(moment_of(moment, std::move(parts), ranks_per_node, away, remedy));
  };
  add(RunMoment::evaluation, evaluation(inputs, step), evaluation_remedy(inputs.step.training));
  if (!rolls_out(inputs.step.training))
    add(RunMoment::generation, generation(inputs, step), "a smaller evaluation batch (--eval-batch)");
  moments.insert(moments.begin() + 2, some.begin(), some.end());
  some.clear();
  add(RunMoment::weight_sync, weight_sync(inputs, step), "an engine that sleeps (--vllm-sleep 2)");
  add(RunMoment::generation, rollout_generation(inputs, step), rollout_remedy(inputs.step.training));
  add(RunMoment::scoring, scoring(inputs, step), scoring_remedy(inputs.step.training));
  moments.insert(moments.begin() + 1, some.begin(), some.end());
  for (MomentMemory& each : moments) {
    if (each.moment == RunMoment::training) each.device = step.required;
    // Gathered weights come on top of what training holds.
    if (each.moment == RunMoment::save_model && each.device.value > 0)
      each.device += step.held + step.outside;
    if (each.moment == RunMoment::load && each.device.value > 0) each.device += step.outside;
  }
  return moments;
}

const MomentMemory* short_moment(const std::vector<MomentMemory>& moments, Bytes device, Bytes host) {
  const auto found = std::ranges::find_if(
      moments, [&](const MomentMemory& each) { return each.device > device || each.host > host; });
  return found == moments.end() ? nullptr : &*found;
}

}  // namespace zplan
