// The findings of `zplan lint`: as a document, as JSON, and as SARIF 2.1.0 (OASIS Static Analysis Results
// Interchange Format).

#include "cli/report/lint_report.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "models/base/version.h"
#include "planner/frameworks/deepspeed/config/keys.h"

namespace zplan {

namespace {

std::size_t count(const std::vector<Finding>& findings, Severity severity) {
  return static_cast<std::size_t>(
      std::count_if(findings.begin(), findings.end(),
                    [severity](const Finding& each) { return each.severity == severity; }));
}

std::size_t fixable(const std::vector<Finding>& findings) {
  return static_cast<std::size_t>(std::count_if(findings.begin(), findings.end(),
                                                [](const Finding& each) { return each.fix.has_value(); }));
}

Tone tone_of(Severity severity) {
  return severity == Severity::error ? Tone::bad : severity == Severity::warning ? Tone::strong : Tone::faint;
}

std::string where(const Finding& finding) {
  return fmt::format("{}:{}", finding.place.line, finding.place.column);
}

std::string sentence(const Finding& finding) {
  const std::string pointer = finding.pointer.empty() ? "" : finding.pointer + ": ";
  const std::string advice = finding.advice.empty() ? "" : "; " + finding.advice;
  const bool said = finding.fix && finding.advice.starts_with(finding.fix->what);
  const std::string fix = !finding.fix             ? ""
                          : !said                  ? fmt::format(" (--fix: {})", finding.fix->what)
                          : finding.others.empty() ? " (--fix)"
                                                   : " (--fix does the first)";
  return fmt::format("{}{}; {}{}{} [{}]", pointer, finding.found, finding.effect, advice, fix, finding.rule);
}

void add_finding(Document& doc, const Finding& finding, std::size_t widest) {
  const std::string severity(to_name(finding.severity));
  doc.paragraph(fmt::format("  {:>{}}  {:<7}  ", where(finding), widest, severity), sentence(finding),
                tone_of(finding.severity), severity);
}

std::string counted(std::size_t number, std::string_view what) {
  return fmt::format("{} {}{}", number, what, number == 1 ? "" : "s");
}

std::string summary(const LintedFile& file) {
  const std::size_t repairs = fixable(file.findings);
  const std::vector<std::string> parts{counted(count(file.findings, Severity::error), "error"),
                                       counted(count(file.findings, Severity::warning), "warning"),
                                       counted(count(file.findings, Severity::note), "note")};
  const std::string offer = repairs == 0 ? "" : fmt::format("; --fix repairs {} of them", repairs);
  return fmt::format("{}{}", fmt::join(parts, ", "), offer);
}

void add_plan(Document& doc, const LintedFile& file, ByteUnit unit) {
  if (!file.not_planned.empty()) return doc.paragraph("  plan: ", "not possible: " + file.not_planned);
  if (!file.plan) return;
  const LintPlan& plan = *file.plan;
  std::vector<std::string> parts{
      fmt::format("{} {}{}: needs {} of {} per GPU", plan.id, plan.fits ? "fits" : "does not fit",
                  plan.as_fixed ? " as --fix writes it" : "", format_bytes(plan.required, unit),
                  format_bytes(plan.available, unit)),
      fmt::format("{} per step, {:.0f} tokens/s", format_seconds(plan.step), plan.tokens_per_second)};
  std::copy_if(plan.why.begin(), plan.why.end(), std::back_inserter(parts),
               [](const std::string& why) { return !why.starts_with("needs "); });
  doc.paragraph("  plan: ", fmt::format("{}", fmt::join(parts, "; ")));
}

void add_file(Document& doc, const LintedFile& file, ByteUnit unit) {
  std::size_t widest = 0;
  for (const Finding& each : file.findings) widest = std::max(widest, where(each).size());
  doc.paragraph(file.path + ": " + summary(file), "", has_errors(file.findings) ? Tone::bad : Tone::good,
                file.path);
  for (const Finding& each : file.fixed)
    doc.paragraph("  repaired: ", fmt::format("{}: {} [{}]", each.pointer.empty() ? "the file" : each.pointer,
                                              each.fix->what, each.rule));
  for (const Finding& each : file.findings) add_finding(doc, each, widest);
  add_plan(doc, file, unit);
}

Json fix_json(TextPlaces& places, const std::optional<LintFix>& fix) {
  if (!fix) return nullptr;
  Json edits = Json::array();
  for (const TextEdit& edit : fix->edits) {
    const LineColumn begin = places.of(edit.span.begin), end = places.of(edit.span.end);
    edits.push_back({{"line", begin.line},
                     {"column", begin.column},
                     {"end_line", end.line},
                     {"end_column", end.column},
                     {"text", edit.text}});
  }
  return {{"what", fix->what}, {"edits", std::move(edits)}};
}

Json finding_json(const Finding& finding) {
  return {{"rule", finding.rule},
          {"severity", std::string(to_name(finding.severity))},
          {"pointer", finding.pointer},
          {"line", finding.place.line},
          {"column", finding.place.column},
          {"found", finding.found},
          {"outcome", std::string(to_name(finding.outcome))},
          {"effect", finding.effect},
          {"advice", finding.advice}};
}

Json findings_json(const LintedFile& file) {
  TextPlaces places(file.text);
  Json out = Json::array();
  for (const Finding& each : file.findings) {
    Json entry = finding_json(each);
    entry["fix"] = fix_json(places, each.fix);
    entry["other_fixes"] = Json::array();
    for (const LintFix& other : each.others) entry["other_fixes"].push_back(fix_json(places, other));
    out.push_back(std::move(entry));
  }
  return out;
}

Json fixed_json(const LintedFile& file) {
  Json out = Json::array();
  for (const Finding& each : file.fixed)
    out.push_back({{"rule", each.rule}, {"pointer", each.pointer}, {"what", each.fix->what}});
  return out;
}

Json plan_json(const LintedFile& file) {
  if (!file.plan) return nullptr;
  const LintPlan& plan = *file.plan;
  return {{"id", plan.id},
          {"fits", plan.fits},
          {"as_fixed", plan.as_fixed},
          {"required", plan.required.value},
          {"available", plan.available.value},
          {"step_seconds", plan.step.value},
          {"tokens_per_second", plan.tokens_per_second},
          {"why", plan.why}};
}

Json summary_json(const std::vector<Finding>& findings) {
  return {{"errors", count(findings, Severity::error)},
          {"warnings", count(findings, Severity::warning)},
          {"notes", count(findings, Severity::note)},
          {"fixable", fixable(findings)}};
}

Json file_json(const LintedFile& file) {
  return {{"file", file.path},
          {"config_style", std::string(to_name(file.style))},
          {"findings", findings_json(file)},
          {"fixed", fixed_json(file)},
          {"summary", summary_json(file.findings)},
          {"plan", plan_json(file)},
          {"not_planned", file.not_planned.empty() ? Json(nullptr) : Json(file.not_planned)}};
}

}  // namespace

bool has_errors(const LintReport& report) {
  return std::any_of(report.files.begin(), report.files.end(),
                     [](const LintedFile& each) { return has_errors(each.findings); });
}

Document lint_document(const LintReport& report) {
  Document doc;
  for (const LintedFile& file : report.files) {
    if (!doc.blocks.empty()) doc.line();
    add_file(doc, file, report.unit);
  }
  return doc;
}

Json lint_json(const LintReport& report) {
  Json files = Json::array();
  std::vector<Finding> all;
  for (const LintedFile& file : report.files) {
    files.push_back(file_json(file));
    all.insert(all.end(), file.findings.begin(), file.findings.end());
  }
  return {{"schema", "zplan.lint/1"},
          {"zplan_version", std::string(version())},
          {"deepspeed_version", std::string(kDeepSpeedVersion)},
          {"files", std::move(files)},
          {"summary", summary_json(all)}};
}

namespace {

constexpr const char* kSarifSchema =
    "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json";

/// Returns a path as a URI reference (RFC 3986).
std::string uri(const std::string& path) {
  std::string out;
  for (const char c : path) {
    const bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                       std::string_view("-._~/").find(c) != std::string_view::npos;
    out += plain ? std::string(1, c) : fmt::format("%{:02X}", static_cast<unsigned char>(c));
  }
  return path.starts_with('/') ? "file://" + out : out;
}

Json text_json(std::string_view text) { return {{"text", std::string(text)}}; }

Json rules_json() {
  Json rules = Json::array();
  for (const LintRule& rule : lint_rules())
    rules.push_back({{"id", std::string(rule.id)},
                     {"shortDescription", text_json(rule.what)},
                     {"help", text_json(fmt::format("DeepSpeed {}: {}", kDeepSpeedVersion, rule.source))},
                     {"defaultConfiguration", {{"level", std::string(to_name(rule.severity))}}}});
  return rules;
}

std::size_t rule_index(const std::string& id) {
  const std::vector<LintRule>& rules = lint_rules();
  return static_cast<std::size_t>(&lint_rule(id) - rules.data());
}

Json region_json(const LintedFile& file, Span span) {
  const LineColumn begin = line_and_column(file.text, span.begin), end = line_and_column(file.text, span.end);
  return {{"startLine", begin.line},
          {"startColumn", begin.column},
          {"endLine", end.line},
          {"endColumn", end.column}};
}

Json sarif_fix(const LintedFile& file, const LintFix& fix) {
  Json replacements = Json::array();
  for (const TextEdit& edit : fix.edits) {
    Json entry{{"deletedRegion", region_json(file, edit.span)}};
    if (!edit.text.empty()) entry["insertedContent"] = text_json(edit.text);
    replacements.push_back(std::move(entry));
  }
  const Json change{{"artifactLocation", {{"uri", uri(file.path)}}}, {"replacements", replacements}};
  return {{"description", text_json(fix.what)}, {"artifactChanges", Json::array({change})}};
}

/// Returns every repair of a finding, that of --fix first.
Json fixes_json(const LintedFile& file, const Finding& finding) {
  Json fixes = Json::array();
  if (finding.fix) fixes.push_back(sarif_fix(file, *finding.fix));
  for (const LintFix& each : finding.others) fixes.push_back(sarif_fix(file, each));
  return fixes;
}

Json location_json(const LintedFile& file, const Finding& finding) {
  Json location{{"physicalLocation",
                 {{"artifactLocation", {{"uri", uri(file.path)}}},
                  {"region", {{"startLine", finding.place.line}, {"startColumn", finding.place.column}}}}}};
  if (!finding.pointer.empty())
    location["logicalLocations"] = Json::array({{{"fullyQualifiedName", finding.pointer}}});
  return location;
}

Json result_json(const LintedFile& file, const Finding& finding) {
  const std::string advice = finding.advice.empty() ? "" : "; " + finding.advice;
  Json result{{"ruleId", finding.rule},
              {"ruleIndex", rule_index(finding.rule)},
              {"level", std::string(to_name(finding.severity))},
              {"message", text_json(fmt::format("{}; {}{}", finding.found, finding.effect, advice))},
              {"locations", Json::array({location_json(file, finding)})}};
  if (Json fixes = fixes_json(file, finding); !fixes.empty()) result["fixes"] = std::move(fixes);
  return result;
}

}  // namespace

Json lint_sarif(const LintReport& report) {
  Json results = Json::array();
  for (const LintedFile& file : report.files)
    for (const Finding& finding : file.findings) results.push_back(result_json(file, finding));
  const Json driver{{"name", "zplan"}, {"version", std::string(version())}, {"rules", rules_json()}};
  const Json run{
      {"tool", {{"driver", driver}}}, {"columnKind", "unicodeCodePoints"}, {"results", std::move(results)}};
  return {{"$schema", kSarifSchema}, {"version", "2.1.0"}, {"runs", Json::array({run})}};
}

}  // namespace zplan
