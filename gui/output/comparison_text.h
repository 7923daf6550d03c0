#pragma once
// Scenarios and strategies side by side as text: figures as lines, subjects as columns.

#include <string>

#include "cli/table.h"
#include "gui/session/planned.h"
#include "models/base/json_reader.h"

namespace zplan::gui {

/// What stands in the comparison.
struct Compared {
  Subjects subjects;   ///< not empty
  int baseline{-1};    ///< what differences are from; -1: none are shown
  bool differences{};  ///< lines in which all are alike are left out
};

/// Settings in which the subjects differ and every figure, each column's differences beside it.
[[nodiscard]] std::string comparison_text(const Compared& compared);
/// The same with differences in brackets.
[[nodiscard]] std::string comparison_markdown(const Compared& compared);
/// A line per figure under a line of names, as people read them; RFC 4180.
[[nodiscard]] std::string comparison_csv(const Compared& compared);
/// For a page or a clipboard that takes formatted text.
[[nodiscard]] QString comparison_html(const Compared& compared);

/// zplan.comparison/1: each subject with the whole report of its scenario. Throws InputError where a report
/// that was saved cannot be read any more.
[[nodiscard]] Json comparison_json(const Compared& compared);

/// The report of a scenario as `zplan --json` writes it; one that was saved as it was. Throws as above.
[[nodiscard]] Json report_of(const Planned& planned);

}  // namespace zplan::gui
