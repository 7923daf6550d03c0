// Rules about optimizer and scheduler where settings contradict each other, and about what their constructors
// stop at.

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>

#include "planner/frameworks/deepspeed/config/lint_context.h"
#include "planner/frameworks/deepspeed/config/lint_knowledge.h"
#include "planner/frameworks/deepspeed/config/releases.h"

namespace zplan {

namespace {

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

/// What the constructors of Adam and its kin stop at.
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
// ------

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
