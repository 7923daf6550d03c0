#include "planner/frameworks/deepspeed/config/lint.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "planner/frameworks/deepspeed/config/lint_context.h"
#include "planner/frameworks/deepspeed/config/lint_knowledge.h"

namespace zplan {

namespace {

/// More rounds than a file could need: each takes findings away for good.
constexpr int kMostRounds = 1000;

const Json& nothing() {
  static const Json null;
  return null;
}

/// 0 to 3; 0 where it is anything else, at which DeepSpeed stops. accelerate takes 2 for "auto".
int stage_of(const Json& document, ConfigStyle style) {
  if (!document.is_object() || !document.contains("zero_optimization")) return 0;
  const Json& zero = document.at("zero_optimization");
  if (zero.is_boolean()) return zero.get<bool>() ? 1 : 0;
  if (!zero.is_object() || !zero.contains("stage")) return 0;
  const Json& stage = zero.at("stage");
  if (is_auto(stage)) return style == ConfigStyle::plain ? 0 : 2;
  const ValueRule& rule = lint_knowledge().values.at("/zero_optimization/stage");
  const Fit fit = fit_of(rule, stage);
  return fit == Fit::right || fit == Fit::converted ? converted(rule, stage).get<int>() : 0;
}

/// Several findings at one place stay in the order of the rules.
void sort_by_place(std::vector<Finding>& findings) {
  std::stable_sort(findings.begin(), findings.end(), [](const Finding& a, const Finding& b) {
    return std::pair(a.place.line, a.place.column) < std::pair(b.place.line, b.place.column);
  });
}

std::vector<Finding> lint_document(const DsText& ds, const LintOptions& options) {
  const ConfigStyle style = options.style.value_or(inferred_style(ds.document));
  LintContext context{ds, options, style, stage_of(ds.document, style)};
  for (const auto rules :
       {lint_text_flaws, lint_all_keys, lint_arguments, lint_values, lint_auto, lint_batch, lint_sequence,
        lint_experts, lint_stage, lint_precision, lint_optimizer, lint_scheduler})
    rules(context);
  sort_by_place(context.findings);
  return std::move(context.findings);
}

bool has_auto_of_trainer(const Json& object, const std::string& pointer) {
  return object.is_object() &&
         std::any_of(object.items().begin(), object.items().end(), [&](const auto& item) {
           const std::string own = pointer + "/" + pointer_step(item.key());
           return is_auto(item.value()) ? filled_by_trainer(own) : has_auto_of_trainer(item.value(), own);
         });
}

bool is_flaw(const Finding& finding) {
  return finding.rule == "comment" || finding.rule == "trailing-comma" || finding.rule == "byte-order-mark" ||
         finding.rule == "duplicate-key";
}

/// Takes something out and writes nothing, so that it goes together with others of its kind.
bool only_removes(const Finding& finding) {
  return finding.fix->edits.size() == 1 && finding.fix->edits.front().text.empty();
}

/// Returns those repairs, in order of place, whose spans do not overlap.
std::vector<Finding> apart(const std::vector<Finding>& findings) {
  std::vector<Finding> kept;
  for (const Finding& each : findings)
    if (kept.empty() || each.fix->edits.front().span.begin >= kept.back().fix->edits.front().span.end)
      kept.push_back(each);
  return kept;
}

/// Returns the repairs that can be made at once. Text that is not JSON is repaired first: a removed member
/// would leave its comma.
std::vector<Finding> next_repairs(const std::vector<Finding>& findings) {
  std::vector<Finding> flaws, removals, others;
  for (const Finding& each : findings)
    if (each.fix) (is_flaw(each) ? flaws : only_removes(each) ? removals : others).push_back(each);
  if (!flaws.empty()) return apart(flaws);
  if (!removals.empty()) return apart(removals);
  return others.empty() ? others : std::vector<Finding>{others.front()};
}

}  // namespace

// ---- the context
// --------------------------------------------------------------------------------------------------

Finding& LintContext::add(std::string_view rule, const std::string& pointer, Saying saying) {
  const auto key = ds.keys.find(pointer);
  const auto value = ds.values.find(pointer);
  const std::size_t offset = key != ds.keys.end()       ? key->second.begin
                             : value != ds.values.end() ? value->second.begin
                                                        : 0;
  findings.push_back({.rule = std::string(rule),
                      .severity = lint_rule(rule).severity,
                      .pointer = pointer,
                      .place = line_and_column(ds.text, offset),
                      .outcome = saying.outcome,
                      .found = std::move(saying.found),
                      .effect = std::move(saying.effect),
                      .advice = std::move(saying.advice),
                      .fix = std::move(saying.fix)});
  return findings.back();
}

const Json& LintContext::at(const std::string& pointer) const {
  const Json::json_pointer where(pointer);
  return ds.document.contains(where) ? ds.document.at(where) : nothing();
}

bool LintContext::has(const std::string& pointer) const { return !at(pointer).is_null(); }

bool LintContext::flag(const std::string& pointer, bool fallback) const {
  const Json& value = at(pointer);
  const ValueRule rule{.kind = ValueKind::boolean, .checked = true};
  if (value.is_null() || is_auto(value) || fit_of(rule, value) == Fit::wrong_kind) return fallback;
  return converted(rule, value).get<bool>();
}

std::int64_t LintContext::sequence_parallel() const {
  return options.sequence_parallel.value_or(whole("/sequence_parallel_size").value_or(1));
}

std::optional<std::int64_t> LintContext::whole(const std::string& pointer) const {
  const Json& value = at(pointer);
  constexpr double kLargest = 9e18;
  if (!value.is_number()) return std::nullopt;
  const double number = value.get<double>();
  if (std::floor(number) != number || std::abs(number) > kLargest) return std::nullopt;
  return value.is_number_float() ? static_cast<std::int64_t>(number) : value.get<std::int64_t>();
}

std::string LintContext::text(const std::string& pointer) const {
  const Json& value = at(pointer);
  return value.is_string() ? value.get<std::string>() : std::string();
}

std::string LintContext::device(const std::string& section) const {
  const std::string pointer = "/zero_optimization/" + section;
  const bool old = flag(
      section == "offload_param" ? "/zero_optimization/cpu_offload_param" : "/zero_optimization/cpu_offload",
      false);
  const std::string named = text(pointer + "/device");
  return old ? "cpu" : named.empty() ? "none" : named;
}

std::string LintContext::precision() const {
  const std::string bf16 = has("/bf16") ? "/bf16" : "/bfloat16";
  if (flag(bf16 + "/enabled", false)) return "bf16";
  if (flag("/fp16/enabled", false)) return "fp16";
  const bool open = is_auto(at(bf16 + "/enabled")) || is_auto(at("/fp16/enabled"));
  return open && style != ConfigStyle::plain ? "" : "fp32";
}

LintFix LintContext::removal(const std::string& pointer) const {
  return {"leave it out", remove_member(ds, pointer)};
}

std::string shown_value(const Json& value) {
  if (value.is_string()) return in_quotes(value.get_ref<const std::string&>());
  if (!value.is_structured()) return value.dump();
  return value.is_array() ? "a list" : "an object";
}

bool filled_by_trainer(std::string_view pointer) {
  const std::vector<std::string>& pointers = ds_keys().auto_pointers;
  return std::find(pointers.begin(), pointers.end(), pointer) != pointers.end();
}

bool auto_is_native(std::string_view pointer) {
  return pointer == "/data_types/keep_in_fp32_modules" || pointer == "/pipeline/stages" ||
         pointer.starts_with("/zero_optimization/zenflow/");
}

// ---- what others call
// --------------------------------------------------------------------------------------------------

ConfigStyle inferred_style(const Json& document) {
  return has_auto_of_trainer(document, "") ? ConfigStyle::hf_auto : ConfigStyle::plain;
}

std::vector<Finding> lint(std::string_view text, const std::string& source, const LintOptions& options) {
  return lint_document(read_ds_text(text, source), options);
}

FixedText fix(std::string_view text, const std::string& source, const LintOptions& options) {
  FixedText result{std::string(text), {}};
  // Who fills in "auto" does not change where a repair takes the last one out.
  LintOptions same = options;
  same.style = options.style.value_or(inferred_style(read_ds_text(text, source).document));
  for (int i = 0; i < kMostRounds; ++i) {
    const std::vector<Finding> findings = lint(result.text, source, same);
    const std::vector<Finding> repairs = next_repairs(findings);
    if (repairs.empty()) break;
    std::vector<TextEdit> edits;
    for (const Finding& each : repairs)
      edits.insert(edits.end(), each.fix->edits.begin(), each.fix->edits.end());
    result.text = edited(std::move(result.text), std::move(edits));
    result.fixed.insert(result.fixed.end(), repairs.begin(), repairs.end());
  }
  return result;
}

bool has_errors(const std::vector<Finding>& findings) {
  return std::any_of(findings.begin(), findings.end(),
                     [](const Finding& each) { return each.severity == Severity::error; });
}

}  // namespace zplan
