// Rules about the text, its keys and their values.

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>

#include "planner/frameworks/deepspeed/config/lint_context.h"

namespace zplan {

namespace {

// ---- text that is no JSON

/// DeepSpeed itself reads Hjson; transformers, accelerate and ms-swift read JSON.
void not_json(LintContext& context, const TextFlaw& flaw, std::string_view rule, std::string found) {
  const bool trainer = context.style != ConfigStyle::plain;
  Finding& finding = context.add(
      rule, flaw.pointer,
      {.found = std::move(found),
       .outcome = trainer ? Outcome::raises : Outcome::runs,
       .effect =
           trainer
               ? "the Trainer, accelerate and ms-swift read JSON, and stop"
               : "DeepSpeed's own reader takes it; transformers, accelerate and ms-swift read JSON, and stop",
       .advice = "leave it out",
       .fix = LintFix{"leave it out", {{flaw.span, ""}}}});
  if (trainer) finding.severity = Severity::error;
  finding.place = context.places.of(flaw.span.begin);
}

/// A comment that has a line to itself goes with the line.
TextFlaw with_line(const LintContext& context, TextFlaw flaw) {
  const std::string& text = context.ds.text;
  std::size_t begin = flaw.span.begin;
  while (begin > 0 && (text[begin - 1] == ' ' || text[begin - 1] == '\t')) --begin;
  const bool ends_line = flaw.span.end >= text.size() || text[flaw.span.end] == '\n';
  if (!ends_line) return flaw;
  const bool own_line = begin == 0 || text[begin - 1] == '\n';
  const std::size_t end = own_line && flaw.span.end < text.size() ? flaw.span.end + 1 : flaw.span.end;
  flaw.span = {begin, end};
  return flaw;
}

/// True if all members of one key have the same value, as written.
bool all_say_the_same(const DsText& ds, const TextFlaw& flaw) {
  const std::vector<TextMember>& members = ds.objects.at(flaw.pointer.substr(0, flaw.pointer.rfind('/')));
  const auto one =
      std::ranges::find(members, flaw.span.begin, [](const TextMember& each) { return each.key_span.begin; });
  std::optional<std::string> first;
  for (const TextMember& each : members) {
    if (one == members.end() || each.key != one->key) continue;
    const std::string written =
        ds.text.substr(each.value_span.begin, each.value_span.end - each.value_span.begin);
    if (first && *first != written) return false;
    first = written;
  }
  return true;
}

void duplicate(LintContext& context, const TextFlaw& flaw) {
  const std::string key = context.ds.text.substr(flaw.span.begin, flaw.span.end - flaw.span.begin);
  LintContext::Saying saying{
      .found = fmt::format("{} stands twice", in_quotes(key.substr(1, key.find('"', 1) - 1))),
      .outcome = Outcome::raises,
      .effect = "DeepSpeed stops; readers of JSON take the last",
      .advice = "leave one out"};
  if (all_say_the_same(context.ds, flaw)) saying.fix = LintFix{"leave the first out", {{flaw.span, ""}}};
  Finding& finding = context.add("duplicate-key", flaw.pointer, std::move(saying));
  finding.place = context.places.of(flaw.span.begin);
}

void not_finite(LintContext& context, const TextFlaw& flaw) {
  const std::string written = context.ds.text.substr(flaw.span.begin, flaw.span.end - flaw.span.begin);
  context.add("not-finite", flaw.pointer,
              {.found = fmt::format("{}, which is no number in JSON", written),
               .outcome = Outcome::raises,
               .effect = "DeepSpeed's reader takes it for a text, and stops",
               .advice = "write a number"});
}

// ---- keys: unknown, misspelt, removed, deprecated, known by two names

constexpr std::string_view kTopLevel = "the top level";

std::string name_of(const DsSection& section) {
  return section.pointer.empty() ? std::string(kTopLevel) : section.pointer.substr(1);
}

/// "/zero_optimization/stage" as people say it: "zero_optimization.stage".
std::string dotted(const std::string& pointer) {
  std::string name = pointer.substr(1);
  std::replace(name.begin(), name.end(), '/', '.');
  return name;
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

/// True if the object already has the key, by either name.
bool is_taken(const LintContext& context, const DsSection& section, const std::string& key) {
  const Json& object = context.at(section.pointer);
  return object.contains(key) || std::ranges::any_of(section.keys, [&](const std::string& each) {
           return json_name(section, each) == json_name(section, key) && object.contains(each);
         });
}

/// Meaning holds the likely intention behind a key that DeepSpeed does not know.
struct Meaning {
  const Mistake* mistake{};              ///< a row of lint.json
  std::optional<std::string> correct{};  ///< of a misspelling
  std::string other{};                   ///< the section that has the key
};

/// `is_compared`: false where no key is looked for that it resembles.
Meaning meaning_of(const DsSection& section, const std::string& key, bool is_compared) {
  Meaning meaning{.mistake = mistake(section, key)};
  if (meaning.mistake != nullptr || is_comment_key(key) || !is_compared) return meaning;
  meaning.correct = misspelt_word(key, section.keys);
  if (!meaning.correct) meaning.other = elsewhere(section, key);
  return meaning;
}

std::string advice_for(const DsSection& section, const std::string& key, const Meaning& meaning,
                       bool is_compared) {
  if (meaning.mistake != nullptr) return meaning.mistake->say;
  if (is_comment_key(key)) return section.rejects_unknown ? "leave it out" : "";
  if (!meaning.other.empty()) return fmt::format("that is a key of {}", meaning.other);
  const auto near = is_compared ? nearest_word(key, section.keys) : std::nullopt;
  if (near) return fmt::format("did you mean {}?", *near);
  return fmt::format("{} has no such key", name_of(section));
}

/// In a section that takes no others any key is an error. Elsewhere a setting is lost if the key was meant
/// for one, and nothing if not.
std::string rule_of_unknown(const DsSection& section, const std::string& key, const Meaning& meaning) {
  if (section.rejects_unknown) return "unknown-section-key";
  if (is_comment_key(key)) return "comment-key";
  const bool top = section.pointer.empty();
  if (meaning.correct) return top ? "unknown-key" : "ignored-section-key";
  if (meaning.mistake != nullptr || !meaning.other.empty())
    return top ? "misplaced-key" : "ignored-section-key";
  return "ignored-key";
}

struct Walk {
  LintContext& context;
  const DsKeys& keys;
  int unknown_keys{0};

  void object(const std::string& pointer);
  void key(const DsSection& section, const std::string& key);
  void unknown(const DsSection& section, const std::string& key, const std::string& own);
  void deprecated(const DsSection& section, const std::string& key, const std::string& own);
  [[nodiscard]] std::optional<LintFix> repair(const DsSection& section, const std::string& key,
                                              const std::string& own, const Meaning& meaning) const;
  [[nodiscard]] std::optional<LintFix> renamed(const DsSection& section, const std::string& own,
                                               const std::string& to) const;
  [[nodiscard]] std::optional<LintFix> moved(const std::string& own, const std::string& target) const;
  [[nodiscard]] std::optional<LintFix> written_elsewhere(const std::string& own, const std::string& target,
                                                         std::string json) const;
  [[nodiscard]] std::optional<LintFix> moved_switch(const std::string& key, const std::string& own) const;
  [[nodiscard]] std::optional<LintFix> removal_of_mistake(const DsSection& section,
                                                          const std::string& own) const;
  [[nodiscard]] std::optional<LintFix> replacement(const std::string& key, const std::string& own) const;
};

/// True unless DeepSpeed stops at `value` under the key at `pointer`: under another name it may be ignored.
bool takes(const std::string& pointer, const Json& value) {
  const auto rule = lint_knowledge().values.find(pointer);
  if (rule == lint_knowledge().values.end() || is_auto(value)) return true;
  const Fit fit = fit_of(rule->second, value);
  return fit == Fit::right || fit == Fit::converted;
}

std::optional<LintFix> Walk::renamed(const DsSection& section, const std::string& own,
                                     const std::string& to) const {
  if (is_taken(context, section, to) || !takes(own.substr(0, own.rfind('/') + 1) + to, context.at(own)))
    return std::nullopt;
  return LintFix{fmt::format("rename to {}", in_quotes(to)), rename_member(context.ds, own, to)};
}

/// Returns the repair that moves a value to the key at `target`, whose sections it makes where they are
/// missing; nothing where something stands in the way.
std::optional<LintFix> Walk::moved(const std::string& own, const std::string& target) const {
  const Span span = context.ds.values.at(own);
  return written_elsewhere(own, target, context.ds.text.substr(span.begin, span.end - span.begin));
}

std::optional<LintFix> Walk::written_elsewhere(const std::string& own, const std::string& target,
                                               std::string json) const {
  const std::string name = dotted(target);
  if (context.has(target)) {
    const bool same = context.at(target) == context.at(own);
    return same
               ? std::optional(LintFix{name + " says the same: leave it out", remove_member(context.ds, own)})
               : std::nullopt;
  }
  std::string parent = target.substr(0, target.rfind('/')), key = target.substr(parent.size() + 1);
  while (context.at(parent).is_null()) {
    if (context.ds.values.contains(parent)) return std::nullopt;
    json = fmt::format("{{{}: {}}}", Json(key).dump(), json);
    key = parent.substr(parent.rfind('/') + 1), parent.erase(parent.rfind('/'));
  }
  const bool alone = context.at(own.substr(0, own.rfind('/'))).size() == 1;
  if (!context.at(parent).is_object() || context.ds.values.contains(target) || alone) return std::nullopt;
  LintFix fix{fmt::format("move to {}", name), remove_member(context.ds, own)};
  for (TextEdit& edit : set_member(context.ds, parent, key, json)) fix.edits.push_back(std::move(edit));
  return fix;
}

/// Switches whose value says what another section is to hold.
std::optional<LintFix> Walk::moved_switch(const std::string& key, const std::string& own) const {
  const Json& value = context.at(own);
  const bool offloads = context.device("offload_optimizer") != "none";
  if (key == "offload_gradients" && value == true && !offloads)
    return written_elsewhere(own, kZero + "/offload_optimizer", R"({"device": "cpu"})");
  if (key == "mixed_precision" && (value == "bf16" || value == "fp16"))
    return written_elsewhere(own, fmt::format("/{}/enabled", value.get<std::string>()), "true");
  return std::nullopt;
}

/// A key that only the training script can follow stays where DeepSpeed runs with it: it says what was meant.
std::optional<LintFix> Walk::removal_of_mistake(const DsSection& section, const std::string& own) const {
  const bool is_meant = section.pointer.empty() && context.at(own) == true;
  return is_meant ? std::nullopt : std::optional(context.removal(own));
}

std::optional<LintFix> Walk::repair(const DsSection& section, const std::string& key, const std::string& own,
                                    const Meaning& meaning) const {
  if (meaning.mistake != nullptr) {
    // The right key is there already, so that the wrong one can be removed.
    if (auto fix = moved_switch(key, own)) return fix;
    if (meaning.mistake->remove) return removal_of_mistake(section, own);
    if (!meaning.mistake->move_to.empty()) return moved(own, meaning.mistake->move_to);
    const std::string& to = meaning.mistake->rename_to;
    return to.empty() ? std::nullopt : renamed(section, own, to);
  }
  if (meaning.correct) {
    if (auto fix = renamed(section, own, *meaning.correct)) return fix;
  }
  if (!meaning.other.empty())
    if (auto fix =
            moved(own, (meaning.other == kTopLevel ? "" : "/" + meaning.other) + "/" + pointer_step(key)))
      return fix;
  const bool hidden = section.rejects_unknown && is_auto(context.at(own));
  return hidden || (section.rejects_unknown && is_comment_key(key)) ? std::optional(context.removal(own))
                                                                    : std::nullopt;
}

void Walk::unknown(const DsSection& section, const std::string& key, const std::string& own) {
  const bool hidden = section.rejects_unknown && is_auto(context.at(own));
  const bool raises = section.rejects_unknown && !hidden;
  constexpr int kMostCompared = 200;  // with each key of a section: a config of nothing else takes no longer
  const bool is_compared = ++unknown_keys <= kMostCompared;
  const Meaning meaning = meaning_of(section, key, is_compared);
  context.add(rule_of_unknown(section, key, meaning), own,
              {.found = fmt::format("unknown key {}", in_quotes(key)),
               .outcome = raises ? Outcome::raises : Outcome::ignored,
               .effect = raises   ? "DeepSpeed stops: this section takes no other keys"
                         : hidden ? "DeepSpeed drops keys whose value is \"auto\" before it looks at them"
                                  : "DeepSpeed ignores it silently",
               .advice = advice_for(section, key, meaning, is_compared),
               .fix = repair(section, key, own, meaning)});
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

/// True if the value of a key that DeepSpeed took out asked for something.
bool turns_on(const Json& value) {
  if (value.is_boolean()) return value.get<bool>();
  if (value.is_number()) return value.get<double>() > 0;
  if (value.is_object() && value.contains("enabled")) return value.at("enabled") == true;
  return value.is_structured() && !value.empty();
}

/// Reports a deprecated key. Only cpu_offload_use_pin_memory sets nothing.
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
    LintContext::Saying saying{
        .found = fmt::format("{} was removed from DeepSpeed", in_quotes(key)),
        .outcome = Outcome::raises,
        .effect = "DeepSpeed stops at it, whatever its value",
        .advice = key == "curriculum_learning"
                      ? "data_efficiency.data_sampling.curriculum_learning took its place"
                  : turns_on(context.at(own)) ? "leave it out and do without, or take a DeepSpeed that has it"
                                              : "leave it out"};
    if (key == "amp" && turns_on(context.at(own)))
      saying.fix = written_elsewhere(own, "/fp16/enabled", "true");
    if (!turns_on(context.at(own)))
      saying.fix = context.removal(own);
    else
      saying.others.push_back(context.removal(own));
    if (saying.fix && key == "amp") saying.advice = offered(saying.fix, saying.others);
    context.add("removed-key", own, std::move(saying));
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

// ---- values: kinds, ranges, choices, and "auto"

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

/// `is_read`: false where the run does not look at the value. Its kind is checked when the config is read.
void check_value(LintContext& context, const std::string& pointer, const std::string& canonical,
                 bool is_read) {
  const auto rule = lint_knowledge().values.find(canonical);
  const Json& value = context.at(pointer);
  if (rule == lint_knowledge().values.end() || is_auto(value)) return;
  const bool flawed = std::any_of(
      context.ds.flaws.begin(), context.ds.flaws.end(),
      [&](const TextFlaw& flaw) { return flaw.kind == FlawKind::not_finite && flaw.pointer == pointer; });
  if (flawed) return;
  const Fit fit = fit_of(rule->second, value);
  if (!is_read && fit != Fit::wrong_kind) return;
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
    } else {
      check_value(context, own, canonical, !is_unread(context, own));
    }
  }
}

// ---- "auto"

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

void lint_text_flaws(LintContext& context) {
  for (const TextFlaw& flaw : context.ds.flaws) {
    switch (flaw.kind) {
      case FlawKind::comment: {
        const TextFlaw whole = with_line(context, flaw);
        not_json(context, whole, "comment", "a comment");
        context.findings.back().place = context.places.of(flaw.span.begin);
        break;
      }
      case FlawKind::trailing_comma:
        not_json(context, flaw, "trailing-comma", "a comma behind the last");
        break;
      case FlawKind::byte_order_mark: not_json(context, flaw, "byte-order-mark", "a byte order mark"); break;
      case FlawKind::duplicate_key: duplicate(context, flaw); break;
      case FlawKind::not_finite: not_finite(context, flaw); break;
    }
  }
}

bool is_comment_key(std::string_view key) {
  if (key.starts_with('_') || key.starts_with('#') || key.starts_with("//")) return true;
  const std::string word = lower_case(std::string(key));
  return word.starts_with("comment") || word.ends_with("comment") || word.ends_with("comments") ||
         holds(std::array<std::string_view, 4>{"note", "notes", "description", "readme"}, word);
}

void lint_all_keys(LintContext& context) {
  Walk{context, ds_keys()}.object("");
  old_section(context);
}

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
