#include "planner/frameworks/deepspeed/config/read_config.h"

#include <algorithm>
#include <limits>
#include <nlohmann/json.hpp>

#include "models/base/json_reader.h"
#include "planner/frameworks/deepspeed/config/config_warnings.h"
#include "planner/frameworks/deepspeed/config/expert_config.h"
#include "planner/frameworks/deepspeed/config/keys.h"
#include "planner/frameworks/deepspeed/config/lint_context.h"
#include "planner/frameworks/deepspeed/config/lint_text.h"
#include "planner/frameworks/deepspeed/config/releases.h"

namespace zplan {

namespace {

/// More elements than this are as good as no limit, and sums of them still fit.
constexpr std::int64_t kManyElements = 1'000'000'000'000'000;
constexpr std::int64_t kLargestBatch = 1'000'000'000'000;
constexpr std::int64_t kLargestCount = 1'000'000;  // of micro-batches, and of samples in one
constexpr std::int64_t kLargestDegree = 1'000'000;
constexpr std::int64_t kNoLimit = std::numeric_limits<std::int64_t>::max();

using Section = std::optional<JsonReader>;

template <class T>
Pin<T> pin(T value, const JsonReader& at) {
  return Pinned<T>{value, at.place()};
}

/// DeepSpeed's default for a key that the file does not have.
template <class T>
Pin<T> pin_default(T value, const JsonReader& root, std::string_view key) {
  return Pinned<T>{value, fmt::format("{}, which has no \"{}\" (DeepSpeed's default)", root.place(), key)};
}

/// The value under one of its names; nothing where it is absent, null or "auto".
Section decided(const Section& section, std::string_view key, std::string_view other_name = {}) {
  if (!section) return std::nullopt;
  auto found = section->find(key);
  if (!found && !other_name.empty()) found = section->find(other_name);
  return found && !is_auto(*found) ? found : std::nullopt;
}

bool has_auto(const Section& section, std::string_view key) {
  const Section found = section ? section->find(key) : std::nullopt;
  return found && is_auto(*found);
}

Section object(const JsonReader& root, std::string_view key) {
  Section found = root.find(key);
  if (found && !found->raw().is_object()) found->fail_type("a JSON object");
  return found;
}

bool flag(const Section& section, std::string_view key, bool fallback) {
  const Section found = decided(section, key);
  return found ? found->boolean() : fallback;
}

// ---- zero_optimization

struct Zero {
  const JsonReader& root;
  Section section;  ///< absent: stage 0, or the old form that is only true or false
  int stage{};
};

/// "zero_optimization": true is how it was written before there were stages: stage 1.
Zero read_zero(const JsonReader& root, DsConfigPins& pins) {
  const auto found = root.find("zero_optimization");
  if (found && found->raw().is_boolean()) {
    pins.zero_stage = pin(found->boolean() ? 1 : 0, *found);
    return {root, std::nullopt, pins.zero_stage->value};
  }
  const Section section = object(root, "zero_optimization");
  const Section stage = decided(section, "stage");
  if (stage) pins.zero_stage = pin(static_cast<int>(stage->integer(0, 3)), *stage);
  // accelerate 1.15 DeepSpeedPlugin: 2 by default.
  else if (has_auto(section, "stage"))
    pins.zero_stage = pin(2, section->at("stage"));
  else
    pins.zero_stage = pin_default(0, root, "zero_optimization/stage");
  return {root, section, pins.zero_stage->value};
}

Elements elements(const Section& section, std::string_view key, std::string_view other_name,
                  Elements fallback, std::int64_t lowest = 0) {
  const Section found = decided(section, key, other_name);
  return found ? Elements(std::min(found->integer(lowest, kNoLimit), kManyElements)) : fallback;
}

ZeroOptions read_options(const Section& section, std::int64_t hidden_size) {
  ZeroOptions options;
  const ZeroOptions filled = zero_options(Buckets::hf_auto, hidden_size);
  const auto fallback = [&](std::string_view key, Elements by_trainer, Elements by_deepspeed) {
    return has_auto(section, key) ? by_trainer : by_deepspeed;
  };
  options.reduce_bucket_size =
      elements(section, "reduce_bucket_size", {},
               fallback("reduce_bucket_size", filled.reduce_bucket_size, options.reduce_bucket_size), 1);
  options.prefetch_bucket_size = elements(
      section, "stage3_prefetch_bucket_size", "prefetch_bucket_size",
      fallback("stage3_prefetch_bucket_size", filled.prefetch_bucket_size, options.prefetch_bucket_size));
  options.persistence_threshold =
      elements(section, "stage3_param_persistence_threshold", "param_persistence_threshold",
               fallback("stage3_param_persistence_threshold", filled.persistence_threshold,
                        options.persistence_threshold));
  options.max_live_parameters =
      elements(section, "stage3_max_live_parameters", "max_live_parameters", options.max_live_parameters);
  options.max_reuse_distance =
      elements(section, "stage3_max_reuse_distance", "max_reuse_distance", options.max_reuse_distance);
  options.sub_group_size = elements(section, "sub_group_size", {}, options.sub_group_size);
  // Nothing is planned by it, but DeepSpeed stops at what is no number.
  (void)elements(section, "allgather_bucket_size", {}, Elements(0));
  if (const Section overlap = decided(section, "overlap_comm")) options.overlap_comm = overlap->boolean();
  options.parameter_alignment = flag(section, "parameter_alignment", false);
  options.reduce_scatter = flag(section, "reduce_scatter", true);
  options.multi_rank_bucket_allreduce = flag(section, "use_multi_rank_bucket_allreduce", true);
  const auto field = [&section](std::string_view key, std::string_view name) {
    const Section found = decided(section, key, name);
    return found && found->boolean();
  };
  options.gather_by_all_reduce =
      field("stage3_use_all_reduce_for_fetch_params", "use_all_reduce_for_fetch_params");
  options.gather_one_by_one = field("stage3_allgather_sequential", "allgather_sequential");
  options.quantized_weights = flag(section, "zero_quantized_weights", false);
  options.quantized_gradients = flag(section, "zero_quantized_gradients", false);
  if (const Section ranks = decided(section, "zero_hpz_partition_size"))
    options.secondary_partition = ranks->integer(1, kNoLimit);
  return options;
}

/// Keys of `zero_optimization` that do nothing at the config's stage.
void warn_without_effect(const Zero& zero, DsConfigPins& pins) {
  if (!zero.section) return;
  for (const std::string& key : zero.section->keys()) {
    const Section value = decided(zero.section, key);
    if (!value) continue;
    const bool none = value->raw().is_object() && value->raw().value("device", Json("none")) == "none";
    const bool lost = key == "offload_param" && zero.stage < 3 && !none;
    if (lost || without_effect(zero.root.raw(), "/zero_optimization/" + pointer_step(key), zero.stage))
      pins.warnings.push_back(fmt::format("{} does nothing at stage {}", value->place(), zero.stage));
  }
}

/// Returns the device of one of the offload sections. The old switches (cpu_offload, cpu_offload_param) mean
/// the host.
OffloadDevice read_device(const Zero& zero, std::string_view key, std::string_view old_switch) {
  if (flag(zero.section, old_switch, false)) return OffloadDevice::cpu;
  const Section section = zero.section ? object(*zero.section, key) : std::nullopt;
  const Section device = decided(section, "device");
  if (!device) return OffloadDevice::none;
  return parse_name<OffloadDevice>(device->place(), device->text());
}

void read_offload(const Zero& zero, DsConfigPins& pins) {
  Offload offload{read_device(zero, "offload_optimizer", "cpu_offload"),
                  read_device(zero, "offload_param", "cpu_offload_param")};
  if (zero.stage < 3) offload.parameters = OffloadDevice::none;  // see warn_without_effect
  if (zero.stage == 0 && offload.optimizer != OffloadDevice::none) {
    pins.warnings.push_back(
        fmt::format("{}#/zero_optimization/offload_optimizer does nothing at stage 0", zero.root.place()));
    offload.optimizer = OffloadDevice::none;
  }
  pins.offload = Pinned<Offload>{offload, zero.section ? zero.section->place() : zero.root.place()};
}

// ---- precision

void read_precision(const JsonReader& root, DsConfigPins& pins) {
  const Section bf16 = root.has("bf16") ? object(root, "bf16") : object(root, "bfloat16");
  const Section fp16 = object(root, "fp16");
  const bool use_bf16 = flag(bf16, "enabled", false), use_fp16 = flag(fp16, "enabled", false);
  if (use_bf16)
    pins.precision = pin(Precision::bf16, *bf16);
  else if (use_fp16)
    pins.precision = pin(Precision::fp16, *fp16);
  else if (!has_auto(bf16, "enabled") && !has_auto(fp16, "enabled"))
    pins.precision = pin_default(Precision::fp32, root, "bf16 or fp16");
  const Section section = use_bf16 ? bf16 : fp16;
  if (!use_bf16 && !use_fp16) return;
  const bool low =
      flag(section, use_bf16 ? "bf16_master_weights_and_grads" : "fp16_master_weights_and_grads", false);
  pins.master_weights = pin(!low, *section);
}

Precision type_named(const JsonReader& value) {
  // DeepSpeed takes torch's names too (runtime/config.py DtypeEnum).
  std::string name = value.text();
  if (name.starts_with("torch.")) name.erase(0, 6);
  if (name == "fp32" || name == "float32" || name == "float") return Precision::fp32;
  if (name == "bf16" || name == "bfloat16") return Precision::bf16;
  if (name == "fp16" || name == "float16" || name == "half") return Precision::fp16;
  value.fail_type("fp32, bf16, fp16 or null");
}

/// The kernels of quantised gradients read 16-bit values as fp16, whatever they are.
/// Source: DeepSpeed 0.19.8 csrc/quantization/pt_binding.cpp ds_swizzle_quant.
void warn_of_misread_gradients(const Zero& zero, DsConfigPins& pins) {
  if (zero.stage < 3 || !pins.zero.quantized_gradients) return;
  if (pins.precision && pins.precision->value != Precision::fp16)
    pins.warnings.push_back(
        fmt::format("{}: DeepSpeed 0.19.8 reads gradients as fp16 where it quantises them, and {} ones "
                    "become other numbers",
                    zero.section->at("zero_quantized_gradients").place(), to_name(pins.precision->value)));
}

/// Reads communication_data_type, the type in which gradients are sent, whatever type they are in.
void read_communication(const JsonReader& root, DsConfigPins& pins) {
  const Section given = decided(root, "communication_data_type");
  if (given) pins.zero.communication_type = type_named(*given);
  const Section of_sequence = decided(root, "seq_parallel_communication_data_type");
  if (of_sequence) pins.zero.sequence_communication_type = type_named(*of_sequence);
}

/// gradient_clipping; "auto" is the Trainer's max_grad_norm, 1.0.
void read_clipping(const JsonReader& root, DeepSpeedRelease release, DsConfigPins& pins) {
  constexpr double kLargestNorm = 1e30;
  const Section given = decided(root, "gradient_clipping");
  if (given)
    pins.zero.gradient_clipping = std::max(0.0, given->number(-kLargestNorm, kLargestNorm));
  else if (!root.has("gradient_clipping"))
    pins.zero.gradient_clipping = default_clipping(release);
}

void read_accumulation(const JsonReader& root, DsConfigPins& pins) {
  const Section given = decided(object(root, "data_types"), "grad_accum_dtype");
  if (!given) return;
  const auto type = type_named(*given);
  pins.zero.fp32_gradient_accumulation =
      type == Precision::fp32 && !(pins.precision && pins.precision->value == Precision::fp32);
  if (type != Precision::fp32 && pins.precision && pins.precision->value != type)
    pins.warnings.push_back(
        fmt::format("not counted: {} = {} beside {} (accumulation in another 16-bit type)", given->place(),
                    in_quotes(given->text()), to_name(pins.precision->value)));
}

// ---- the rest

Pin<std::int64_t> read_count(const JsonReader& root, std::string_view key, std::int64_t largest) {
  const Section found = decided(root, key);
  if (!found) return std::nullopt;
  return pin(found->integer(1, largest), *found);
}

void read_batch(const JsonReader& root, DsConfigPins& pins) {
  pins.micro_batch_size = read_count(root, "train_micro_batch_size_per_gpu", kLargestCount);
  pins.gradient_accumulation_steps = read_count(root, "gradient_accumulation_steps", kLargestCount);
  pins.train_batch_size = read_count(root, "train_batch_size", kLargestBatch);
  pins.micro_batch_is_auto = has_auto(root, "train_micro_batch_size_per_gpu");
  if (!root.has("train_micro_batch_size_per_gpu") && !root.has("train_batch_size"))
    pins.warnings.push_back(
        fmt::format("{}: DeepSpeed needs train_micro_batch_size_per_gpu or train_batch_size", root.place()));
}

void read_tensor_parallel(const JsonReader& root, DsConfigPins& pins) {
  const Section section = object(root, "tensor_parallel");
  pins.vocabulary_parallel_head = flag(section, "vocab_parallel_lm_head", false);
  const Section size = decided(section, "autotp_size");
  if (!size) {
    pins.tensor_parallel = pin_default<std::int64_t>(1, root, "tensor_parallel/autotp_size");
    return;
  }
  pins.tensor_parallel = pin(std::max<std::int64_t>(1, size->integer(0, kLargestDegree)), *size);
}

/// Reads sequence_parallel_size. DeepSpeed uses it only to count batches; a plan assumes that the training
/// script divides samples so.
void read_sequence_parallel(const JsonReader& root, DsConfigPins& pins) {
  const Section size = decided(root, "sequence_parallel_size");
  if (size) pins.sequence_parallel = pin(std::max<std::int64_t>(1, size->integer(0, kLargestDegree)), *size);
}

void read_experts(const JsonReader& root, DsConfigPins& pins) {
  const Section section = object(root, "expert_parallel");
  if (!section) return;
  const ExpertConfig config = read_expert_config(*section);
  for (const std::string& key : config.unknown)
    pins.warnings.push_back(
        fmt::format("{}/{}: DeepSpeed knows no such key and ignores it silently", section->place(), key));
  if (!config.enabled) return;
  if (config.autoep_size < 1)
    section->at("autoep_size")
        .fail(fmt::format("{}", config.autoep_size), "accepted: 1 or more, a divisor of the GPUs");
  if (config.comm_backend == "deepep")
    pins.warnings.push_back(fmt::format(
        "not counted: {}/comm_backend = \"deepep\" (its buffers and transport: all_to_alls are planned)",
        section->place()));
  if (!config.use_grouped_mm)
    pins.warnings.push_back(fmt::format(
        "not counted: {}/use_grouped_mm = false (experts one by one: grouped products are planned)",
        section->place()));
  const auto size = section->find("autoep_size");
  pins.expert_parallel = size ? pin(config.autoep_size, *size) : pin(config.autoep_size, *section);
  pins.experts = expert_parallel_of(config);
  pins.data_before_expert = flag(root, "use_data_before_expert_parallelism", false);
}

/// Returns the optimizer of a type, whose case does not matter. "Adam" is AdamW.
std::optional<Optimizer> optimizer_of(const std::string& given, bool momentum) {
  const std::string type = lower_case(given);
  if (type == "adam") return Optimizer::adamw;
  for (const OptimizerSpec& each : kOptimizers)
    if (!type.empty() && lower_case(std::string(each.deepspeed_type)) == type &&
        (type != "sgd" || momentum == (each.moments > 0)))
      return each.optimizer;
  return std::nullopt;
}

void read_optimizer(const JsonReader& root, DsConfigPins& pins) {
  const Section section = object(root, "optimizer");
  if (!section) return;
  const JsonReader type = section->at("type");
  const Section params = object(*section, "params");
  const Section momentum = decided(params, "momentum");
  const auto known = optimizer_of(type.text(), momentum && momentum->number(0, 1) > 0);
  if (known)
    pins.optimizer = pin(*known, type);
  else
    pins.warnings.push_back(
        fmt::format("not counted: {} = {} (its states are not known: those of --optimizer are counted)",
                    type.place(), in_quotes(type.text())));
}

}  // namespace

DsConfigPins read_ds_config(std::string_view text, const std::string& source, std::int64_t hidden_size,
                            DeepSpeedRelease release) {
  const Json document = parse_json(text, source);
  const JsonReader root(document, source);
  DsConfigPins pins;
  pins.warnings = check_keys(root);
  const Zero zero = read_zero(root, pins);
  pins.zero = read_options(zero.section, hidden_size);
  read_offload(zero, pins);
  warn_without_effect(zero, pins);
  read_precision(root, pins);
  warn_of_misread_gradients(zero, pins);
  read_accumulation(root, pins);
  read_communication(root, pins);
  read_clipping(root, release, pins);
  read_batch(root, pins);
  read_tensor_parallel(root, pins);
  read_sequence_parallel(root, pins);
  read_experts(root, pins);
  read_optimizer(root, pins);
  const std::vector<std::string> left_out = not_counted(root, zero.stage);
  pins.warnings.insert(pins.warnings.end(), left_out.begin(), left_out.end());
  return pins;
}

namespace {

[[noreturn]] void fail_batch(const Pinned<std::int64_t>& train, const std::string& found,
                             const std::string& accepted) {
  throw InputError(train.place, fmt::format("{} {}", train.value, found), "accepted: " + accepted);
}

/// train / (factor · world), which must come out even.
std::int64_t quotient(const Pinned<std::int64_t>& train, std::int64_t factor, std::int64_t world,
                      std::string_view of) {
  if (train.value % (factor * world) != 0)
    fail_batch(train, fmt::format("is not a multiple of {} {} x {} ranks", of, factor, world),
               fmt::format("a multiple of {}", factor * world));
  return train.value / (factor * world);
}

}  // namespace

Batch resolve_batch(const DsConfigPins& pins, std::int64_t gpus) {
  Batch batch;
  if (pins.micro_batch_size) batch.micro_batch_size = pins.micro_batch_size->value;
  if (pins.gradient_accumulation_steps)
    batch.gradient_accumulation_steps = pins.gradient_accumulation_steps->value;
  if (!pins.train_batch_size) return batch;
  const Pinned<std::int64_t>& train = *pins.train_batch_size;
  const std::int64_t tensor_parallel = pins.tensor_parallel ? pins.tensor_parallel->value : 1;
  if (batch.micro_batch_size) {
    const std::int64_t steps = quotient(train, *batch.micro_batch_size, gpus, "micro-batch");
    if (batch.gradient_accumulation_steps.value_or(steps) != steps)
      fail_batch(train,
                 fmt::format("is not micro-batch {} x {} accumulation steps x {} ranks",
                             *batch.micro_batch_size, *batch.gradient_accumulation_steps, gpus),
                 fmt::format("{}", *batch.micro_batch_size * *batch.gradient_accumulation_steps * gpus));
    batch.gradient_accumulation_steps = steps;
  } else if (!pins.micro_batch_is_auto) {
    batch.gradient_accumulation_steps = batch.gradient_accumulation_steps.value_or(1);
    batch.micro_batch_size = quotient(train, *batch.gradient_accumulation_steps, gpus, "accumulation steps");
  }
  if (train.value % tensor_parallel != 0)
    fail_batch(train, fmt::format("is not a multiple of tensor parallel {}", tensor_parallel),
               "DeepSpeed counts tensor-parallel ranks in it");
  batch.global_batch_size = train.value / tensor_parallel;
  return batch;
}

}  // namespace zplan
