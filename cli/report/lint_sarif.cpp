// Findings as SARIF 2.1.0 (OASIS Static Analysis Results Interchange Format).

#include <fmt/format.h>

#include <algorithm>

#include "cli/report/lint_report.h"
#include "models/base/version.h"
#include "planner/frameworks/deepspeed/config/keys.h"

namespace zplan {

namespace {

constexpr const char* kSarifSchema =
    "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json";

/// A path as a URI reference: what a URI does not take is escaped (RFC 3986).
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

Json fixes_json(const LintedFile& file, const LintFix& fix) {
  Json replacements = Json::array();
  for (const TextEdit& edit : fix.edits) {
    Json entry{{"deletedRegion", region_json(file, edit.span)}};
    if (!edit.text.empty()) entry["insertedContent"] = text_json(edit.text);
    replacements.push_back(std::move(entry));
  }
  const Json change{{"artifactLocation", {{"uri", uri(file.path)}}}, {"replacements", replacements}};
  return Json::array({{{"description", text_json(fix.what)}, {"artifactChanges", Json::array({change})}}});
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
  if (finding.fix) result["fixes"] = fixes_json(file, *finding.fix);
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
