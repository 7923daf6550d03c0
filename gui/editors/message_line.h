#pragma once
// An icon and a sentence: what is wrong, or a remark. Takes no place where there is nothing to say.

#include <QLabel>

namespace zplan::gui {

class MessageLine : public QWidget {
  Q_OBJECT

 public:
  explicit MessageLine(QWidget* parent = nullptr);
  void warn(const QString& text);
  void remark(const QString& text);
  [[nodiscard]] QString text() const { return text_->text(); }

 private:
  void show_text(const QString& text, bool is_warning);

  QLabel* icon_;
  QLabel* text_;
  bool is_warning_{};
};

}  // namespace zplan::gui
