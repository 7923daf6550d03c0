#pragma once
// The top of the window: the first line that `zplan` prints, of the current scenario.

#include <QTimer>
#include <QWidget>

#include "gui/session/session.h"

class QLabel;
class QToolButton;

namespace zplan::gui {

/// Shows whether the current scenario's plan fits, what it needs of what is available and how fast it is;
/// below it what is planned, and what would fit instead.
class VerdictBar : public QWidget {
  Q_OBJECT

 public:
  explicit VerdictBar(Session& session, QWidget* parent = nullptr);

 protected:
  void resizeEvent(QResizeEvent* event) override;

 private:
  void later();
  void refresh();
  void fit();
  void add_alternative();

  Session& session_;
  QTimer soon_;
  QLabel *sign_, *statement_, *about_;
  QToolButton* take_;  ///< adds what would fit instead
};

}  // namespace zplan::gui
