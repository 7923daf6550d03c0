// Rules about values: kinds, ranges, choices, and "auto".

#include <algorithm>
#include <nlohmann/json.hpp>

#include "planner/frameworks/deepspeed/config/lint_context.h"
#include "planner/frameworks/deepspeed/config/lint_knowledge.h"

namespace zplan {

namespace {

/// A section that is no object. "zero_optimization": true is how it was written before there were stages.
void check_section(LintContext& context, const std::string& pointer, const Json& value) {
  if (value.is_object() || is_auto(value)) return;
  if (value.is_null() && holds(lint_knowledge().nullable_sections, pointer)) return;
  if (pointer == "/zero_optimization" && value.is_boolean()) {
    const char* written = value.get<bool>() ? R"({"stage": 1})" : R"({"stage": 0})";
    context.add(
        "deprecated-key", pointer,
        {.found =
             fmt::format("zero_optimization: {}, as it was written before there were stages", value.dump()),
         .outcome = Outcome::converted,
         .effect = fmt::format("DeepSpeed reads it as {}", written),
         .advice = fmt::format("write {}", written),
         .fix = LintFix{fmt::format("write {}", written), replace_value(context.ds, pointer, written)}});
    return;
  }
  context.add("not-a-section", pointer,
              {.found = fmt::format("{} where a section is expected", shown_value(value)),
               .outcome = Outcome::raises,
               .effect = "DeepSpeed stops: it looks for keys there",
               .advice = value.is_null() ? "leave it out" : "write a JSON object",
               .fix = value.is_null() ? std::optional(context.removal(pointer)) : std::nullopt});
}

std::string effect_of(const ValueRule& rule, Fit fit) {
  if (!rule.say.empty()) return rule.say;
  if (rule.checked || rule.raises)
    return fit == Fit::wrong_kind ? "DeepSpeed stops: it cannot read that"
                                  : "DeepSpeed stops: it does not take that";
  return "DeepSpeed does not check it: it stops later, or does something else than is meant";
}

void wrong_value(LintContext& context, const std::string& pointer, const ValueRule& rule, Fit fit) {
  const std::string_view id = fit == Fit::out_of_range ? "out-of-range"
                              : fit == Fit::no_choice  ? "unknown-choice"
                              : rule.checked           ? "wrong-kind"
                                                       : "unchecked-kind";
  const bool stops = rule.checked || rule.raises;
  const Json& value = context.at(pointer);
  LintContext::Saying saying{.found = shown_value(value),
                             .outcome = stops && !rule.harmless ? Outcome::raises : Outcome::runs,
                             .effect = effect_of(rule, fit),
                             .advice = "accepted: " + accepted_by(rule)};
  if (fit == Fit::no_choice && value.is_string()) {
    std::vector<std::string> words;
    for (const Json& each : rule.choices)
      if (each.is_string()) words.push_back(each.get<std::string>());
    if (const auto near = nearest_word(value.get<std::string>(), words))
      saying.fix = LintFix{fmt::format("write {}", in_quotes(*near)),
                           replace_value(context.ds, pointer, Json(*near).dump())};
  }
  context.add(id, pointer, std::move(saying));
}

void loose_value(LintContext& context, const std::string& pointer, const ValueRule& rule) {
  const Json& value = context.at(pointer);
  const Json meant = converted(rule, value);
  context.add(
      "loose-value", pointer,
      {.found = fmt::format("{} for {}", shown_value(value), meant.dump()),
       .outcome = Outcome::converted,
       .effect = fmt::format("DeepSpeed reads it as {}; other readers of the file may not", meant.dump()),
       .advice = fmt::format("write {}", meant.dump()),
       .fix =
           LintFix{fmt::format("write {}", meant.dump()), replace_value(context.ds, pointer, meant.dump())}});
}

void check_value(LintContext& context, const std::string& pointer, const std::string& canonical) {
  const auto rule = lint_knowledge().values.find(canonical);
  const Json& value = context.at(pointer);
  if (rule == lint_knowledge().values.end() || is_auto(value)) return;
  const bool flawed = std::any_of(
      context.ds.flaws.begin(), context.ds.flaws.end(),
      [&](const TextFlaw& flaw) { return flaw.kind == FlawKind::not_finite && flaw.pointer == pointer; });
  if (flawed) return;
  const Fit fit = fit_of(rule->second, value);
  if (fit == Fit::converted)
    loose_value(context, pointer, rule->second);
  else if (fit != Fit::right)
    wrong_value(context, pointer, rule->second, fit);
}

bool is_section(const std::string& pointer) {
  const std::vector<std::string>& nullable = lint_knowledge().nullable_sections;
  static const std::vector<std::string> kFree{"/pipeline",        "/expert_parallel",  "/autotuning",
                                              "/data_efficiency", "/optimizer/params", "/scheduler/params"};
  return find_section(ds_keys(), pointer) != nullptr || holds(nullable, pointer) || holds(kFree, pointer);
}

/// Dynamic loss scaling alone looks at its window and its floor.
bool is_unread(const LintContext& context, const std::string& pointer) {
  const bool dynamic = pointer == "/fp16/loss_scale_window" || pointer == "/fp16/min_loss_scale";
  if (!dynamic) return false;
  return !context.flag("/fp16/enabled", false) ||
         (context.at("/fp16/loss_scale").is_number() && context.at("/fp16/loss_scale") != 0);
}

void check_object(LintContext& context, const std::string& pointer) {
  const DsSection* section = find_section(ds_keys(), pointer);
  if (section == nullptr || !context.at(pointer).is_object()) return;
  for (const auto& item : context.at(pointer).items()) {
    const std::string own = pointer + "/" + pointer_step(item.key());
    if (!holds(section->keys, item.key())) continue;
    const std::string canonical = pointer + "/" + json_name(*section, item.key());
    if (is_section(own)) {
      check_section(context, own, item.value());
      check_object(context, own);
    } else if (!is_unread(context, own)) {
      check_value(context, own, canonical);
    }
  }
}

// ---- "auto"
// --------------------------------------------------------------------------------------------------

struct Auto {
  std::string pointer;
  bool pydantic{};
  bool by_trainer{};
};

/// Every "auto" at a key that DeepSpeed knows; of those at others the rules about keys speak.
void collect_autos(const LintContext& context, const std::string& pointer, bool known_only,
                   std::vector<Auto>& found) {
  const DsSection* section = find_section(ds_keys(), pointer);
  for (const auto& item : context.at(pointer).items()) {
    const std::string own = pointer + "/" + pointer_step(item.key());
    if (known_only && section != nullptr && !holds(section->keys, item.key())) continue;
    if (is_auto(item.value()) && !auto_is_native(own))
      found.push_back({own, section != nullptr && section->rejects_unknown, filled_by_trainer(own)});
    else if (item.value().is_object() &&
             (find_section(ds_keys(), own) != nullptr || own.ends_with("/params")))
      collect_autos(context, own, known_only, found);
  }
}

void nobody_fills(LintContext& context, const Auto& each) {
  LintContext::Saying saying{
      .found = "\"auto\", which neither the HF Trainer nor accelerate fills in",
      .outcome = each.pydantic ? Outcome::default_value : Outcome::raises,
      .effect = each.pydantic ? "DeepSpeed takes its default"
                              : "DeepSpeed takes the word as the value, and stops or errs",
      .advice = each.pydantic ? "leave the key out, or write a value" : "write a value"};
  if (each.pydantic) saying.fix = context.removal(each.pointer);
  context.add("auto-nobody-fills", each.pointer, std::move(saying));
}

void not_filled(LintContext& context, const Auto& each) {
  context.add("auto-without-trainer", each.pointer,
              {.found = "\"auto\" in a config for DeepSpeed alone",
               .outcome = each.pydantic ? Outcome::default_value : Outcome::raises,
               .effect = each.pydantic ? "without the HF Trainer DeepSpeed takes its default"
                                       : "without the HF Trainer DeepSpeed takes the word as the value, and "
                                         "stops or errs",
               .advice = "write a value, or run it under the HF Trainer (--config-style hf-auto)"});
}

}  // namespace

void lint_values(LintContext& context) {
  if (context.at("").is_object()) return check_object(context, "");
  context.add("not-an-object", "",
              {.found = fmt::format("the document is {}", shown_value(context.at(""))),
               .outcome = Outcome::raises,
               .effect = "DeepSpeed stops: a config is a JSON object",
               .advice = "write {\"train_batch_size\": …}"});
}

void lint_auto(LintContext& context) {
  if (!context.at("").is_object()) return;
  std::vector<Auto> found;
  collect_autos(context, "", true, found);
  bool noted = false;
  for (const Auto& each : found) {
    if (!each.by_trainer)
      nobody_fills(context, each);
    else if (context.style == ConfigStyle::plain)
      not_filled(context, each);
    else if (!noted) {
      noted = true;
      context.add("auto-needs-trainer", each.pointer,
                  {.found = "\"auto\", which the HF Trainer or accelerate fills in",
                   .outcome = Outcome::runs,
                   .effect = "DeepSpeed alone stops at it, or takes its default",
                   .advice = "run it under the HF Trainer, or write values"});
    }
  }
}

}  // namespace zplan
