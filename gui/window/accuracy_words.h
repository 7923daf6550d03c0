#pragma once

#include <QString>

#include "gui/session/planned.h"

namespace zplan::gui {

/// What the figures of a chart ("memory", "time", …) were checked against, for the subject's kind of
/// training.
[[nodiscard]] QString accuracy_words(const QString& chart, const Subject& subject);

}  // namespace zplan::gui
