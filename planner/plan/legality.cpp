#include "planner/plan/legality.h"

#include <fmt/format.h>

#include <utility>

#include "hardware_profiles/platform.h"
#include "planner/model_trace/recorded_tape.h"
#include "planner/question/framework.h"
#include "planner/sharding/rank_model.h"

namespace zplan {

namespace {

/// TensorFacts are what rules ask of a model's tensors.
struct TensorFacts {
  bool lacks_positions{};   ///< it learned fewer positions than a sample has tokens
  std::string ungrouped{};  ///< the first packed weight whose numbers do not make whole groups
};
TensorFacts tensor_facts(const Model& model, const Training& training) {
  const std::int64_t positions = model.shape.max_positions;
  const bool is_longer = positions > 0 && training.sequence_length > positions;
  const QuantizationSpec& about = spec(training.quantization);
  const bool is_grouped = training.method == Method::qlora && about.whole_group > 0;
  TensorFacts facts;
  if (!is_longer && !is_grouped) return facts;  // most questions: spares them the walk over all tensors
  for_each_tensor(model.inventory, [&](const Tensor& tensor, int) {
    if (is_longer && tensor.role == TensorRole::position_embedding) facts.lacks_positions = true;
    if (!is_grouped || !facts.ungrouped.empty() || !is_packed(training, tensor)) return;
    const std::int64_t out = tensor.linear->out_features, all = tensor.elements().value;
    const std::int64_t grouped = about.groups_whole_weights ? all : all / out;
    if (grouped % about.whole_group != 0 || out % about.whole_rows != 0) facts.ungrouped = tensor.name;
  });
  return facts;
}

/// Facts are what rules ask of a model and a training together.
struct Facts {
  TensorFacts tensors;
  std::string_view objective;  ///< as options name it
  std::optional<ReferenceModel> reference;
  std::int64_t micro_steps_fed{};  ///< by one generation
};

void check_positions(const ModelShape& shape, const TensorFacts& tensors, const Training& training,
                     Reasons& reasons) {
  if (tensors.lacks_positions)
    reasons.push_back(fmt::format("{} has learned positions for {} tokens, fewer than --seq {}",
                                  shape.architecture, shape.max_positions, training.sequence_length));
}

/// True of a model whose layers are neither described nor planned by analogy.
bool is_recorded_alone(const Model& model) { return model.recorded && !model.analogue; }

/// Rejects means for long samples that only another framework has.
void check_offered(const Strategy& s, const FrameworkSpec& framework, Reasons& reasons) {
  if (s.layout.sequence > 1 && !framework.runs_ulysses)
    reasons.emplace_back("sequence parallelism (Ulysses) is not this framework's: take --cp");
  if (s.layout.sequence > 1 && s.layout.context > 1)
    reasons.emplace_back(
        "accelerate takes one of sequence and context parallelism: one of --sp and --cp is 1");
  if (s.layout.context > 1 && !framework.passes_keys)
    reasons.emplace_back("context parallelism (ring attention) is FSDP2's: take --framework fsdp, or --sp");
  if (s.long_context.tiles() && !framework.runs_alst)
    reasons.emplace_back("tiles tell DeepSpeed when a gradient is complete: FSDP2 and DDP have no such word");
  const CheckpointOffload to = s.long_context.checkpoint_offload;
  const bool is_deepspeeds = to == CheckpointOffload::host || to == CheckpointOffload::pinned;
  if (is_deepspeeds && !framework.runs_alst)
    reasons.emplace_back("checkpoints on the host are planned for DeepSpeed and Unsloth alone");
}

/// Rejects what is not known of hooks that move saved tensors to the host.
void check_hooks(const Model& model, const Training& training, const Strategy& s,
                 const FrameworkSpec& framework, Reasons& reasons) {
  if (!moves_saved(s.long_context.checkpoint_offload)) return;
  if (framework.reads_ds_config || framework.has_stages)
    reasons.emplace_back(
        "activations on the host (--checkpoint-offload trl or torchtune) are planned on one "
        "GPU, with DDP and with FSDP2");
  if (training.compile != Compile::none)
    reasons.emplace_back(
        "hooks that move activations to the host fail on compiled layers (torch 2.11): "
        "--compile none");
  if (is_recorded_alone(model)) reasons.push_back(for_described_models("activations on the host"));
  if (s.checkpointing == Checkpointing::selective || training.modules.replaces_modules() ||
      training.objective != Objective::sft || s.layout.token_ranks() > 1 || s.layout.tensor > 1)
    reasons.emplace_back(
        "activations on the host are planned for next tokens over transformers' modules, "
        "with full checkpointing or none, without tensor and context parallelism");
}

/// Rejects what float8 products are not planned with.
void check_float8(const Model& model, const Training& training, const Strategy& s,
                  const FrameworkSpec& framework, Reasons& reasons) {
  if (training.float8 == Float8::none) return;
  if (framework.reads_ds_config || framework.has_stages)
    reasons.emplace_back("torchao's float8 products are planned on one GPU, with DDP and with FSDP2");
  if (training.float8 == Float8::tensorwise_gather && !framework.makes_shards)
    reasons.emplace_back("weights are gathered in 8 bits by FSDP2: --framework fsdp, or --float8 tensorwise");
  if (training.method != Method::full || training.precision == Precision::fp32 || model.shape.experts ||
      model.vision || training.modules.replaces_modules())
    reasons.emplace_back(
        "float8 products are planned for full training of dense text models in 16 bits over "
        "transformers' modules");
  if (training.compile == Compile::model)
    reasons.emplace_back("float8 products are planned with layers compiled or none: --compile layer");
  if (s.layout.tensor > 1 || s.layout.token_ranks() > 1)
    reasons.emplace_back("float8 products are planned for data parallelism alone");
  if (is_recorded_alone(model)) reasons.push_back(for_described_models("float8 training"));
}

/// Rejects what is not known of a model that runs with images.
void check_images(const Model& model, const Training& training, const Strategy& s, Reasons& reasons) {
  if (!model.vision) return;
  const auto unknown = [&](bool is_so, std::string_view what) {
    if (is_so) reasons.push_back(fmt::format("{} with images as input is not known", what));
  };
  unknown(s.layout.token_ranks() > 1, "sequence or context parallelism");
  unknown(training.precision == Precision::fp32, "training in fp32");
  if (s.megatron) return;
  unknown(s.layout.tensor > 1, "tensor parallelism");
  unknown(s.long_context.tiles() || s.long_context.checkpoint_offload != CheckpointOffload::none,
          "tiling or offloaded checkpoints");
  unknown(training.attention == Attention::eager, "eager attention");
  unknown(training.modules.replaces_modules(), "another library's layers");
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
  if (model.recorded || model.analogue) reasons.push_back(for_described_models("a fused head"));
}

/// Rejects a frozen copy of the adapters where it is not understood. Measured at ZeRO-3 its forward gathers
/// more than is understood (tests/reference/adapters).
void check_reference_adapter(const Training& training, const Strategy& s, Reasons& reasons) {
  if (training.method == Method::full)
    reasons.emplace_back("full fine-tuning has no adapters to keep a copy of: --reference copy");
  if (s.zero_stage == 3 || spec(training.framework).makes_shards)
    reasons.emplace_back(
        "--reference adapter is planned where every rank holds the model whole, not at ZeRO-3 nor under "
        "FSDP2");
}

void check_preferences(const Model& model, const Training& training, const Strategy& s, const Facts& facts,
                       Reasons& reasons) {
  const bool divides = s.layout.tensor > 1 || s.layout.token_ranks() > 1 || s.experts.enabled;
  if (divides && !training.modules.makes_all_losses)
    reasons.push_back(fmt::format("{} is planned for data parallelism alone", facts.objective));
  const bool sliced = training.fused_loss || training.loss_chunks > 1 || s.long_context.tiled_loss != 0;
  if (sliced && !distils(training))
    reasons.push_back(fmt::format(
        "{} takes log-probabilities of tokens: its loss is not planned fused with the head or in slices, but "
        "by TRL's fused head",
        facts.objective));
  // An analogue lends its micro-step over answers, but no copy of a reference model nor a rollout.
  const bool lends = compares_answers(training) && facts.reference != ReferenceModel::copy;
  if (is_recorded_alone(model) || (model.analogue && !lends))
    reasons.push_back(for_described_models(facts.objective));
  if (facts.reference == ReferenceModel::adapters_off && training.method == Method::full)
    reasons.emplace_back("full fine-tuning has no adapters that could be switched off: --reference copy");
  if (facts.reference == ReferenceModel::adapter) check_reference_adapter(training, s, reasons);
  const bool copies = facts.reference == ReferenceModel::copy && !model.teacher;
  if (copies && training.method == Method::qlora)
    reasons.emplace_back("a reference copy of packed weights is not planned: --reference adapters-off");
}

/// Rejects a teacher whose forward is not planned.
void check_teacher(const Model& model, const Training& training, const Facts& facts, Reasons& reasons) {
  if (training.fused_head || training.fused_loss || training.loss_chunks > 1 || training.sliced_head)
    reasons.emplace_back("gkd takes whole logits of student and teacher: without a fused or sliced loss");
  if (training.method == Method::qlora && facts.reference == ReferenceModel::adapters_off)
    reasons.emplace_back("gkd of packed weights by themselves is not planned: --teacher NAME");
  const bool is_unknown = model.teacher && (model.teacher->recorded || model.teacher->analogue);
  if (facts.reference == ReferenceModel::copy && is_unknown)
    reasons.push_back(fmt::format("--teacher: {}", for_described_models("a teacher")));
  if (model.teacher)
    check_positions(model.teacher->shape, tensor_facts(*model.teacher, training), training, reasons);
}

/// A generation has whole groups of completions. Source: TRL 1.16 trainer/grpo_config.py __post_init__.
void check_groups(const Training& training, const Strategy& s, const Facts& facts, Reasons& reasons) {
  const std::int64_t completions = s.micro_batch_size * s.layout.data_ranks() * facts.micro_steps_fed;
  if (completions % training.rollout.generations != 0)
    reasons.push_back(fmt::format(
        "{} completions of a generation (micro-batch {} x {} GPUs x {} micro-steps) are not whole groups of "
        "{}: --steps-per-generation, --generations",
        completions, s.micro_batch_size, s.layout.data_ranks(), facts.micro_steps_fed,
        training.rollout.generations));
}

/// Rejects a value or reward model whose layers are not described, or with too few positions.
void check_scorer(const std::shared_ptr<const Model>& scorer, std::string_view option,
                  const Training& training, Reasons& reasons) {
  if (!scorer) return;
  if (scorer->recorded || scorer->analogue)
    reasons.push_back(fmt::format("{}: {}", option, for_described_models("scoring")));
  check_positions(scorer->shape, tensor_facts(*scorer, training), training, reasons);
}

/// Rejects a model of values beside the policy where it is not planned.
void check_values(const Model& model, const Training& training, const Strategy& s,
                  const FrameworkSpec& framework, Reasons& reasons) {
  check_scorer(model.value, "--value-model", training, reasons);
  check_scorer(model.reward, "--reward-model", training, reasons);
  if (!framework.handles_weights && s.layout.world() > 1 && training.method != Method::full)
    reasons.emplace_back(
        "TRL's PPOTrainer asks the wrapped model for its policy, which DDP does not show, to switch adapters "
        "off: --framework deepspeed, or one GPU");
  if (s.zero_stage == 3 || framework.makes_shards)
    reasons.emplace_back(
        "ppo is planned where every rank holds its models whole: ZeRO 0 to 2 of DeepSpeed, or one GPU");
  // accelerate makes fp32 of all that a model under autocast returns, hidden states of all layers included.
  if (!framework.casts_model && training.precision != Precision::fp32 && training.master_weights)
    reasons.emplace_back(
        "ppo under autocast, whose logits accelerate widens to fp32, is not planned: --framework deepspeed");
  if (training.fused_head)
    reasons.emplace_back("TRL's PPOTrainer takes log-probabilities of whole logits: without --fused-head");
  if (training.method == Method::qlora)
    reasons.emplace_back("ppo over packed weights is not planned: --method lora");
  if (s.offload_optimizer != OffloadDevice::none || s.offload_parameters != OffloadDevice::none)
    reasons.emplace_back("ppo with offload is not planned");
}

/// Rejects weights that neither engines nor several GPUs support.
void check_unmoved_weights(const Training& training, const Strategy& s, const FrameworkSpec& framework,
                           Reasons& reasons) {
  if (spec(training.quantization).moves || (!framework.handles_weights && s.layout.world() == 1)) return;
  reasons.emplace_back(
      "torchao's int8 weights train on one GPU alone: neither DDP, FSDP2 nor DeepSpeed's engine takes "
      "them (--framework torch --gpus 1)");
}

void check_packed_weights(const Training& training, const Strategy& s, const FrameworkSpec& framework,
                          const Facts& facts, Reasons& reasons) {
  if (training.method != Method::qlora) return;
  const QuantizationSpec& about = spec(training.quantization);
  if (!about.untrained.empty()) reasons.emplace_back(about.untrained);
  check_unmoved_weights(training, s, framework, reasons);
  if (!facts.tensors.ungrouped.empty())
    reasons.push_back(fmt::format("{} groups {} numbers, which do not divide {}", about.name,
                                  about.whole_group, facts.tensors.ungrouped));
  if (training.dora && !about.takes_dora)
    reasons.push_back(fmt::format("peft has no DoRA beside {} weights", about.name));
  if (s.layout.tensor > 1 && !about.splits)
    reasons.push_back(fmt::format("tensor parallelism of {} weights is not planned", about.name));
}

/// Rejects what torch.compile is not planned with.
void check_compile(const Model& model, const Training& training, const Strategy& s,
                   const FrameworkSpec& framework, Reasons& reasons) {
  if (training.compile == Compile::none) return;
  const bool whole = training.compile == Compile::model;
  if (is_recorded_alone(model)) reasons.push_back(for_described_models("torch.compile"));
  if (framework.reads_ds_config || framework.has_stages || (whole && framework.makes_shards))
    reasons.emplace_back(whole ? "torch.compile of the whole model is planned on one GPU and with DDP"
                               : "torch.compile of layers is planned on one GPU, with DDP and with FSDP2");
  const bool owns = !whole && training.modules.compiles_layers;
  if (training.method == Method::qlora && !owns)
    reasons.emplace_back("torch.compile around packed weights is not planned: --method lora");
  if (s.layout.tensor > 1 || s.layout.token_ranks() > 1)
    reasons.emplace_back("torch.compile is planned for data parallelism alone");
  if (!owns && (training.modules.replaces_modules() || training.modules.kernels.replace_layers()))
    reasons.emplace_back("torch.compile is planned over transformers' own modules");
  if (whole && (training.fused_loss || training.fused_head || training.cut_loss || training.loss_chunks > 1 ||
                training.objective != Objective::sft))
    reasons.emplace_back("a model that is compiled as a whole has its own loss of next tokens");
}

void check_method(const Model& model, const Training& training, const Strategy& s,
                  const FrameworkSpec& framework, const Facts& facts, Reasons& reasons) {
  check_packed_weights(training, s, framework, facts, reasons);
  if (training.fused_head) check_fused_head(model, training, s, reasons);
  check_compile(model, training, s, framework, reasons);
  check_float8(model, training, s, framework, reasons);
  check_hooks(model, training, s, framework, reasons);
  if (training.cut_loss && s.layout.tensor > 1)
    reasons.emplace_back("cut cross-entropy is planned without tensor parallelism");
  const LayerKernels& kernels = training.modules.kernels;
  if (kernels.replace_layers() && is_recorded_alone(model))
    reasons.push_back(for_described_models(fmt::format("the use of {}'s kernels", kernels.owner)));
  if (kernels.delta_rule != nullptr && !kernels.replace_layers() && !model.shape.delta_net)
    reasons.push_back(
        fmt::format("the model has no linear attention that {}'s kernels are known for", kernels.owner));
  if (const auto refuses = training.modules.refuses)
    if (const std::optional<std::string> why = refuses(model, training, s)) reasons.push_back(*why);
  if (s.long_context.checkpoint_offload == CheckpointOffload::buffered &&
      training.modules.name != kUnsloth.name)
    reasons.emplace_back("--checkpoint-offload unsloth is Unsloth's: --trainer unsloth");
  const bool more = training.dora || !training.modules_to_save.empty();
  if (training.method != Method::full && more && is_recorded_alone(model))
    reasons.push_back(for_described_models("training with DoRA or trained copies"));
  if (trains_values(training)) check_values(model, training, s, framework, reasons);
  if (training.objective != Objective::sft) check_preferences(model, training, s, facts, reasons);
  if (training.objective == Objective::grpo) check_groups(training, s, facts, reasons);
  if (distils(training)) check_teacher(model, training, facts, reasons);
}

/// Refuses a step of more passes than can be played one by one: each takes some KiB of memory, and ten
/// times as many where its backward is divided.
void check_passes(const Strategy& s, Reasons& reasons) {
  constexpr std::int64_t kMostPasses = 1 << 17, kMostDivided = 1 << 13;
  const bool is_divided = s.torchtitan && splits_backward(s.torchtitan->schedule);
  const std::int64_t stages = s.layout.pipeline * s.layout.virtual_stages,
                     most = is_divided ? kMostDivided : kMostPasses;
  if (s.layout.pipeline == 1 || s.gradient_accumulation_steps <= most / stages) return;
  reasons.push_back(fmt::format(
      "{} micro-batches through {} stages are more than {} passes, the most that are planned of a step{}",
      s.gradient_accumulation_steps, stages, most, is_divided ? " whose schedule divides the backward" : ""));
}

}  // namespace

Reasons why_illegal(const Model& model, const Training& training, const Strategy& s, World world) {
  const FrameworkSpec& framework = spec(training.framework);
  const Facts facts{.tensors = tensor_facts(model, training),
                    .objective = to_name(training.objective),
                    .reference = reference_of(training),
                    .micro_steps_fed = generates(training) ? micro_steps_fed(training, s) : 1};
  Reasons reasons = layout_faults(s.layout, world);
  check_passes(s, reasons);
  framework.check(model, training, s, reasons);
  check_offered(s, framework, reasons);
  check_positions(model.shape, facts.tensors, training, reasons);
  check_images(model, training, s, reasons);
  check_method(model, training, s, framework, facts, reasons);
  if (auto reason = why_not_recorded(model, training, s)) reasons.push_back(*std::move(reason));
  return reasons;
}

std::string if_inferred(const Model& model) {
  if (model.source != ModelSource::size) return {};
  // "inferred from the size, after 01-ai/Yi-34B: 57 layers, …" (models/catalogue/infer.cpp)
  constexpr std::string_view kAfter = "after ";
  const std::size_t at = model.origin.find(kAfter);
  if (at == std::string::npos) return {};
  const std::string rest = model.origin.substr(at + kAfter.size());
  return fmt::format(" (inferred after {} from the size {}; name a real model to plan its own shape)",
                     rest.substr(0, rest.find(':')), model.name);
}

std::string for_described_models(std::string_view what) {
  return fmt::format(
      "{} is planned for the architectures that \"zplan models architectures\" lists: this model is known by "
      "a "
      "recording or by analogy alone",
      what);
}

bool shares_attention(const ModelShape& shape) {
  return shape.operators.attention == AttentionForm::shared &&
         shape.operators.kernels == AttentionKernels::all;
}

bool runs_flash(const Training& training, const Gpu& gpu) {
  return training.precision != Precision::fp32 && runs_flash_attention(gpu.compute_capability);
}

std::string why_no_bitsandbytes(const Training& training, const Gpu& gpu) {
  const PlatformSpec& platform = platform_of(gpu.compute_capability);
  const BitsandbytesSupport& has = platform.bitsandbytes;
  const auto missing = [&](std::string_view what) {
    return fmt::format("bitsandbytes has no {} for {}, which {} runs on", what, to_name(platform.platform),
                       gpu.name);
  };
  if (training.method == Method::qlora && is_nf4(training.quantization) && !has.four_bit)
    return missing("4-bit weights");
  if (training.method == Method::qlora && training.quantization == Quantization::int8 && !has.eight_bit)
    return missing("8-bit weights");
  if (!spec(training.optimizer).bitsandbytes_class.empty() && !has.optimizers)
    return missing(fmt::format("optimizer {}", to_name(training.optimizer)));
  return {};
}

}  // namespace zplan
