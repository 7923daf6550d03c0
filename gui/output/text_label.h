#pragma once

class QLabel;
class QWidget;

namespace zplan::gui {

/// For sentences: wrapped, as they are without markup, and to be selected with the mouse and the keyboard.
[[nodiscard]] QLabel* text_label(QWidget* parent = nullptr);

}  // namespace zplan::gui
