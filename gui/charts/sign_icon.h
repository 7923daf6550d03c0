#pragma once

#include <QIcon>
#include <QPainter>

namespace zplan::gui {

/// Draws a sign into a box in one colour.
using SignPainter = void (*)(QPainter& painter, const QRectF& box, const QColor& color);

/// A sign as an icon: in the colour of text on a button, as it is when it is drawn, and as sharp as the
/// screen.
[[nodiscard]] QIcon sign_icon(SignPainter sign);

}  // namespace zplan::gui
