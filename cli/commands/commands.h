#pragma once
// The commands. A command writes its answer and returns the exit status; it throws InputError for
// bad usage and bad input before it writes anything.

#include <ostream>
#include <string>
#include <vector>

#include "cli/base/environment.h"
#include "cli/document/text.h"
#include "cli/options/options.h"
#include "planner/search/explore.h"

namespace zplan {

struct CheckReport;
struct Report;

struct Invocation {
  const Options& options;
  const std::vector<std::string>& arguments;  ///< as they were typed, without the program's name
  const Environment& environment;
  Style style;
  std::ostream& out;
  std::ostream& err;
};

/// Writes a report of `plan`, `search` or `compare` and the files that --emit and --recipe-out name. Returns
/// kNothingFits where no plan fits.
[[nodiscard]] int write_report(Report report, const Invocation& invocation);

/// The files of --snapshot, --trace and --html.
enum class ExportedFile { snapshot, trace, page };

/// Returns the content of such a file: of a plan of the report, or a page of the whole report.
[[nodiscard]] std::string exported_text(ExportedFile file, const Plan& plan, const Report& report);

/// Writes the files that --snapshot, --trace and --html name, of the report's leading plan, and says so on
/// `err`.
void write_exports(const Report& report, std::ostream& err);

/// Plans every strategy that the options leave open. Returns kNothingFits where none fits.
[[nodiscard]] int plan_command(const Invocation& invocation);

/// Finds the fastest config that fits over everything that the options leave open. On a terminal a line on
/// `err` shows the progress. The first Ctrl-C ends the search with the best config so far.
[[nodiscard]] int search_command(const Invocation& invocation);

/// Compares the strategies and configs that the words name, or the scenarios of a file.
[[nodiscard]] int compare_command(const Invocation& invocation);

/// Answers --solve, or explains the message that --oom names (a text, a file, or "-" for stdin). Returns
/// kNothingFits where there is no answer, or no change makes the run fit.
[[nodiscard]] int fit_command(const Invocation& invocation);

/// Judges the predictions for the files and folders that the words name; names on `err` the files that hold
/// no measurement.
[[nodiscard]] CheckReport check_report(const Options& options, const Environment& environment,
                                       std::ostream& err);

/// Prints check_report(). Returns kNothingFits where --tolerance does not hold.
[[nodiscard]] int check_command(const Invocation& invocation);

/// Checks the DeepSpeed configs that the words name, and repairs them where --fix or --emit says so. With
/// --emit - the repaired file goes to `out` and the report to `err`. Returns kNothingFits where errors
/// remain.
[[nodiscard]] int lint_command(const Invocation& invocation);

/// Lists, shows or searches the catalogue of models.
[[nodiscard]] int models_command(const Invocation& invocation);

/// Lists, shows or searches the catalogue of GPUs, nodes, networks and cloud shapes.
[[nodiscard]] int hardware_command(const Invocation& invocation);

/// Makes a GPU's profile of the measurements that the words name and writes it to --output, or to `out`.
[[nodiscard]] int hardware_import(const Invocation& invocation);

/// Asks the same question of each GPU or cloud shape that the words name. Returns kNothingFits where no plan
/// fits on any of them.
[[nodiscard]] int hardware_compare(const Invocation& invocation);

/// The first word of a catalogue command and the others as one text.
struct CatalogueAction {
  std::string verb;  ///< "list", "show", "search", of hardware "instances"
  std::string text;  ///< empty for "list" alone
};
[[nodiscard]] CatalogueAction catalogue_action(const Options& options);

[[nodiscard]] bool is_program(const std::vector<std::string>& arguments);

/// Becomes the program that the first argument names. `zplan bench --profile FILE` waits for zplan-bench
/// instead and imports what it measured into FILE; returns the first exit status that is not 0.
[[nodiscard]] int run_program(const std::vector<std::string>& arguments, const Environment& environment,
                              std::ostream& out, std::ostream& err);

}  // namespace zplan
