#pragma once

#include <QFrame>

class QLabel;

namespace zplan::gui {

/// A message across the window. It stays until the user closes it or another one replaces it.
class MessageBar : public QFrame {
  Q_OBJECT

 public:
  explicit MessageBar(QWidget* parent = nullptr);
  void show_message(const QString& text);
  [[nodiscard]] QString text() const;

 private:
  QLabel* text_;
};

}  // namespace zplan::gui
