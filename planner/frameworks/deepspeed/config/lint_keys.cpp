// Rules about keys: unknown, misspelt, removed, deprecated, known by two names.

#include <algorithm>
#include <nlohmann/json.hpp>

#include "planner/frameworks/deepspeed/config/lint_context.h"
#include "planner/frameworks/deepspeed/config/lint_knowledge.h"

namespace zplan {

namespace {

std::string name_of(const DsSection& section) {
  return section.pointer.empty() ? "the top level" : section.pointer.substr(1);
}

/// A section that has the key, where exactly one does.
std::string elsewhere(const DsSection& here, const std::string& key) {
  std::string found;
  for (const DsSection& section : ds_keys().sections) {
    if (section.pointer == here.pointer || section.pointer == "/bfloat16" || !holds(section.keys, key))
      continue;
    if (!found.empty()) return {};
    found = name_of(section);
  }
  return found;
}

const Mistake* mistake(const DsSection& section, const std::string& key) {
  const std::vector<Mistake>& all = lint_knowledge().mistakes;
  const std::string place = section.pointer == "/bfloat16" ? "/bf16" : section.pointer;
  const auto at = std::find_if(all.begin(), all.end(),
                               [&](const Mistake& each) { return each.section == place && each.key == key; });
  return at == all.end() ? nullptr : &*at;
}

/// Whether the key stands in the object already, by either name.
bool is_taken(const LintContext& context, const DsSection& section, const std::string& key) {
  const Json& object = context.at(section.pointer);
  return std::any_of(object.items().begin(), object.items().end(), [&](const auto& item) {
    return json_name(section, item.key()) == json_name(section, key);
  });
}

struct Walk {
  LintContext& context;
  const DsKeys& keys;

