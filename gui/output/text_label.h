#pragma once

class QLabel;
class QWidget;

namespace zplan::gui {

/// Returns a label for sentences: plain text, wrapped, selectable with mouse and keyboard.
[[nodiscard]] QLabel* text_label(QWidget* parent = nullptr);

}  // namespace zplan::gui
