#pragma once
// Formats figures as the command line does.

#include <QString>

#include "gui/session/planned.h"
#include "models/base/format.h"
#include "planner/plan/plan.h"

namespace zplan {
struct Verdict;
}  // namespace zplan

namespace zplan::gui {

[[nodiscard]] QString memory_words(Bytes size, ByteUnit unit);  ///< "34.1 GiB"
/// Returns "fits", "does not fit" or "short of host" in the window's language.
[[nodiscard]] QString verdict_words(const Plan& plan);
/// Returns the verdict that `zplan` prints on the plan that a scenario shows, in the window's language.
[[nodiscard]] Verdict verdict_of(const Planned& planned);
/// Returns the name of a figure or a setting, English in reports, in the window's language.
[[nodiscard]] QString line_name(const QString& english);
[[nodiscard]] QString qt(const std::string& text);
/// Returns the text as it begins a sentence.
[[nodiscard]] QString capitalised(QString text);

}  // namespace zplan::gui