  void object(const std::string& pointer);
  void key(const DsSection& section, const std::string& key);
  void unknown(const DsSection& section, const std::string& key, const std::string& own);
  void deprecated(const DsSection& section, const std::string& key, const std::string& own);
  [[nodiscard]] std::optional<LintFix> renamed(const DsSection& section, const std::string& own,
                                               const std::string& to) const;
  [[nodiscard]] std::optional<LintFix> replacement(const std::string& key, const std::string& own) const;
};

std::optional<LintFix> Walk::renamed(const DsSection& section, const std::string& own,
                                     const std::string& to) const {
  if (is_taken(context, section, to)) return std::nullopt;
  return LintFix{fmt::format("rename to {}", in_quotes(to)), rename_member(context.ds, own, to)};
}

std::string rule_of_unknown(const DsSection& section) {
  if (section.pointer.empty()) return "unknown-key";
  return section.rejects_unknown ? "unknown-section-key" : "ignored-section-key";
}

void Walk::unknown(const DsSection& section, const std::string& key, const std::string& own) {
  const bool hidden = section.rejects_unknown && is_auto(context.at(own));
  const bool raises = section.rejects_unknown && !hidden;
  LintContext::Saying saying{
      .found = fmt::format("unknown key {}", in_quotes(key)),
      .outcome = raises ? Outcome::raises : Outcome::ignored,
      .effect = raises   ? "DeepSpeed stops: this section takes no other keys"
                : hidden ? "DeepSpeed drops keys whose value is \"auto\" before it looks at them"
                         : "DeepSpeed ignores it silently"};
  const std::string rule = rule_of_unknown(section);
  if (const Mistake* known = mistake(section, key)) {
    saying.advice = known->say;
    if (!known->rename_to.empty()) saying.fix = renamed(section, own, known->rename_to);
    // What is meant is there already, so that the wrong name says nothing more.
    if (known->remove) saying.fix = context.removal(own);
    context.add(rule, own, std::move(saying));
    return;
  }
  const auto near = nearest_word(key, section.keys);
  const std::string other = near ? "" : elsewhere(section, key);
  saying.advice = near             ? fmt::format("did you mean {}?", *near)
                  : !other.empty() ? fmt::format("that is a key of {}", other)
                                   : fmt::format("{} has no such key", name_of(section));
  if (near) saying.fix = renamed(section, own, *near);
  if (hidden && !saying.fix) saying.fix = context.removal(own);
  context.add(rule, own, std::move(saying));
}

/// The old switches of offload become sections; the others get their new name.
std::optional<LintFix> Walk::replacement(const std::string& key, const std::string& own) const {
  const Json& value = context.at(own);
  if (key == "cpu_offload_use_pin_memory") return context.removal(own);
  if (key == "stage3_gather_fp16_weights_on_model_save")
    return LintFix{"rename to \"stage3_gather_16bit_weights_on_model_save\"",
                   rename_member(context.ds, own, "stage3_gather_16bit_weights_on_model_save")};
  const bool on = value.is_boolean() && value.get<bool>();
  if (!on) return value.is_boolean() || value.is_null() ? std::optional(context.removal(own)) : std::nullopt;
  const std::string to = key == "cpu_offload" ? "offload_optimizer" : "offload_param";
  std::vector<TextEdit> edits = rename_member(context.ds, own, to);
  for (TextEdit& edit : replace_value(context.ds, own, R"({"device": "cpu"})"))
    edits.push_back(std::move(edit));
  return LintFix{fmt::format("write \"{}\": {{\"device\": \"cpu\"}}", to), edits};
}

/// Of deprecated keys only cpu_offload_use_pin_memory sets nothing.
void Walk::deprecated(const DsSection& section, const std::string& key, const std::string& own) {
  const std::string& to = section.replaced_by.at(key);
  if (is_auto(context.at(own))) return;
  if (key != "cpu_offload_use_pin_memory" && is_taken(context, section, to)) {
    const bool same_switch = context.at(own) == false || context.at(own).is_null();
    context.add("deprecated-beside-new", own,
                {.found = fmt::format("{} beside {}, which took its place", in_quotes(key), in_quotes(to)),
                 .outcome = Outcome::raises,
                 .effect = "DeepSpeed stops: it takes one or the other",
                 .advice = fmt::format("leave {} out", key),
                 .fix = same_switch ? std::optional(context.removal(own)) : std::nullopt});
    return;
  }
  const bool lost = key == "cpu_offload_use_pin_memory";
  context.add("deprecated-key", own,
              {.found = fmt::format("deprecated key {}", in_quotes(key)),
               .outcome = lost ? Outcome::ignored : Outcome::converted,
               .effect = lost ? "DeepSpeed reads it and sets nothing: memory is pinned by default"
                              : fmt::format("DeepSpeed reads it as {}, and will not for ever", to),
               .advice = lost ? "write pin_memory in offload_optimizer or offload_param"
                              : fmt::format("{} took its place", to),
               .fix = replacement(key, own)});
}

void Walk::key(const DsSection& section, const std::string& key) {
  const std::string own = section.pointer + "/" + pointer_step(key);
  const auto removed = keys.removed.find(section.pointer);
  if (removed != keys.removed.end() && holds(removed->second, key)) {
    context.add("removed-key", own,
                {.found = fmt::format("{} was removed from DeepSpeed", in_quotes(key)),
                 .outcome = Outcome::raises,
                 .effect = "DeepSpeed stops at it, whatever its value",
                 .advice = key == "curriculum_learning"
                               ? "data_efficiency.data_sampling.curriculum_learning took its place"
                               : "leave it out",
                 .fix = context.removal(own)});
    return;
  }
  if (!holds(section.keys, key)) return unknown(section, key, own);
  const std::string name = json_name(section, key);
  if (name != key && context.at(section.pointer).contains(name))
    context.add(
        "two-names", own,
        {.found = fmt::format("{} beside {}: two names of one setting", in_quotes(key), in_quotes(name)),
         .outcome = Outcome::raises,
         .effect = "DeepSpeed stops: it takes one of them",
         .advice = fmt::format("leave {} out", key),
         .fix = context.at(own) == context.at(section.pointer + "/" + name)
                    ? std::optional(context.removal(own))
                    : std::nullopt});
  if (section.replaced_by.contains(key)) deprecated(section, key, own);
  object(own);
}

void Walk::object(const std::string& pointer) {
  if (!context.at(pointer).is_object()) return;
  const DsSection* section = find_section(keys, pointer);
  if (section == nullptr) return;
  for (const auto& item : context.at(pointer).items()) key(*section, item.key());
}

/// bfloat16 is the old name of bf16, which wins where both are there.
void old_section(LintContext& context) {
  if (!context.at("").is_object() || !context.at("").contains("bfloat16")) return;
  if (context.has("/bf16")) {
    context.add("shadowed-section", "/bfloat16",
                {.found = "\"bfloat16\" beside \"bf16\"",
                 .outcome = Outcome::ignored,
                 .effect = "DeepSpeed reads bf16 alone",
                 .advice = "leave bfloat16 out",
                 .fix = context.removal("/bfloat16")});
    return;
  }
  LintFix fix{"rename to \"bf16\"", rename_member(context.ds, "/bfloat16", "bf16")};
  const bool blocked = context.at("").contains("bf16");
  context.add("deprecated-key", "/bfloat16",
              {.found = "old key \"bfloat16\"",
               .outcome = Outcome::converted,
               .effect = "DeepSpeed reads it as bf16; the Trainer and accelerate do not",
               .advice = "bf16 took its place",
               .fix = blocked ? std::nullopt : std::optional(std::move(fix))});
}

}  // namespace

void lint_all_keys(LintContext& context) {
  Walk{context, ds_keys()}.object("");
  old_section(context);
}

}  // namespace zplan
