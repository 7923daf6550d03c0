// `zplan plan` and `zplan search`, and how a report is written.

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <csignal>
#include <mutex>
#include <nlohmann/json.hpp>
#include <optional>

#include "cli/commands/commands.h"
#include "cli/options/open_levers.h"
#include "cli/options/request.h"
#include "cli/report/brief.h"
#include "cli/report/report.h"
#include "cli/report/report_text.h"
#include "cli/report/script_settings.h"
#include "cli/scenarios/scenario_plan.h"
#include "models/base/json_reader.h"
#include "planner/plan/plan.h"
#include "planner/question/framework.h"
#include "planner/search/candidates.h"
#include "planner/search/explore.h"
#include "planner/search/levers.h"

namespace zplan {

namespace {

/// Set by Ctrl-C, which reaches nothing but what is static.
std::atomic<bool> interrupted{false};
static_assert(std::atomic<bool>::is_always_lock_free);

/// Ctrl-C once asks for the best so far; a second one ends the program as ever.
class CatchInterrupt {
 public:
  CatchInterrupt() {
    interrupted = false;
    before_ = std::signal(SIGINT, [](int) {
      interrupted = true;
      std::signal(SIGINT, SIG_DFL);
    });
  }
  ~CatchInterrupt() { std::signal(SIGINT, before_); }
  CatchInterrupt(const CatchInterrupt&) = delete;
  CatchInterrupt& operator=(const CatchInterrupt&) = delete;

 private:
  void (*before_)(int);
};

/// One line that is written over, on a terminal, from half a second on.
class ProgressLine {
 public:
  ProgressLine(std::ostream& err, bool shown) : err_(err), shown_(shown) {}
  ~ProgressLine() {
    if (written_) err_ << "\r\x1b[K" << std::flush;
  }
  ProgressLine(const ProgressLine&) = delete;
  ProgressLine& operator=(const ProgressLine&) = delete;
  void tell(std::size_t done, std::size_t all) {
    write([&] { return fmt::format("{} of {} families looked at", done, all); });
  }
  void tell(const LayoutCounts& counts, double fastest) {
    write([&] {
      return fmt::format("{} of {} layouts left out, {} simulated, fastest {} tokens/s",
                         counts.too_large + counts.slower, counts.seen, counts.simulated,
                         group_digits(static_cast<std::int64_t>(fastest)));
    });
  }

 private:
  template <class Text>
  void write(const Text& text) {
    if (!shown_ || Clock::now() - began_ < std::chrono::milliseconds(500)) return;
    const std::lock_guard lock(mutex_);
    written_ = true;
    err_ << fmt::format("\r\x1b[Kzplan: {} (Ctrl-C keeps the best so far)", text()) << std::flush;
  }

