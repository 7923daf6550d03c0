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
  try {
    write_file(file, text, option);
  } catch (const InputError& error) {  // unlike other files, none of these goes to stdout
    throw InputError(error.place(), error.found(), "accepted: a file in a folder that can be written");
  }
  err << fmt::format("zplan: wrote {}: {}\n", printable(file), what);
}

}  // namespace

std::string exported_text(ExportedFile file, const Plan& plan, const Report& report) {
  if (file == ExportedFile::page) return html_page(report_json(report));
  const Question question = question_of(plan, report);
  if (file == ExportedFile::snapshot)
    return memory_snapshot(rank_history(question.model, question.cluster, question.training, plan), plan);
  const StepTrace trace = step_trace(question.model, question.cluster, question.training, plan);
  return trace_json(trace, plan, question).dump() + "\n";
}

void write_exports(const Report& report, std::ostream& err) {
  const Options& options = report.options;
  const auto write = [&](const std::string& file, ExportedFile which, std::string_view option,
                         const std::string& what) {
    if (file.empty()) return;
    write_and_say(file, exported_text(which, leading_plan(report), report), option, what, err);
  };
  const std::string id = leading_plan(report).id();
  write(options.snapshot, ExportedFile::snapshot, "--snapshot",
        fmt::format("allocations of {}, for pytorch.org/memory_viz", id));
  write(options.trace, ExportedFile::trace, "--trace", fmt::format("a step of {}, for ui.perfetto.dev", id));
  write(options.html, ExportedFile::page, "--html", "the answer as a page");
}

}  // namespace zplan
