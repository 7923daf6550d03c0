// Rules about what a ZeRO stage reads, refuses or does not look at.

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>

#include "planner/frameworks/deepspeed/config/lint_context.h"
#include "planner/frameworks/deepspeed/config/releases.h"

namespace zplan {

namespace {

void check_without_effect(LintContext& context, const std::string& pointer) {
  const Json& value = context.at(pointer);
  if (value.is_null() || is_auto(value)) return;
  const auto why = without_effect(context.ds.document, pointer, context.stage);
  if (!why) return;
  const bool odd = pointer == kZero + "/allgather_bucket_size" && context.whole(pointer).value_or(0) % 2 != 0;
  if (odd && divides_groups(context.stage)) return;  // see check_alignment
  context.add("no-effect", pointer,
              {.found = fmt::format("{} does nothing at stage {}", pointer.substr(pointer.rfind('/') + 1),
                                    context.stage),
               .outcome = Outcome::ignored,
               .effect = "DeepSpeed does not look at it: " + *why,
               .advice = "leave it out",
               .fix = context.removal(pointer)});
}

void check_alignment(LintContext& context) {
  const std::string pointer = kZero + "/allgather_bucket_size";
  const auto size = context.whole(pointer);
  if (!size || *size % 2 == 0 || (context.stage != 1 && context.stage != 2)) return;
  context.add("odd-allgather-bucket", pointer,
              {.found = fmt::format("{} is odd", *size),
               .outcome = Outcome::raises,
               .effect = "DeepSpeed stops: ZeRO 1 and 2 align it to 2 elements",
               .advice = "leave it out: it does nothing",
               .fix = context.removal(pointer)});
}

/// Keys of offload_param that offload_optimizer has, too. Source: runtime/zero/offload_config.py.
constexpr std::array<std::string_view, 4> kSharedKeys{"device", "nvme_path", "buffer_count", "pin_memory"};

/// Returns the repair that offloads what the stage can: offload_param becomes offload_optimizer, with the
/// keys that both have. That moves other tensors than were named, and the optimizer's step with them, so the
/// writer chooses it.
LintFix offload_moved(const LintContext& context, const std::string& pointer) {
  const bool is_switch = pointer.ends_with("/cpu_offload_param");
  LintFix fix{fmt::format("rename to \"{}\": at stage {} that is what goes to the host",
                          is_switch ? "cpu_offload" : "offload_optimizer", context.stage),
              rename_member(context.ds, pointer, is_switch ? "cpu_offload" : "offload_optimizer")};
  if (is_switch) return fix;
  Json section = context.at(pointer);
  bool whole = true;
  for (const auto& item : context.at(pointer).items())
    if (!holds(kSharedKeys, item.key())) section.erase(item.key()), whole = false;
  if (whole) return fix;
  for (TextEdit& edit : replace_value(context.ds, pointer, section.dump()))
    fix.edits.push_back(std::move(edit));
  return fix;
}

/// Returns the repair that takes the lowest stage at which an offload does something.
LintFix staged(const LintContext& context, int stage) {
  return context.writing(kZero + "/stage", std::to_string(stage));
}

/// Reports an offload that the stage does not do. Another offload beside it may be all that was meant.
void add_idle_offload(LintContext& context, const std::string& section, const std::string& pointer) {
  const bool of_parameters = section == "offload_param";
  const std::string other = context.device("offload_optimizer");
  const bool beside = of_parameters && context.stage > 0 && other != "none";
  const bool taken = context.has(kZero + "/offload_optimizer") || context.has(kZero + "/cpu_offload");
  LintContext::Saying saying{
      .found = fmt::format("{} does nothing at stage {}", section, context.stage),
      .outcome = Outcome::ignored,
      .effect = of_parameters ? "DeepSpeed ignores it silently: only ZeRO-3 divides parameters"
                              : "DeepSpeed ignores it silently: only ZeRO moves optimizer states",
      .others = {staged(context, 3), context.removal(pointer)}};
  if (of_parameters && context.stage > 0 && !taken)
    saying.others.insert(saying.others.begin(), offload_moved(context, pointer));
  else if (!context.has(kZero + "/stage"))  // no stage is written, so offload says which
    saying.fix = staged(context, of_parameters ? 3 : 2);
  else if (!of_parameters)
    saying.others.insert(saying.others.begin(), staged(context, 2));
  if (saying.fix)
    std::erase_if(saying.others, [&](const LintFix& each) { return each.what == saying.fix->what; });
  saying.advice = offered(saying.fix, saying.others);
  if (beside)
    saying.advice += fmt::format("; the optimizer states go to \"{}\" as offload_optimizer says", other);
  Finding& finding = context.add("offload-without-effect", pointer, std::move(saying));
  if (beside) finding.severity = Severity::warning;
}

/// Returns the repair that names the folder that was given; nothing where none was.
std::optional<LintFix> path_of_disk(const LintContext& context, const std::string& section) {
  const std::string& folder = context.options.nvme_path;
  if (folder.empty() || !context.at(section).is_object()) return std::nullopt;
  return context.writing(section + "/nvme_path", Json(folder).dump());
}

void check_offload(LintContext& context, const std::string& section, int lowest_stage) {
  const std::string old_switch = kZero + (lowest_stage == 3 ? "/cpu_offload_param" : "/cpu_offload");
  const std::string pointer = context.flag(old_switch, false) ? old_switch : kZero + "/" + section;
  const std::string device = context.device(section);
  if (device == "none" || device == "auto") return;
  if (context.stage < lowest_stage) {
    add_idle_offload(context, section, pointer);
    return;
  }
  if (device != "nvme") return;
  const Json& path = context.at(pointer + "/nvme_path");
  if (path.is_null())
    context.add(
        "nvme-without-path", pointer,
        {.found = "device \"nvme\" without \"nvme_path\"",
         .outcome = Outcome::raises,
         .effect = "DeepSpeed stops where it makes the swap files",
         .advice = "write \"nvme_path\": a folder on the disk (--nvme-path FOLDER has --fix write it)",
         .fix = path_of_disk(context, pointer)});
  if (context.stage < 3)
    context.add("nvme-needs-zero3", pointer,
                {.found = fmt::format("NVMe at stage {}", context.stage),
                 .outcome = Outcome::runs,
                 .effect = "DeepSpeed swaps at stage 3 alone: here the states go to host memory",
                 .advice = "write \"device\": \"cpu\", or use stage 3",
                 .fix = context.ds.values.contains(pointer + "/device")
                            ? std::optional(context.writing(pointer + "/device", "\"cpu\""))
                            : std::nullopt,
                 .others = {staged(context, 3)}});
}

void check_partial_offload(LintContext& context) {
  const std::string pointer = kZero + "/offload_optimizer/ratio";
  const Json& ratio = context.at(pointer);
  if (!ratio.is_number() || ratio.get<double>() >= 1 || context.stage == 3) return;
  context.add("stage-refuses", pointer,
              {.found = fmt::format("ratio {} at stage {}", ratio.dump(), context.stage),
               .outcome = Outcome::raises,
               .effect = "DeepSpeed stops: only stage 3 keeps a part of the optimizer on the GPU",
               .advice = "leave it out, so that all of it goes to the host; or use stage 3",
               .fix = context.removal(pointer),
               .others = {staged(context, 3)}});
}

/// Since 0.19.3 DeepSpeed clips at 1.0 where nothing is written.
void check_norm_and_clipping(LintContext& context) {
  const Json& clipping = context.at("/gradient_clipping");
  if (is_auto(clipping) || (clipping.is_number() && clipping.get<double>() <= 0)) return;
  if (clipping.is_null() && default_clipping(context.options.release) <= 0) return;
  context.add(
      "stage-refuses", kZero + "/compute_grad_norm",
      {.found = "compute_grad_norm false, and gradients are clipped",
       .outcome = Outcome::raises,
       .effect =
           clipping.is_null()
               ? "DeepSpeed stops: clipping needs the norm, and without gradient_clipping it clips at 1.0"
               : "DeepSpeed stops: clipping needs the norm",
       .advice = "leave it out, or write \"gradient_clipping\": 0"});
}

void check_norm(LintContext& context) {
  const std::string pointer = kZero + "/compute_grad_norm";
  if (context.flag(pointer, true)) return;
  const bool wide = context.stage == 1 && context.precision() == "bf16" &&
                    context.text("/data_types/grad_accum_dtype").find("32") != std::string::npos;
  if (divides_groups(context.stage) && !wide) return check_norm_and_clipping(context);
  context.add("stage-refuses", pointer,
              {.found = wide ? "compute_grad_norm false beside bf16 with fp32 accumulation at stage 1"
                             : fmt::format("compute_grad_norm false at stage {}", context.stage),
               .outcome = Outcome::raises,
               .effect = "DeepSpeed stops: only its optimizer of stages 1 and 2 can do without",
               .advice = "leave it out",
               .fix = context.removal(pointer)});
}

void check_old_stage1(LintContext& context) {
  const std::string pointer = kZero + "/legacy_stage1";
  if (!context.flag(pointer, false) || context.stage == 0) return;
  context.add("stage-refuses", pointer,
              {.found = "legacy_stage1",
               .outcome = Outcome::raises,
               .effect = "DeepSpeed stops: that implementation is gone",
               .advice = "leave it out",
               .fix = context.removal(pointer)});
}

/// Averaging that ZeRO's reduce-scatter does not do.
void check_prescale(LintContext& context) {
  const auto factor = context.at("/gradient_predivide_factor");
  const bool divides = factor.is_number() && factor != 1;
  const bool scales = context.flag("/prescale_gradients", false);
  if (context.stage == 0 || !context.flag(kZero + "/reduce_scatter", true)) return;
  const std::vector<std::pair<bool, std::string>> both{{scales, "/prescale_gradients"},
                                                       {divides, "/gradient_predivide_factor"}};
  for (const auto& [set, pointer] : both) {
    if (!set) continue;
    if (context.stage == 1)
      context.add("no-effect", pointer,
                  {.found = pointer.substr(1) + " does nothing at stage 1 with reduce_scatter",
                   .outcome = Outcome::ignored,
                   .effect = "DeepSpeed does not look at it: stage 1 divides by the number of ranks",
                   .advice = "leave it out",
                   .fix = context.removal(pointer)});
    else
      context.add(
          "stage-refuses", pointer,
          {.found = fmt::format("{} at stage {} with reduce_scatter", pointer.substr(1), context.stage),
           .outcome = Outcome::raises,
           .effect = "DeepSpeed stops: its reduce-scatter does not scale gradients so",
           .advice = "write \"reduce_scatter\": false in zero_optimization; or leave it out",
           .fix = context.writing(kZero + "/reduce_scatter", "false"),
           .others = {context.removal(pointer)}});
  }
}

void check_sum(LintContext& context) {
  const std::string op = context.text("/gradient_allreduce_op");
  const bool sum = op == "sum" || op == "SUM" || op == "Sum";
  const bool zenflow = context.has(kZero + "/zenflow"),
             compiled = context.flag("/compile/deepcompile", false);
  if (!sum || (context.stage != 3 && !zenflow && !compiled)) return;
  context.add("stage-refuses", "/gradient_allreduce_op",
              {.found = fmt::format("\"sum\" {}", context.stage == 3 ? "at stage 3"
                                                  : zenflow          ? "with ZenFlow"
                                                                     : "with DeepCompile"),
               .outcome = Outcome::raises,
               .effect = "DeepSpeed stops: there it takes means alone",
               .advice = "leave it out"});
}

void check_secondary_partition(LintContext& context) {
  const std::string pointer = kZero + "/zero_hpz_partition_size";
  const auto ranks = context.whole(pointer);
  if (!ranks || *ranks <= 1) return;
  const auto gpus = context.options.gpus;
  if (context.stage != 3)
    context.add("hpz-partition", pointer,
                {.found = fmt::format("a secondary partition at stage {}", context.stage),
                 .outcome = Outcome::ignored,
                 .effect = "DeepSpeed ignores it: only ZeRO-3 divides parameters",
                 .advice = "leave it out, or use stage 3",
                 .fix = context.removal(pointer)});
  else if (gpus && *gpus % std::min(*ranks, *gpus) != 0)
    context.add("hpz-partition", pointer,
                {.found = fmt::format("{}, which does not divide {} GPUs", *ranks, *gpus),
                 .outcome = Outcome::raises,
                 .effect = "DeepSpeed stops: it cannot make groups of that size",
                 .advice = "write the number of GPUs of a node"});
  else if (gpus && *ranks > *gpus)
    context.add("hpz-partition", pointer,
                {.found = fmt::format("{} on {} GPUs", *ranks, *gpus),
                 .outcome = Outcome::runs,
                 .effect = "DeepSpeed makes one group of all GPUs: there is nothing to gain",
                 .advice = "leave it out",
                 .fix = context.removal(pointer)});
}

void check_swapping(LintContext& context) {
  if (!context.has("/aio")) return;
  const bool nvme =
      context.device("offload_optimizer") == "nvme" || context.device("offload_param") == "nvme";
  const bool open =
      context.device("offload_optimizer") == "auto" || context.device("offload_param") == "auto";
  if (nvme || open) return;
  context.add("aio-without-nvme", "/aio",
              {.found = "aio, and nothing goes to NVMe",
               .outcome = Outcome::ignored,
               .effect = "DeepSpeed reads and writes no swap files",
               .advice = "leave it out",
               .fix = context.removal("/aio")});
}

void check_activation_section(LintContext& context) {
  if (!context.at("/activation_checkpointing").is_object()) return;
  context.add("activation-checkpointing", "/activation_checkpointing",
              {.found = "activation_checkpointing",
               .outcome = Outcome::runs,
               .effect = "only deepspeed.checkpointing reads it, which Hugging Face models do not call",
               .advice = "the script turns checkpointing on: model.gradient_checkpointing_enable()"});
}

void check_unused_tensor_parallel(LintContext& context) {
  const Json& section = context.at("/tensor_parallel");
  if (!section.is_object() || section.empty() || section.contains("autotp_size") ||
      section.contains("tp_size") || section.contains("size") || section.contains("tp"))
    return;
  context.add("no-effect", "/tensor_parallel",
              {.found = "tensor_parallel without autotp_size",
               .outcome = Outcome::ignored,
               .effect = "DeepSpeed divides nothing: autotp_size is 0 by default",
               .advice = "write autotp_size, or leave the section out"});
}

}  // namespace

void lint_stage(LintContext& context) {
  check_without_effect(context, "/disable_allgather");
  if (context.at(kZero).is_object())
    for (const auto& item : context.at(kZero).items())
      check_without_effect(context, kZero + "/" + pointer_step(item.key()));
  check_alignment(context);
  check_offload(context, "offload_optimizer", 1);
  check_offload(context, "offload_param", 3);
  check_partial_offload(context);
  check_norm(context);
  check_old_stage1(context);
  check_prescale(context);
  check_sum(context);
  check_secondary_partition(context);
  check_swapping(context);
  check_activation_section(context);
  check_unused_tensor_parallel(context);
}

}  // namespace zplan
