#pragma once
// What each command does, a file each; `plan`, `compare` and `search` are put together in run.cpp.

#include <ostream>
#include <string>
#include <vector>

#include "cli/document/text.h"
#include "cli/environment.h"
#include "cli/options/options.h"

namespace zplan {

struct Exploration;
struct Found;
struct Question;
struct Scope;
struct SearchSpace;

/// What `zplan search` varies: all that the options leave open.
[[nodiscard]] Scope search_scope(const Options& options, const SearchSpace& space);

/// The question with what the search chose, as a pinned plan would ask it.
[[nodiscard]] Question pinned_question(const Question& question, const Found& found);

/// Looks at everything that is left open. Says on `err` how far it is where that is a terminal and takes
/// long; on the first Ctrl-C it stops and keeps the best so far.
[[nodiscard]] Exploration search(const Question& question, const Scope& scope, const Environment& environment,
                                 std::ostream& err);

/// Writes the report to `out`; returns the exit status: 0 where there is an answer, 1 where nothing fits.
[[nodiscard]] int fit_command(const Options& options, const std::vector<std::string>& arguments,
                              const Environment& environment, const Style& style, std::ostream& out);

/// Reads --oom as a message, a file, or stdin ("-"). Returns the exit status: 0 where a change makes the run
/// fit, or only the message is explained; 1 where none does. Throws InputError where there is no message.
[[nodiscard]] int oom_command(const Options& options, const std::vector<std::string>& arguments,
                              const Environment& environment, const Style& style, std::ostream& out);

/// Whether `compare` is asked for a file of scenarios.
[[nodiscard]] bool names_scenarios(const Options& options);

/// 0 where every plan that is shown fits, else 1. Throws InputError where a file or a scenario of it cannot
/// be read or planned, naming its place, before anything is written.
[[nodiscard]] int scenario_command(const Options& options, const Environment& environment, const Style& style,
                                   std::ostream& out, std::ostream& err);

/// Reads the files of options.words, repairs them where --fix or --emit asks for it, and writes the report to
/// `out` (with --emit - the repaired file, and the report to `err`). Returns kNothingFits where errors
/// remain, kFits otherwise. Throws InputError for a file that cannot be read or is no JSON, before anything
/// is written.
[[nodiscard]] int lint_command(const Options& options, const Environment& environment, const Style& style,
                               std::ostream& out, std::ostream& err);

/// list (the default), show NAME, search WORDS; as a table, or JSON with --json. Throws InputError for other
/// words.
[[nodiscard]] std::string models_command(const Options& options, const Environment& environment,
                                         const Style& style);
[[nodiscard]] std::string hardware_command(const Options& options, const Environment& environment,
                                           const Style& style);

/// `zplan hardware import FILE…`: the profile that the files make, to --output or `out`; what was left out to
/// `err`. Throws InputError for files that are no measurement of collectives, or contradict themselves, and
/// for an output that cannot be written.
void hardware_import(const Options& options, const Environment& environment, std::ostream& out,
                     std::ostream& err);

/// `zplan hardware compare NAME NAME…`: the question on each GPU or cloud shape. Returns the exit status: 0
/// where some plan fits on some of them, else 1. Throws InputError for names that are not known, and for a
/// question that can be asked of none of them.
[[nodiscard]] int hardware_compare(const Options& options, const std::vector<std::string>& arguments,
                                   const Environment& environment, const Style& style, std::ostream& out);

/// The first word of a catalogue command and the others as one text.
struct CatalogueAction {
  std::string verb;  ///< "list", "show", "search", of hardware "instances"
  std::string text;  ///< empty for "list" alone
};
[[nodiscard]] CatalogueAction catalogue_action(const Options& options);

/// Whether the arguments begin with "bench".
[[nodiscard]] bool is_bench(const std::vector<std::string>& arguments);

/// Becomes zplan-bench. With --profile FILE it waits for it instead, and imports what it measured into that
/// file as `zplan hardware import` does; the exit status is then the first one that is not 0. Throws
/// InputError where zplan-bench is not there, or --profile is given without a file.
[[nodiscard]] int bench_command(const std::vector<std::string>& arguments, const Environment& environment,
                                std::ostream& out, std::ostream& err);

/// Whether the arguments begin with "gui".
[[nodiscard]] bool is_gui(const std::vector<std::string>& arguments);

/// Becomes zplan-gui with the words behind "gui". Throws InputError where that is not there.
[[noreturn]] void gui_command(const std::vector<std::string>& arguments);

}  // namespace zplan
