#pragma once

#include <QWidget>

#include "gui/session/planned.h"
#include "planner/plan/accuracy.h"

class QPlainTextEdit;
class QToolButton;

namespace zplan::gui {

/// Shows in one line which measurements validate the figures. A click or a key opens the full explanation.
class ValidationLine : public QWidget {
  Q_OBJECT

 public:
  explicit ValidationLine(QWidget* parent = nullptr);
  /// Shows the validation of figures of these kinds for the plan of a subject.
  void show_plan(const std::vector<AccuracyOf>& kinds, const Subject& subject);
  void clear();

 protected:
  void resizeEvent(QResizeEvent* event) override;

 private:
  void show_text(const QString& line, const QString& details);
  void set_open(bool open);
  void fit();

  QString line_;  ///< whole, also where there is less room
  QToolButton* toggle_;
  QPlainTextEdit* details_;
};

}  // namespace zplan::gui
