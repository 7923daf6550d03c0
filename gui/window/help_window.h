#pragma once

#include <QDialog>

class QTextBrowser;

namespace zplan::gui {

/// docs/desktop.md, opened at what is asked about.
class HelpWindow : public QDialog {
  Q_OBJECT

 public:
  explicit HelpWindow(QWidget* parent = nullptr);
  /// Shows the window at the heading; at the top where there is no such.
  void show_topic(const QString& heading);
  [[nodiscard]] QString topic() const { return topic_; }  ///< that is shown; empty: the top

 private:
  QTextBrowser* text_;
  QString topic_;
};

/// The heading that is about a widget: its own or its next ancestor's property "help_topic".
[[nodiscard]] QString help_topic(const QWidget* widget);

}  // namespace zplan::gui
