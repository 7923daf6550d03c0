// --snapshot, --trace and --html: files beside a report.

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "cli/commands/commands.h"
#include "cli/report/html_page.h"
#include "cli/report/memory_snapshot.h"
#include "cli/report/report.h"
#include "cli/report/trace_json.h"
#include "models/base/error.h"
#include "planner/plan/rank_history.h"
#include "planner/plan/step_trace.h"

namespace zplan {

namespace {

void write_and_say(const std::string& file, const std::string& text, std::string_view option,
                   const std::string& what, std::ostream& err) {
  if (file.empty()) return;
  try {
    write_file(file, text, option);
  } catch (const InputError& error) {  // unlike other files, none of these goes to stdout
    throw InputError(error.place(), error.found(), "accepted: a file in a folder that can be written");
  }
  err << fmt::format("zplan: wrote {}: {}\n", file, what);
}

}  // namespace

void write_exports(const Report& report, std::ostream& err) {
  const Options& options = report.options;
  if (options.snapshot.empty() && options.trace.empty() && options.html.empty()) return;
  const Plan& plan = leading_plan(report);
  const Question question = question_of(plan, report);
  if (!options.snapshot.empty()) {
    const RankHistory history = rank_history(question.model, question.cluster, question.training, plan);
    write_and_say(options.snapshot, memory_snapshot(history, plan), "--snapshot",
                  fmt::format("allocations of {}, for pytorch.org/memory_viz", plan.id()), err);
  }
  if (!options.trace.empty()) {
    const StepTrace trace = step_trace(question.model, question.cluster, question.training, plan);
    write_and_say(options.trace, trace_json(trace, plan, question).dump() + "\n", "--trace",
                  fmt::format("a step of {}, for ui.perfetto.dev", plan.id()), err);
  }
  if (!options.html.empty())
    write_and_say(options.html, html_page(report_json(report)), "--html", "the answer as a page", err);
}

}  // namespace zplan
