#pragma once

#include <QDialog>

class QTextBrowser;

namespace zplan::gui {

/// Shows docs/desktop.md.
class HelpWindow : public QDialog {
  Q_OBJECT

 public:
  explicit HelpWindow(QWidget* parent = nullptr);
  /// Shows the window at a heading; at the top if there is no such heading.
  void show_topic(const QString& heading);
  [[nodiscard]] QString topic() const { return topic_; }  ///< the heading shown; empty: the top

 private:
  QTextBrowser* text_;
  QString topic_;
};

/// Returns the heading about a widget: the property "help_topic" of it or its closest ancestor.
[[nodiscard]] QString help_topic(const QWidget* widget);

}  // namespace zplan::gui
