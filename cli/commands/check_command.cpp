// `zplan check`: predictions against measurements.

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "cli/commands/commands.h"
#include "cli/options/request.h"
#include "cli/report/check_report.h"
#include "models/base/error.h"
#include "models/base/json_reader.h"
#include "planner/check/judge.h"
#include "planner/check/readers/read.h"
#include "planner/question/work.h"
#include "planner/search/candidates.h"

namespace zplan {

namespace {

namespace fs = std::filesystem;
using check::Case;

/// Regular files below a folder, by path; hidden ones are not the user's to measure with.
std::vector<std::string> files_below(const std::string& folder) {
  std::vector<std::string> files;
  std::error_code error;
  for (fs::recursive_directory_iterator at(folder, error), end; !error && at != end; at.increment(error)) {
    const bool hidden = at->path().filename().string().starts_with(".");
    std::error_code ignored;  // of links that lead nowhere or in a ring
    if (hidden && at->is_directory(ignored)) at.disable_recursion_pending();
    if (!hidden && at->is_regular_file(ignored)) files.push_back(at->path().string());
  }
  if (error) throw InputError(folder, error.message(), "accepted: a folder that can be read");
  std::sort(files.begin(), files.end());
  return files;
}

/// A file that was named must be a measurement.
check::Document named_document(const std::string& path) {
  check::Document document = check::recognised(read_file(path), path);
  if (!document.format)
    throw InputError(path, "no measurement that zplan knows",
                     "accepted: published, recorded or measured runs, nccl-tests and DeepSpeed logs, memory "
                     "snapshots (docs/check.md)");
  return document;
}

/// Adds the measurements below a folder; other files get a note on `err`.
void add_folder(const std::string& folder, std::vector<check::Document>& documents, std::ostream& err) {
  const std::size_t before = documents.size();
  for (const std::string& path : files_below(folder)) {
    stop_if_asked();
    try {
      check::Document document = check::recognised(read_file(path), path);
      if (document.format)
        documents.push_back(std::move(document));
      else
        err << fmt::format("zplan: note: {} is passed over: no measurement\n", printable(path));
    } catch (const InputError& error) {
      err << fmt::format("zplan: note: {} is passed over: {}\n", printable(path), printable(error.found()));
    }
  }
  if (documents.size() == before)
    throw InputError(folder, "holds no measurement that zplan knows",
                     "accepted: files that docs/check.md names");
}

std::vector<check::Document> documents_of(const Options& options, std::ostream& err) {
  if (options.words.empty())
    throw InputError("check", "no file", "needed: files or folders of measurements (docs/check.md)");
  std::vector<check::Document> documents;
  for (const std::string& path : options.words) {
    std::error_code ignored;
    if (fs::is_directory(path, ignored))
      add_folder(path, documents, err);
    else
      documents.push_back(named_document(path));
  }
  check::join_command_lines(documents);
  return documents;
}

/// True if the option could fill in what the documents leave open: a whole plan, or the machines of an
/// nccl-tests log.
bool could_matter(const OptionSpec& spec, const std::vector<check::Document>& documents) {
  if (spec.group == "Output" || spec.group == "Check") return true;
  const bool of_machines = spec.name == "--gpu" || spec.name == "--node" || spec.name == "--network";
  return std::any_of(documents.begin(), documents.end(), [&](const check::Document& document) {
    return check::needs_plan(*document.format) ||
           (of_machines && check::leaves_machines_open(*document.format));
  });
}

/// An option that could not do anything would mislead.
void check_options_matter(const Options& options, const std::vector<check::Document>& documents) {
  for (const OptionSpec& spec : option_table())
    if (options.has(spec.name) && !could_matter(spec, documents))
      throw InputError(std::string(spec.name), "does nothing: these files say what was run",
                       "accepted: with a log or a memory snapshot");
}

/// The one plan that the options leave.
check::Setup setup_of(const Options& options, const Environment& environment) {
  const Question question = make_request(options, environment).question;
  if (!question.space.micro_batch_size)
    throw InputError("--micro-batch", "max with a log", "accepted: the size that was run");
  const Candidates found = candidates(question);
  if (found.legal.size() != 1)
    throw InputError("--zero",
                     fmt::format("a log is of one strategy, and {} are possible", found.legal.size()),
                     "needed: --zero, --tp and --offload with one value each");
  check::Setup setup{.model = question.model,
                     .training = question.training,
                     .strategy = found.legal.front(),
                     .cluster = question.cluster};
  return setup;
}

/// The plan that logs and snapshots are of; nothing where none of the documents needs one.
std::optional<check::Setup> plan_of(const std::vector<check::Document>& documents, const Options& options,
                                    const Environment& environment) {
  const bool asks = std::any_of(documents.begin(), documents.end(),
                                [](const check::Document& each) { return check::needs_plan(*each.format); });
  return asks ? std::optional(setup_of(options, environment)) : std::nullopt;
}

std::vector<check::SnapshotDifference> differences_of(const std::vector<check::Document>& documents,
                                                      const std::optional<check::Setup>& plan) {
  std::vector<check::SnapshotDifference> differences;
  for (const check::Document& each : documents) {
    if (each.format != check::Format::memory_snapshot || !plan) continue;
    stop_if_asked();
    const check::MemorySnapshot snapshot = check::memory_snapshot(JsonReader(each.json, each.source));
    differences.push_back(check::compare_snapshot(snapshot, *plan));
    differences.back().file = each.source;
  }
  return differences;
}

std::vector<Case> cases_of(const std::vector<check::Document>& documents, const Options& options,
                           const Environment& environment, const std::optional<check::Setup>& plan) {
  const HardwareProfiles hardware = with_user_profiles(user_hardware_folder(environment));
  const check::Given given{hardware, options.cluster, plan ? &*plan : nullptr};
  std::vector<Case> cases;
  for (const check::Document& document : documents) {
    stop_if_asked();
    for (Case& each : check::read_cases(document, given)) cases.push_back(std::move(each));
  }
  return cases;
}

/// Returns a sentence for each contradiction within a document.
std::vector<std::string> failures_of(const std::vector<Case>& cases) {
  std::vector<std::string> failures;
  for (const Case& each : cases)
    for (const std::string& flaw : each.flaws) failures.push_back(fmt::format("{}: {}", each.file, flaw));
  return failures;
}

}  // namespace

CheckReport check_report(const Options& options, const Environment& environment, std::ostream& err) {
  const std::vector<check::Document> documents = documents_of(options, err);
  check_options_matter(options, documents);
  const std::optional<check::Setup> plan = plan_of(documents, options, environment);
  const std::vector<Case> cases = cases_of(documents, options, environment, plan);
  for (const Case& each : cases)
    for (const std::string& note : each.notes)
      err << fmt::format("zplan: note: {} is {}\n", printable(each.file), printable(note));
  CheckReport report{.records = check::judge(cases),
                     .groups = {},
                     .subsets = {},
                     .slopes = {},
                     .fits = {},
                     .planners = {},
                     .speeds = {},
                     .failures = failures_of(cases),
                     .worst = options.worst,
                     .tolerance = options.tolerance,
                     .unit = options.unit};
  for (const check::Record& record : report.records)
    if (!record.failure.empty())
      report.failures.push_back(fmt::format("{}: {}", record.file, record.failure));
  report.groups = check::summarise(report.records);
  report.subsets = check::summarise_subsets(report.records, true);
  report.slopes = check::slopes(report.records);
  report.fits = check::fit_tally(report.records);
  report.planners = check::compare_planners(cases, report.records);
  if (options.fit_efficiency) report.speeds = check::fit_speeds(cases);
  report.snapshots = differences_of(documents, plan);
  return report;
}

int check_command(const Invocation& invocation) {
  const CheckReport report = check_report(invocation.options, invocation.environment, invocation.err);
  const OutputFormat format = invocation.options.format;
  invocation.out << (format == OutputFormat::json
                         ? json_text(check_json(report))
                         : in_format(check_document(report), format, invocation.style));
  return holds(report) ? kFits : kNothingFits;
}

}  // namespace zplan
