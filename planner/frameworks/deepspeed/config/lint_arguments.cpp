// Rules about optimizer and scheduler: their types, and the arguments of these.

#include <algorithm>
#include <nlohmann/json.hpp>

#include "planner/frameworks/deepspeed/config/lint_context.h"
#include "planner/frameworks/deepspeed/config/lint_knowledge.h"

namespace zplan {

namespace {

template <class Map>
std::vector<std::string> names(const Map& map) {
  std::vector<std::string> all;
  for (const auto& [name, ignored] : map) all.push_back(name);
  return all;
}

void check_arguments(LintContext& context, std::string_view rule, const std::string& section,
                     const std::string& type, const Arguments& known) {
  const Json& params = context.at(section + "/params");
  if (!params.is_object() || !known) return;
  for (const auto& item : params.items()) {
    const bool legal = std::find(known->begin(), known->end(), item.key()) != known->end();
    if (legal || item.key() == "max_grad_norm") continue;
    const std::string own = section + "/params/" + pointer_step(item.key());
    const auto near = nearest_word(item.key(), *known);
    LintContext::Saying saying{
        .found = fmt::format("{} is no argument of {}", in_quotes(item.key()), in_quotes(type)),
        .outcome = Outcome::raises,
        .effect = "DeepSpeed passes it on, and the constructor stops at it",
        .advice = accepted_words(item.key(), *known)};
    if (near && !params.contains(*near))
      saying.fix =
          LintFix{fmt::format("rename to {}", in_quotes(*near)), rename_member(context.ds, own, *near)};
    context.add(rule, own, std::move(saying));
  }
}

/// Where it is clear what to do: clip as the argument says, unless gradient_clipping says something else.
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
  const auto near = nearest_word(type, known);
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
               "DeepSpeed stops: neither it nor torch.optim has it");
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
               "DeepSpeed stops: neither it nor torch.optim.lr_scheduler has it");
}

}  // namespace

void lint_arguments(LintContext& context) {
  check_optimizer(context);
  check_scheduler(context);
}

}  // namespace zplan
