#pragma once
// Figures in words, by the command line's formatter.

#include <QString>

#include "models/base/format.h"
#include "planner/plan/plan.h"

namespace zplan::gui {

[[nodiscard]] QString memory_words(Bytes size, ByteUnit unit);  ///< "34.1 GiB"
/// "fits", "does not fit", "short of host" in the language of the window.
[[nodiscard]] QString verdict_words(const Plan& plan);
/// The name of a figure or a setting, English in reports, in the language of the window.
[[nodiscard]] QString line_name(const QString& english);
[[nodiscard]] QString qt(const std::string& text);

}  // namespace zplan::gui
