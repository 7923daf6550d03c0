// Rules about precision: settings that contradict each other, and what the GPU has.

#include "hardware_profiles/gpu.h"
#include "hardware_profiles/platform.h"
#include "planner/frameworks/deepspeed/config/lint_context.h"

namespace zplan {

namespace {

std::string bf16_section(const LintContext& context) { return context.has("/bf16") ? "/bf16" : "/bfloat16"; }

void check_both(LintContext& context) {
  const std::string bf16 = bf16_section(context);
  if (!context.flag(bf16 + "/enabled", false) || !context.flag("/fp16/enabled", false)) return;
  context.add("two-precisions", "/fp16",
              {.found = fmt::format("fp16 and {} are both enabled", bf16.substr(1)),
               .outcome = Outcome::raises,
               .effect = "DeepSpeed stops: a model has one 16-bit type",
               .advice = "enable one of them; bf16 needs no loss scaling"});
}

void check_autocast(LintContext& context) {
  if (!context.flag("/torch_autocast/enabled", false)) return;
  const std::string precision = context.precision();
  if (precision != "fp32" && !precision.empty())
    context.add(
        "autocast-beside-16-bit", "/torch_autocast",
        {.found = fmt::format("torch_autocast beside {}", precision),
         .outcome = Outcome::runs,
         .effect = "DeepSpeed turns the weights to 16 bits all the same, so that autocast keeps no fp32 "
                   "weights",
         .advice = fmt::format("take one of torch_autocast and {}", precision)});
  if (context.flag(kZero + "/zero_quantized_weights", false))
    context.add("stage-refuses", "/torch_autocast",
                {.found = "torch_autocast with zero_quantized_weights",
                 .outcome = Outcome::raises,
                 .effect = "DeepSpeed stops: it cannot do both",
                 .advice = "take one of them"});
}

/// 16-bit master weights: DeepSpeed wants its CPU Adam for them, bf16 alone also works with 16-bit states.
void check_master_weights(LintContext& context, const std::string& type, const std::string& section) {
  const std::string pointer = fmt::format("{}/{}_master_weights_and_grads", section, type);
  const std::string states = section + "/bf16_optimizer_states";
  const bool low = context.flag(pointer, false), low_states = context.flag(states, false);
  if (type == "bf16" && low_states && !low)
    context.add("master-weights", states,
                {.found = "bf16_optimizer_states without bf16_master_weights_and_grads",
                 .outcome = Outcome::raises,
                 .effect = "DeepSpeed stops: it takes both or neither",
                 .advice = "set bf16_master_weights_and_grads too",
                 .fix = LintFix{"write \"bf16_master_weights_and_grads\": true",
                                set_member(context.ds, section, "bf16_master_weights_and_grads", "true")}});
  if (!low) return;
  if (context.stage == 0) {
    context.add("master-weights", pointer,
                {.found = fmt::format("{}_master_weights_and_grads at stage 0", type),
                 .outcome = Outcome::raises,
                 .effect = "DeepSpeed stops: only ZeRO keeps master weights of that type",
                 .advice = "leave it out, or use stage 1, 2 or 3"});
    return;
  }
  const std::string device = context.device("offload_optimizer");
  const bool enabled = context.flag(section + "/enabled", false);
  if (device == "cpu" || device == "auto" || !enabled || (type == "bf16" && low_states)) return;
  context.add(
      "master-weights", pointer,
      {.found = fmt::format("{}_master_weights_and_grads without the optimizer on the host", type),
       .outcome = Outcome::raises,
       .effect = "DeepSpeed stops: only its CPU Adam holds master weights of that type",
       .advice = type == "bf16" ? "set bf16_optimizer_states too, or offload_optimizer to the device \"cpu\""
                                : "set offload_optimizer to the device \"cpu\""});
}

/// The kernels of quantised gradients read 16-bit values as fp16, whatever they are.
void check_quantised_gradients(LintContext& context) {
  const std::string pointer = kZero + "/zero_quantized_gradients";
  if (context.stage != 3 || !context.flag(pointer, false)) return;
  const std::string precision = context.precision();
  if (!precision.empty() && precision != "fp16")
    context.add(
        "quantised-gradients-misread", pointer,
        {.found = fmt::format("quantised gradients beside {}", precision),
         .outcome = Outcome::runs,
         .effect = fmt::format("DeepSpeed's kernel reads gradients as fp16, and {} ones become other numbers",
                               precision),
         .advice = "leave it out, or train in fp16"});
  if (!context.flag(kZero + "/reduce_scatter", true))
    context.add("stage-refuses", pointer,
                {.found = "quantised gradients without reduce_scatter",
                 .outcome = Outcome::raises,
                 .effect = "DeepSpeed stops: they need reduce_scatter",
                 .advice = "leave reduce_scatter at its default, true"});
}

std::string type_in(const std::string& word) {
  for (const auto& [type, number] : {std::pair("fp32", "32"), std::pair("bf16", "bf")})
    if (word.find(number) != std::string::npos) return type;
  if (word.ends_with("float")) return "fp32";
  return word.find("16") != std::string::npos || word == "half" ? "fp16" : "";
}

void check_data_types(LintContext& context) {
  const std::string precision = context.precision();
  if (precision.empty()) return;
  const std::string accumulated = type_in(context.text("/data_types/grad_accum_dtype"));
  if (context.stage == 0 && !accumulated.empty() && accumulated != precision)
    context.add("accumulation-type", "/data_types/grad_accum_dtype",
                {.found = fmt::format("gradients in {} beside {} at stage 0", accumulated, precision),
                 .outcome = Outcome::raises,
                 .effect = "DeepSpeed stops: without ZeRO gradients have the model's type",
                 .advice = "leave it out, or use stage 1, 2 or 3"});
  const std::string weights = type_in(context.text("/data_types/param_dtype"));
  if (!weights.empty() && weights != precision)
    context.add("parameter-type", "/data_types/param_dtype",
                {.found = fmt::format("parameters in {} beside {}", weights, precision),
                 .outcome = Outcome::raises,
                 .effect = "DeepSpeed stops: bf16 and fp16 say the type",
                 .advice = "leave it out",
                 .fix = context.removal("/data_types/param_dtype")});
}

void check_card(LintContext& context) {
  const std::string& capability = context.options.compute_capability;
  if (capability.empty() || platform_of(capability).platform != Platform::cuda) return;
  const int major = capability_major(capability);
  if (context.flag("/fp16/enabled", false) && major < 7)
    context.add("card-precision", "/fp16",
                {.found = fmt::format("fp16 on compute capability {}", capability),
                 .outcome = Outcome::raises,
                 .effect = "DeepSpeed stops before 7.0, unless DS_ALLOW_DEPRECATED_FP16=1",
                 .advice = "train in fp32, or on another GPU"});
  const std::string bf16 = bf16_section(context);
  if (context.flag(bf16 + "/enabled", false) && major < 8)
    context.add("card-emulates-bf16", bf16,
                {.found = fmt::format("bf16 on compute capability {}", capability),
                 .outcome = Outcome::runs,
                 .effect = "before 8.0 GPUs have no bf16 arithmetic: PyTorch emulates it, slowly",
                 .advice = "train in fp16"});
}

}  // namespace

void lint_precision(LintContext& context) {
  check_both(context);
  check_autocast(context);
  check_master_weights(context, "fp16", "/fp16");
  check_master_weights(context, "bf16", bf16_section(context));
  check_quantised_gradients(context);
  check_data_types(context);
  check_card(context);
}

}  // namespace zplan
