// Rules about precision, optimizer and scheduler.

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>

#include "hardware_profiles/gpu.h"
#include "hardware_profiles/platform.h"
#include "models/base/format.h"
#include "planner/frameworks/deepspeed/config/lint_context.h"
#include "planner/frameworks/deepspeed/config/releases.h"

namespace zplan {

namespace {

// ---- precision

std::string bf16_section(const LintContext& context) { return context.has("/bf16") ? "/bf16" : "/bfloat16"; }

/// Returns the repair that keeps the 16-bit type of the GPU; nothing where the GPU is not known.
std::optional<LintFix> precision_of_card(const LintContext& context, const std::string& bf16) {
  const std::string& capability = context.options.compute_capability;
  if (capability.empty() || platform_of(capability).platform != Platform::cuda) return std::nullopt;
  LintFix fix = context.writing((capability_major(capability) < 8 ? bf16 : "/fp16") + "/enabled", "false");
  fix.what += fmt::format(" in {}", capability_major(capability) < 8 ? bf16.substr(1) : "fp16");
  return fix;
}

void check_both(LintContext& context) {
  const std::string bf16 = bf16_section(context);
  if (!context.flag(bf16 + "/enabled", false) || !context.flag("/fp16/enabled", false)) return;
  context.add(
      "two-precisions", "/fp16",
      {.found = fmt::format("fp16 and {} are both enabled", bf16.substr(1)),
       .outcome = Outcome::raises,
       .effect = "DeepSpeed stops: a model has one 16-bit type",
       .advice = "enable one of them; bf16 needs no loss scaling",
       .fix = precision_of_card(context, bf16),
       .others = {context.writing("/fp16/enabled", "false"), context.writing(bf16 + "/enabled", "false")}});
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

// ---- types of optimizer and scheduler, and their arguments

template <class Map>
std::vector<std::string> names(const Map& map) {
  std::vector<std::string> all;
  for (const auto& [name, ignored] : map) all.push_back(name);
  return all;
}

/// True if the words of `shorter` are among those of `longer`, in order: "warmup_steps", "warmup_num_steps".
bool shortens(std::string_view shorter, std::string_view longer) {
  const std::vector<std::string_view> few = split(shorter, '_'), many = split(longer, '_');
  auto at = many.begin();
  for (const std::string_view word : few) {
    at = std::find(at, many.end(), word);
    if (at == many.end()) return false;
    ++at;
  }
  return few.size() > 1;
}

/// Returns the argument that a name misspells, or of which alone it leaves a word out.
std::optional<std::string> meant_argument(const std::string& name, const std::vector<std::string>& known) {
  if (auto near = misspelt_word(name, known)) return near;
  std::optional<std::string> meant;
  for (const std::string& each : known) {
    if (!shortens(name, each)) continue;
    if (meant) return std::nullopt;
    meant = each;
  }
  return meant;
}

void check_arguments(LintContext& context, std::string_view rule, const std::string& section,
                     const std::string& type, const Arguments& known) {
  const Json& params = context.at(section + "/params");
  if (!params.is_object() || !known) return;
  for (const auto& item : params.items()) {
    const bool legal = std::find(known->begin(), known->end(), item.key()) != known->end();
    if (legal || item.key() == "max_grad_norm") continue;
    const std::string own = section + "/params/" + pointer_step(item.key());
    const bool comment = is_comment_key(item.key());
    const auto near = comment ? std::nullopt : meant_argument(item.key(), *known);
    LintContext::Saying saying{
        .found = fmt::format("{} is no argument of {}", in_quotes(item.key()), in_quotes(type)),
        .outcome = Outcome::raises,
        .effect = "DeepSpeed passes it on, and the constructor stops at it",
        .advice = comment ? "leave it out" : accepted_words(item.key(), *known)};
    if (comment) saying.fix = context.removal(own);
    if (near && !params.contains(*near))
      saying.fix =
          LintFix{fmt::format("rename to {}", in_quotes(*near)), rename_member(context.ds, own, *near)};
    context.add(rule, own, std::move(saying));
  }
}

/// Returns the repair that clips as the argument says; nothing if gradient_clipping says something else.
std::optional<LintFix> clipping_moved(const LintContext& context, const std::string& own) {
  std::vector<TextEdit> edits = remove_member(context.ds, own);
  const Json& value = context.at(own);
  if (!context.has("/gradient_clipping")) {
    if (!value.is_number() && !is_auto(value)) return std::nullopt;
    const Span span = context.ds.values.at(own);
    const std::string written = context.ds.text.substr(span.begin, span.end - span.begin);
    for (TextEdit& edit : set_member(context.ds, "", "gradient_clipping", written))
      edits.push_back(std::move(edit));
    return LintFix{fmt::format("move to gradient_clipping: {}", written), edits};
  }
  const bool agree = context.at("/gradient_clipping") == value;
  return agree ? std::optional(LintFix{"leave it out: gradient_clipping says the same", edits})
               : std::nullopt;
}

void check_clipping_argument(LintContext& context) {
  const std::string own = "/optimizer/params/max_grad_norm";
  if (!context.at("/optimizer/params").contains("max_grad_norm")) return;
  context.add("max-grad-norm", own,
              {.found = "\"max_grad_norm\" among the arguments of the optimizer",
               .outcome = Outcome::raises,
               .effect = "DeepSpeed stops: no optimizer takes it",
               .advice = "write gradient_clipping at the top level",
               .fix = clipping_moved(context, own)});
}

void missing_type(LintContext& context, const std::string& section, std::string_view what) {
  context.add(
      "missing-type", section,
      {.found = fmt::format("{} has no \"type\"", section.substr(1)),
       .outcome = Outcome::ignored,
       .effect = fmt::format("DeepSpeed makes no {}", what),
       .advice = fmt::format("name its type, or leave the section out where the script makes the {}", what)});
}

void unknown_type(LintContext& context, std::string_view rule, const std::string& section,
                  const std::vector<std::string>& known, std::string_view effect) {
  const std::string type = context.text(section + "/type");
  const auto near = misspelt_word(type, known);
  LintContext::Saying saying{.found = in_quotes(type),
                             .outcome = Outcome::raises,
                             .effect = std::string(effect),
                             .advice = accepted_words(type, known)};
  if (near)
    saying.fix = LintFix{fmt::format("write {}", in_quotes(*near)),
                         replace_value(context.ds, section + "/type", Json(*near).dump())};
  context.add(rule, section + "/type", std::move(saying));
}

void check_optimizer(LintContext& context) {
  const Json& section = context.at("/optimizer");
  if (!section.is_object()) return;
  check_clipping_argument(context);
  if (!context.has("/optimizer/type")) return missing_type(context, "/optimizer", "optimizer");
  const std::string type = context.text("/optimizer/type");
  if (type.empty()) return;  // its kind is wrong: see lint_values
  const DsKeys& keys = ds_keys();
  if (const Arguments* known = find_optimizer(keys, type))
    return check_arguments(context, "optimizer-argument", "/optimizer", type, *known);
  if (is_auto(section.at("type"))) return;  // see lint_auto
  unknown_type(context, "optimizer-type", "/optimizer", names(keys.optimizers),
               "DeepSpeed stops: it has no such optimizer, nor has torch.optim");
}

void check_scheduler(LintContext& context) {
  const Json& section = context.at("/scheduler");
  if (!section.is_object()) return;
  if (!context.has("/scheduler/type")) return missing_type(context, "/scheduler", "scheduler");
  const std::string type = context.text("/scheduler/type");
  const DsKeys& keys = ds_keys();
  if (type.empty() || is_auto(section.at("type"))) return;
  const auto known = keys.schedulers.find(type);
  if (known != keys.schedulers.end())
    return check_arguments(context, "scheduler-argument", "/scheduler", type, known->second);
  unknown_type(context, "scheduler-type", "/scheduler", names(keys.schedulers),
               "DeepSpeed stops: it has no such scheduler, nor has torch.optim.lr_scheduler");
}

// ---- what the optimizer does

std::string optimizer_type(const LintContext& context) {
  std::string type = context.text("/optimizer/type");
  for (char& c : type)
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  return type;
}

/// Adafactor, SGD and the like: ZeRO has a list of optimizers that it was tested with.
void check_untested(LintContext& context) {
  const std::string type = optimizer_type(context);
  if (type.empty() || context.stage == 0 || context.flag("/zero_allow_untested_optimizer", false)) return;
  const std::vector<std::string>& untested = lint_knowledge().untested_optimizers;
  const std::string written = context.text("/optimizer/type");
  const DsKeys& keys = ds_keys();
  const bool own = keys.optimizers.contains(type);
  const bool listed = std::find(untested.begin(), untested.end(), type) == untested.end();
  if ((own && listed) || (!own && !keys.optimizers.contains(written))) return;
  context.add(
      "untested-optimizer", "/optimizer/type",
      {.found = fmt::format("{} under ZeRO without zero_allow_untested_optimizer", in_quotes(written)),
       .outcome = Outcome::raises,
       .effect = "DeepSpeed stops: it is not on ZeRO's list",
       .advice = "write \"zero_allow_untested_optimizer\": true",
       .fix = LintFix{"write \"zero_allow_untested_optimizer\": true",
                      set_member(context.ds, "", "zero_allow_untested_optimizer", "true")}});
}

void check_muon(LintContext& context) {
  if (optimizer_type(context) != "muon" || context.stage != 3) return;
  if (!context.flag(kZero + "/reduce_scatter", true)) return;
  const bool has_section = context.at(kZero).is_object();
  context.add(
      "stage-refuses", "/optimizer/type",
      {.found = "Muon at stage 3 with reduce_scatter",
       .outcome = Outcome::raises,
       .effect = "DeepSpeed stops: Muon needs whole gradients",
       .advice = "write \"reduce_scatter\": false in zero_optimization",
       .fix = has_section ? std::optional(LintFix{"write \"reduce_scatter\": false",
                                                  set_member(context.ds, kZero, "reduce_scatter", "false")})
                          : std::nullopt});
}

/// Returns what the constructors of Adam and similar optimizers accept; empty if they accept the value.
std::string refused(const std::string& name, const Json& value) {
  const bool rate = name == "lr" || name == "eps" || name == "weight_decay";
  if (rate && (!value.is_number() || value.get<double>() < 0)) return "a number from 0";
  if (name != "betas") return {};
  const bool pair =
      value.is_array() && value.size() == 2 && std::all_of(value.begin(), value.end(), [](const Json& each) {
        return each.is_number() && each.get<double>() >= 0 && each.get<double>() < 1;
      });
  return pair ? "" : "two numbers from 0, below 1";
}

void check_argument_values(LintContext& context) {
  const Json& params = context.at("/optimizer/params");
  if (!params.is_object()) return;
  for (const auto& item : params.items()) {
    const std::string accepted = is_auto(item.value()) ? "" : refused(item.key(), item.value());
    if (accepted.empty()) continue;
    context.add("optimizer-argument-value", "/optimizer/params/" + pointer_step(item.key()),
                {.found = fmt::format("{} {}", item.key(), shown_value(item.value())),
                 .outcome = Outcome::raises,
                 .effect = "the optimizer stops at it, when it is made or at its first step",
                 .advice = "accepted: " + accepted});
  }
}

void check_clipping(LintContext& context) {
  const Json& value = context.at("/gradient_clipping");
  const DeepSpeedRelease release = context.options.release;
  const double by_default = default_clipping(release);
  if (value.is_null() ? by_default > 0 : !value.is_number() || value.get<double>() > 0) return;
  const std::string otherwise =
      by_default > 0
          ? fmt::format("without the key DeepSpeed {} clips at {:.1f}", to_text(release), by_default)
          : fmt::format("DeepSpeed {} clips only where the key says so", to_text(release));
  context.add(
      "no-clipping", value.is_null() ? "" : "/gradient_clipping",
      {.found = value.is_null() ? "no gradient_clipping" : fmt::format("gradient_clipping {}", value.dump()),
       .outcome = Outcome::runs,
       .effect = "gradients are not clipped; " + otherwise,
       .advice = "write 1.0, unless that is meant"});
}

// ---- scheduler

void check_required(LintContext& context, const std::string& type) {
  const DsKeys& keys = ds_keys();
  if (!keys.schedulers.contains(type)) return;
  std::vector<std::string> missing;
  if (const auto required = keys.required.find(type); required != keys.required.end())
    for (const std::string& name : required->second)
      if (!context.at("/scheduler/params").contains(name)) missing.push_back(name);
  if (missing.empty() && !context.has("/scheduler/params")) missing.emplace_back("params");
  for (const std::string& name : missing)
    context.add("scheduler-incomplete", "/scheduler",
                {.found = fmt::format("{} without {}", type, in_quotes(name)),
                 .outcome = Outcome::raises,
                 .effect = "DeepSpeed stops: the constructor needs it",
                 .advice = name == "params" ? "write \"params\": {}, if with nothing in it"
                                            : fmt::format("write {} in scheduler.params", in_quotes(name))});
}

void check_torch_scheduler(LintContext& context, const std::string& type) {
  constexpr std::array<std::string_view, 5> kOwn{"LRRangeTest", "OneCycle", "WarmupLR", "WarmupDecayLR",
                                                 "WarmupCosineLR"};
  const bool own = std::find(kOwn.begin(), kOwn.end(), type) != kOwn.end();
  if (own || context.stage == 0 || !ds_keys().schedulers.contains(type)) return;
  context.add("torch-scheduler", "/scheduler/type",
              {.found = fmt::format("{}, a scheduler of PyTorch's, under ZeRO", in_quotes(type)),
               .outcome = Outcome::raises,
               .effect = "PyTorch stops: ZeRO's optimizer is none of PyTorch's",
               .advice = "take one of DeepSpeed's, or make it in the training script"});
}

void check_warmup(LintContext& context) {
  const std::string pointer = "/scheduler/params/warmup_num_steps";
  const Json& warmup = context.at(pointer);
  const auto steps = context.whole(pointer);
  // DeepSpeed's reader makes 10.0 a whole number, the Trainer's does not.
  const bool pointed = warmup.is_number_float() && context.style != ConfigStyle::plain;
  const bool natural = steps && *steps > 0 && !pointed;
  if (!warmup.is_null() && !is_auto(warmup) && !natural)
    context.add("warmup-steps", pointer,
                {.found = shown_value(warmup),
                 .outcome = Outcome::raises,
                 .effect = "DeepSpeed stops: it takes whole numbers above 0",
                 .advice = "write 1 or more, or leave the scheduler out"});
  const auto total = context.whole("/scheduler/params/total_num_steps");
  if (natural && total && *total < *steps)
    context.add("warmup-longer-than-training", "/scheduler/params/total_num_steps",
                {.found = fmt::format("{} steps in all, {} of warm-up", *total, *steps),
                 .outcome = Outcome::runs,
                 .effect = "the learning rate never reaches its height, and then falls below zero",
                 .advice = "write more steps in all, or a shorter warm-up"});
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

void lint_arguments(LintContext& context) {
  check_optimizer(context);
  check_scheduler(context);
}

void lint_optimizer(LintContext& context) {
  check_untested(context);
  check_muon(context);
  check_argument_values(context);
  check_clipping(context);
}

void lint_scheduler(LintContext& context) {
  const std::string type = context.text("/scheduler/type");
  check_required(context, type);
  check_torch_scheduler(context, type);
  if (type.starts_with("Warmup")) check_warmup(context);
}

}  // namespace zplan
