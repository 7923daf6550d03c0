#pragma once

#include <QFont>

class QLabel;
class QWidget;

namespace zplan::gui {

/// Returns a label for sentences: plain text, wrapped, selectable with mouse and keyboard.
[[nodiscard]] QLabel* text_label(QWidget* parent = nullptr);

/// Returns the font in bold and `size` times as large.
[[nodiscard]] QFont heading_font(QFont font, double size);

}  // namespace zplan::gui
