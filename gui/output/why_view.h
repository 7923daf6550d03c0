#pragma once

#include <QWidget>

#include "gui/session/planned.h"

class QTextBrowser;

namespace zplan::gui {

/// "Fits: zero3 needs 34.1 GiB of 39.1 GiB available per GPU".
[[nodiscard]] QString headline_of(const Planned& planned);

/// Why the shown plan fits or does not, what others lack, what cannot be, what was assumed and warned of:
/// what `zplan` says above and below its table.
class WhyView : public QWidget {
  Q_OBJECT
  Q_PROPERTY(QString headline READ headline NOTIFY headline_changed)

 public:
  explicit WhyView(QWidget* parent = nullptr);
  void show_plan(PlannedPtr planned);
  /// Of the plan that is shown, whether this can be seen or not; empty without one.
  [[nodiscard]] const QString& headline() const { return headline_; }
  /// All that it says, without marks; what is not made yet is made for it.
  [[nodiscard]] QString text();

 Q_SIGNALS:
  void headline_changed(const QString& headline);

 protected:
  void showEvent(QShowEvent* event) override;
  void changeEvent(QEvent* event) override;

 private:
  void refresh();

  PlannedPtr planned_;
  bool stale_{};
  QString headline_;
  QTextBrowser* page_{};
};

}  // namespace zplan::gui
