// Rules about text that is no JSON, and is read all the same by some.

#include <algorithm>
#include <nlohmann/json.hpp>

#include "planner/frameworks/deepspeed/config/lint_context.h"

namespace zplan {

namespace {

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
  finding.place = line_and_column(context.ds.text, flaw.span.begin);
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

/// Whether all members of one key have the same value, as written.
bool all_say_the_same(const DsText& ds, const TextFlaw& flaw) {
  const std::vector<TextMember>& members = ds.objects.at(flaw.pointer.substr(0, flaw.pointer.rfind('/')));
  std::optional<std::string> first;
  for (const TextMember& each : members) {
    if (!flaw.pointer.ends_with("/" + pointer_step(each.key))) continue;
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
  finding.place = line_and_column(context.ds.text, flaw.span.begin);
}

void not_finite(LintContext& context, const TextFlaw& flaw) {
  const std::string written = context.ds.text.substr(flaw.span.begin, flaw.span.end - flaw.span.begin);
  context.add("not-finite", flaw.pointer,
              {.found = fmt::format("{}, which is no number in JSON", written),
               .outcome = Outcome::raises,
               .effect = "DeepSpeed's reader takes it for a text, and stops",
               .advice = "write a number"});
}

}  // namespace

void lint_text_flaws(LintContext& context) {
  for (const TextFlaw& flaw : context.ds.flaws) {
    switch (flaw.kind) {
      case FlawKind::comment: {
        const TextFlaw whole = with_line(context, flaw);
        not_json(context, whole, "comment", "a comment");
        context.findings.back().place = line_and_column(context.ds.text, flaw.span.begin);
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

}  // namespace zplan
