#pragma once
// Scenarios and strategies side by side as text: what `zplan compare FILE.zplan` prints of them.

#include <memory>

#include "cli/report/scenario_report.h"
#include "gui/session/planned.h"

class QMimeData;

namespace zplan::gui {

/// What stands in the comparison.
struct Compared {
  Subjects subjects;   ///< not empty
  int baseline{-1};    ///< what differences are from; -1: the first
  bool differences{};  ///< lines in which all are alike are left out
  std::string file{};  ///< of the scenarios; empty: they are not saved
};

/// Whether no figure is a first estimate any more.
[[nodiscard]] bool is_complete(const Compared& compared);

/// The same as the command line has it: subjects are scenarios then, with their own names and plans.
[[nodiscard]] ScenarioComparison scenario_comparison(const Compared& compared);

/// The table alone, aligned by blanks.
[[nodiscard]] QString comparison_text(const Compared& compared);
/// The table alone, for a page or a clipboard that takes formatted text.
[[nodiscard]] QString comparison_html(const Compared& compared);
/// Both, for the clipboard.
[[nodiscard]] std::unique_ptr<QMimeData> comparison_data(const Compared& compared);

}  // namespace zplan::gui
