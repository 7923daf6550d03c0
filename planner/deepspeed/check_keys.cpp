// --ds-config's view of the rules about keys: the first that loses a setting is thrown, the others are
// sentences.

#include <fmt/format.h>

#include <algorithm>

#include "planner/deepspeed/keys.h"
#include "planner/deepspeed/lint_context.h"

namespace zplan {

namespace {

/// The object that a key stands in, as messages name it: "ds.json#/aio".
std::string object_place(const JsonReader& config, const std::string& pointer) {
  const std::string object = pointer.substr(0, pointer.rfind('/'));
  return object.empty() ? config.place() : config.place() + "#" + object;
}

std::string key_of(const std::string& pointer) { return pointer.substr(pointer.rfind('/') + 1); }

/// What DeepSpeed stops at, or would with another value than "auto", and keys that are lost at the top level:
/// there a whole section may be lost.
bool stops(const Finding& finding) {
  return finding.outcome == Outcome::raises || finding.rule == "unknown-key" ||
         finding.rule == "unknown-section-key";
}

[[noreturn]] void fail(const JsonReader& config, const Finding& finding) {
  throw InputError(finding.pointer.empty() ? config.place() : object_place(config, finding.pointer),
                   finding.found, finding.advice);
}

std::string sentence(const JsonReader& config, const Finding& finding) {
  const std::string place = object_place(config, finding.pointer);
  if (finding.rule == "deprecated-key")
    return fmt::format("{}/{} is deprecated: {}", place, key_of(finding.pointer), finding.advice);
  return fmt::format("{}: DeepSpeed ignores the {}, {}", place, finding.found, finding.advice);
}

}  // namespace

std::vector<std::string> check_keys(const JsonReader& config) {
  if (!config.raw().is_object()) config.fail_type("a JSON object");
  const DsText ds = read_ds_text(config.raw().dump(), config.place());
  const LintOptions options;
  LintContext context{ds, options, inferred_style(ds.document)};
  lint_all_keys(context);
  lint_arguments(context);
  std::vector<std::string> warnings;
  for (const Finding& finding : context.findings) {
    if (stops(finding)) fail(config, finding);
    warnings.push_back(sentence(config, finding));
  }
  context.findings.clear();
  lint_auto(context);
  for (const Finding& finding : context.findings)
    if (finding.rule == "auto-nobody-fills")
      warnings.push_back(
          fmt::format("{}#{}: neither the HF Trainer nor accelerate fills in this \"auto\"{}", config.place(),
                      finding.pointer,
                      finding.outcome == Outcome::default_value ? ", and DeepSpeed takes its default" : ""));
  return warnings;
}

}  // namespace zplan
