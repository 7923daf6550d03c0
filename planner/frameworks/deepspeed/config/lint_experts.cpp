// Rules about expert parallelism: DeepSpeed's AutoEP.

#include "planner/frameworks/deepspeed/config/expert_config.h"
#include "planner/frameworks/deepspeed/config/lint_context.h"

namespace zplan {

namespace {

constexpr const char* kExperts = "/expert_parallel";

/// What the file and the options say. A model that is not known is taken for one that fits.
ExpertUse use_of(const LintContext& context, const ExpertConfig& config) {
  ExpertUse use;
  use.config = config;
  const bool knows_model = !context.options.architecture.empty();
  use.architecture = knows_model ? context.options.architecture : architecture_with_preset();
  use.experts = knows_model ? context.options.experts : std::max<std::int64_t>(1, config.autoep_size);
  use.ranks = context.options.gpus.value_or(std::max<std::int64_t>(1, config.autoep_size) *
                                            std::max<std::int64_t>(1, config.expert_tensor_parallel_size));
  use.tensor_parallel = std::max<std::int64_t>(
      1, context.options.tensor_parallel.value_or(context.whole("/tensor_parallel/autotp_size").value_or(1)));
  if (const std::string preset = context.text("/tensor_parallel/preset_model"); !preset.empty())
    use.tensor_preset = preset;
  use.has_partition_config = context.has("/tensor_parallel/partition_config") || !knows_model;
  use.zero_stage = context.stage;
  use.precision = context.precision() == "fp16"   ? Precision::fp16
                  : context.precision() == "fp32" ? Precision::fp32
                                                  : Precision::bf16;
  use.offloads = context.device(kZero + "/offload_optimizer") != "none" ||
                 context.device(kZero + "/offload_param") != "none";
  use.data_before_expert = context.flag("/use_data_before_expert_parallelism", false);
  use.contiguous_gradients = context.flag(kZero + "/contiguous_gradients", true);
  use.reduce_scatter = context.flag(kZero + "/reduce_scatter", true);
  use.quantized_gradients = context.flag(kZero + "/zero_quantized_gradients", false);
  use.secondary_partition = context.whole(kZero + "/zero_hpz_partition_size").value_or(1);
  use.fp32_accumulation = context.text("/data_types/grad_accum_dtype") == "fp32";
  return use;
}

void check_optimizer(LintContext& context) {
  if (context.stage != 1 && context.stage != 2) return;
  if (context.has("/optimizer")) return;
  context.add(
      "expert-parallel-optimizer", kExperts,
      {.found = fmt::format("expert parallelism at ZeRO-{} without \"optimizer\"", context.stage),
       .outcome = Outcome::raises,
       .effect = "with an optimizer of the script's, the HF Trainer's among them, DeepSpeed stops: \"The "
                 "model has moe layers, but None of the param groups are marked as MoE. Create a param "
                 "group with 'moe' key set to True before creating optimizer\"",
       .advice = "write an \"optimizer\" section"});
}

}  // namespace

void lint_experts(LintContext& context) {
  if (!context.at("").is_object() || !context.at(kExperts).is_object()) return;
  const JsonReader section(context.at(kExperts), "expert_parallel");
  ExpertConfig config;
  try {
    config = read_expert_config(section);
  } catch (const InputError&) {
    return;  // values of another type are the business of other rules
  }
  for (const std::string& key : config.unknown) {
    const std::string pointer = std::string(kExperts) + "/" + key;
    context.add("expert-parallel-key", pointer,
                {.found = fmt::format("unknown key \"{}\"", key),
                 .outcome = Outcome::ignored,
                 .effect = "DeepSpeed reads the keys that it knows and says nothing of others",
                 .advice = "remove it"});
  }
  const ExpertAnswer answer = answer_of_deepspeed(use_of(context, config));
  if (answer.error)
    context.add("expert-parallel-refused", kExperts,
                {.found = "an expert_parallel section that DeepSpeed refuses",
                 .outcome = Outcome::raises,
                 .effect = fmt::format("DeepSpeed stops: {}", *answer.error)});
  if (!config.enabled) return;
  if (!answer.error && !answer.replaces)
    context.add(
        "expert-parallel-nothing", kExperts,
        {.found = fmt::format("expert parallelism of {}", context.options.architecture),
         .outcome = Outcome::ignored,
         .effect = "AutoEP finds nothing to replace, warns of it and trains without expert parallelism",
         .advice = "leave the section out"});
  else if (!answer.error)
    check_optimizer(context);
}

}  // namespace zplan
