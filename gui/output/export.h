#pragma once
// Text that is copied and saved: plans and comparisons as the command line prints them.

#include <QByteArray>
#include <QString>
#include <memory>

#include "cli/base/environment.h"
#include "cli/commands/commands.h"
#include "cli/report/scenario_report.h"
#include "gui/session/planned.h"

class QMimeData;

namespace zplan::gui {

/// The contents of the comparison.
struct Compared {
  Subjects subjects;   ///< not empty
  int baseline{-1};    ///< index of the subject that differences refer to; -1: the first
  bool differences{};  ///< rows in which all subjects are equal are left out
  std::string file{};  ///< file of the scenarios; empty: not saved
};

/// True if no figure is a first estimate.
[[nodiscard]] bool is_complete(const Compared& compared);

/// Returns the comparison in the command line's form, in which every subject is a scenario.
[[nodiscard]] ScenarioComparison scenario_comparison(const Compared& compared);

/// Returns the table alone, aligned with blanks.
[[nodiscard]] QString comparison_text(const Compared& compared);
/// Returns the table alone as HTML.
[[nodiscard]] QString comparison_html(const Compared& compared);
/// Returns both for the clipboard.
[[nodiscard]] std::unique_ptr<QMimeData> comparison_data(const Compared& compared);

enum class TextFormat { plain, markdown, csv, json };

/// Returns what `zplan` prints for the scenario, with --verbose, --markdown, --csv or --json by the format,
/// to the byte. The advice of text and JSON is searched for meanwhile, for about half a second. For a saved
/// report, returns its JSON unchanged and, in the other formats, the figures that it has. Throws InputError
/// if such a report is no longer readable.
[[nodiscard]] QByteArray report_as(TextFormat format, const Planned& planned, const Environment& environment);
/// Returns the file that `zplan` writes with --snapshot, --trace or --html, to the byte, of the plan that the
/// scenario shows. The advice of the page is searched for meanwhile.
[[nodiscard]] QByteArray plan_file(ExportedFile file, const Planned& planned, const Environment& environment);

/// Returns what `zplan compare FILE.zplan` prints in that format; a single scenario as report_as does. Throws
/// InputError as report_as does.
[[nodiscard]] QByteArray comparison_as(TextFormat format, const Compared& compared,
                                       const Environment& environment);

/// Returns the arguments with which `zplan` makes exactly this plan of a scenario; those of the scenario if
/// the plan is its recommended one.
[[nodiscard]] std::vector<std::string> pinned_arguments(const Subject& subject);

/// Returns "zplan --model 8B …" for a shell; empty for a saved report.
[[nodiscard]] QString copy_as_command(const Scenario& scenario);
/// Returns the same with the strategy pinned, unless it is the recommended one.
[[nodiscard]] QString copy_as_command(const Subject& subject);

/// Writes the whole file or, on failure, nothing, as the command line writes files. Returns an error that names
/// the file; empty on success.
[[nodiscard]] QString write_whole_file(const QString& path, const QByteArray& content);

}  // namespace zplan::gui
