#pragma once

#include <QString>

#include "gui/session/planned.h"

namespace zplan::gui {

/// What the figures of a chart ("memory", "time", …) were validated against with the subject's framework,
/// method and GPU, or that nothing was measured there.
[[nodiscard]] QString accuracy_words(const QString& chart, const Subject& subject);

}  // namespace zplan::gui