  using Clock = std::chrono::steady_clock;
  std::ostream& err_;
  bool shown_, written_{};
  std::mutex mutex_;
  Clock::time_point began_{Clock::now()};
};

Question pinned_question(const Question& question, const Found& found) {
  Question pinned = question;
  const Strategy& s = found.plan.strategy;
  if (pinned.training.framework != found.name.framework)
    pinned.training = with_framework(pinned.training, found.name.framework);
  SearchSpace& space = pinned.space;
  space = pinned_to({}, s);
  space.micro_batch_size = s.micro_batch_size;
  space.gradient_accumulation_steps = s.gradient_accumulation_steps;
  space.buckets = found.name.buckets.value_or(question.space.buckets);
  return pinned;
}

Exploration search(const Question& question, const Scope& scope, const Environment& environment,
                   std::ostream& err) {
  std::optional<CatchInterrupt> caught;
  if (environment.owns_process) caught.emplace();
  ProgressLine progress(err, environment.errors_are_terminal);
  Exploration found =
      explore(question, scope,
              {.stop = caught ? &interrupted : nullptr,
               .progress = [&progress](std::size_t done, std::size_t all) { progress.tell(done, all); },
               .layouts = [&progress](const LayoutCounts& counts,
                                      double fastest) { progress.tell(counts, fastest); }});
  return found;
}

/// True if the output has room for more than the plans' figures.
bool shows_sentences(const Options& options) {
  return options.format != OutputFormat::csv && options.emit != "-";
}

/// Returns the advice where the report shows it.
std::optional<Advice> shown_advice(const Invocation& invocation, const Question& question) {
  const Options& options = invocation.options;
  if (options.no_advice || !shows_sentences(options)) return std::nullopt;
  return advice_for(options, invocation.arguments, question, invocation.environment);
}

/// --emit FILE: writes the file and says so.
void emit_config(const Report& report, const Plan& plan, std::ostream& err) {
  const std::string text = config_text(plan, report);
  const std::string& file = report.options.emit;
  if (text.empty()) {
    err << fmt::format("zplan: {} needs no config: {} is not written\n", plan.id(), printable(file));
    return;
  }
  write_file(file, text, "--emit");
  err << fmt::format("zplan: wrote {} for {}\n", printable(file), plan.id());
  for (const std::string& each : script_calls(script_of(plan, report), report.question.training.objective))
    err << fmt::format("  {}\n", each);
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

}  // namespace

int write_report(Report report, const Invocation& invocation) {
  const auto& [options, arguments, environment, style, out, err] = invocation;
  report.details = details_of(report);
  write_exports(report, err);
  if (options.emit == "-") return emit_to_stdout(report, style, out, err);
  write_recipe(report, out, err);
  if (options.recipe_out == "-") return report.answer.fits() ? kFits : kNothingFits;
  const OutputFormat format = options.format;
  const bool is_brief =
      format == OutputFormat::text && !options.verbose && !options.explain && !options.slide;
  const std::string text =
      format == OutputFormat::json ? json_text(report_json(report))
      : is_brief
          ? text_of(brief_document(report, {.width = style.width, .unicode = environment.unicode}), style)
          : in_format(report_document(report, style.width), format, style);
  const Plan* plan = report.answer.recommended();
  if (!options.emit.empty()) {
    if (plan != nullptr)
      emit_config(report, *plan, err);
    else
      err << fmt::format("zplan: nothing fits: {} is not written\n", printable(options.emit));
  }
  out << text;
  return plan != nullptr ? kFits : kNothingFits;
}

int plan_command(const Invocation& invocation) {
  const Request request = make_request(invocation.options, invocation.environment);
  Answer result = answer(request.question);
  result.warnings.insert(result.warnings.begin(), request.warnings.begin(), request.warnings.end());
  const std::optional<Advice> advice = shown_advice(invocation, request.question);
  Report report{.question = request.question,
                .answer = result,
                .options = invocation.options,
                .arguments = invocation.arguments,
                .advice = advice ? &*advice : nullptr};
  if (shows_sentences(invocation.options))
    report.reaches = trainer_reaches(invocation.options, request.question, result, invocation.environment);
  return write_report(std::move(report), invocation);
}

/// Reports by how much the plain strategies miss where no config fits.
int search_command(const Invocation& invocation) {
  const Request request = make_request(invocation.options, invocation.environment);
  const Scope scope = search_scope(invocation.options, request.question.space);
  const Exploration found = search(request.question, scope, invocation.environment, invocation.err);
  if (found.stopped && found.best.empty()) {
    invocation.err << "zplan: stopped: nothing that was looked at so far fits\n";
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
  if (found.stopped) invocation.err << "zplan: stopped: the best of what was looked at so far\n";
  // Frameworks with stages have no levers beside what was searched.
  const bool has_stages =
      std::ranges::any_of(scope.frameworks, [](Framework each) { return spec(each).has_stages; });
  const std::optional<Advice> advice =
      found.stopped || has_stages ? std::nullopt : shown_advice(invocation, request.question);
  return write_report({.question = question,
                       .answer = result,
                       .options = invocation.options,
                       .arguments = invocation.arguments,
                       .found = &found,
                       .advice = advice ? &*advice : nullptr},
                      invocation);
}

}  // namespace zplan
