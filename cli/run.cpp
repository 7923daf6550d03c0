#include "cli/run.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "cli/commands/check_command.h"
#include "cli/commands/commands.h"
#include "cli/commands/compare.h"
#include "cli/options/help.h"
#include "cli/options/options.h"
#include "cli/options/recipe_option.h"
#include "cli/options/request.h"
#include "cli/report/report.h"
#include "cli/report/report_text.h"
#include "models/base/json_reader.h"
#include "planner/search/explore.h"

namespace zplan {

namespace {

Style style_of(const Options& options, const Environment& environment) {
  const bool capable = environment.output_is_terminal && environment.terminal != "dumb";
  return {.width = output_width(environment), .color = capable && !environment.no_color && !options.no_color};
}

/// --emit FILE: writes the file and says so.
void emit_config(const Report& report, const Plan& plan, std::ostream& err) {
  const std::string text = config_text(plan, report);
  const std::string& file = report.options.emit;
  if (text.empty()) {
    err << fmt::format("zplan: {} needs no config: {} is not written\n", plan.id(), file);
    return;
  }
  write_file(file, text, "--emit");
  err << fmt::format("zplan: wrote {} for {}\n", file, plan.id());
}

/// --emit -: stdout is the configuration's alone; where there is none, the verdict goes to stderr.
int emit_to_stdout(const Report& report, const Style& style, std::ostream& out, std::ostream& err) {
  const Plan* plan = report.answer.recommended();
  if (plan == nullptr) {
    Document verdict;
    add_verdict(verdict, report);
    err << text_of(verdict, style);
    return kNothingFits;
  }
  out << config_text(*plan, report);
  return kFits;
}

/// A comparison and a search say nothing of expert parallelism beside them.
AnswerDetails details_of(const Report& report) {
  const OutputFormat format = report.options.emit == "-" ? OutputFormat::text : report.options.format;
  const bool plain = report.comparison == nullptr && report.found == nullptr;
  return plain || format == OutputFormat::json ? details_for(report.question, report.answer, format)
                                               : AnswerDetails{};
}

int deliver(Report report, const Style& style, std::ostream& out, std::ostream& err) {
  report.details = details_of(report);
  if (report.options.emit == "-") return emit_to_stdout(report, style, out, err);
  write_recipe(report, out, err);
  if (report.options.recipe_out == "-") return report.answer.fits() ? kFits : kNothingFits;
  const OutputFormat format = report.options.format;
  const std::string text = format == OutputFormat::json
                               ? json_text(report_json(report))
                               : in_format(report_document(report, style.width), format, style);
  const Plan* plan = report.answer.recommended();
  if (!report.options.emit.empty()) {
    if (plan != nullptr)
      emit_config(report, *plan, err);
    else
      err << fmt::format("zplan: nothing fits: {} is not written\n", report.options.emit);
  }
  out << text;
  return plan != nullptr ? kFits : kNothingFits;
}

int run_planning(const Options& options, const std::vector<std::string>& arguments,
                 const Environment& environment, std::ostream& out, std::ostream& err) {
  const Request request = make_request(options, environment);
  const Question& question = request.question;
  const Style style = style_of(options, environment);
  if (options.command == Command::compare) {
    const Comparison result = compare(question, options);
    return deliver({question, result.answer, options, arguments, &result}, style, out, err);
  }
  Answer result = answer(question);
  result.warnings.insert(result.warnings.begin(), request.warnings.begin(), request.warnings.end());
  return deliver({question, result, options, arguments}, style, out, err);
}

/// Where nothing fits the plain strategies say by how much they miss.
int run_search(const Options& options, const std::vector<std::string>& arguments,
               const Environment& environment, std::ostream& out, std::ostream& err) {
  const Request request = make_request(options, environment);
  const Scope scope = search_scope(options, request.question.space);
  const Exploration found = search(request.question, scope, environment, err);
  if (found.stopped && found.best.empty()) {
    err << "zplan: stopped: nothing that was looked at so far fits\n";
    return kInterrupted;
  }
  Question question = request.question;
  Answer result;
  if (found.best.empty()) {
    result = answer(question);
    result.alternative.reset();
  } else {
    question = pinned_question(question, found.best.front());
    result.plans = {found.best.front().plan};
  }
  if (found.stopped) err << "zplan: stopped: the best of what was looked at so far\n";
  return deliver({question, result, options, arguments, nullptr, &found}, style_of(options, environment), out,
                 err);
}

int run_completion(const Options& options, std::ostream& out) {
  if (options.words.size() != 1)
    throw InputError("completion", fmt::format("{} words", options.words.size()),
                     "accepted: bash, zsh or fish");
  out << completion_script(options.words.front());
  return kFits;
}

}  // namespace

int run(const std::vector<std::string>& arguments, const Environment& environment, std::ostream& out,
        std::ostream& err) {
  if (is_bench(arguments)) return bench_command(arguments, environment, out, err);
  if (is_gui(arguments)) gui_command(arguments);
  const Options typed = parse_options(arguments);
  if (typed.help) return out << help_text(output_width(environment)), kFits;
  if (typed.version) return out << version_text(), kFits;
  const Options options = with_recipes(typed);
  const Style style = style_of(options, environment);
  switch (options.command) {
    case Command::compare:
      if (names_scenarios(options)) return scenario_command(options, environment, style, out, err);
      [[fallthrough]];
    case Command::plan: return run_planning(options, arguments, environment, out, err);
    case Command::search: return run_search(options, arguments, environment, out, err);
    case Command::fit: return fit_command(options, arguments, environment, style, out);
    case Command::check: return check_command(options, environment, style, out, err);
    case Command::lint: return lint_command(options, environment, style, out, err);
    case Command::bench:
    case Command::gui: break;  // only where an option stands in front of it
    case Command::models: return out << models_command(options, environment, style), kFits;
    case Command::hardware: return out << hardware_command(options, environment, style), kFits;
    case Command::hardware_compare: return hardware_compare(options, arguments, environment, style, out);
    case Command::hardware_import: return hardware_import(options, environment, out, err), kFits;
    case Command::completion: return run_completion(options, out);
  }
  const std::string command(to_name(options.command));
  throw InputError(command, "behind an option",
                   fmt::format("accepted: zplan {}, then its own options", command));
}

}  // namespace zplan
