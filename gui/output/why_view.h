#pragma once

#include <QWidget>

#include "gui/session/planned.h"

class QTextBrowser;

namespace zplan::gui {

/// Returns the statement of the verdict: "Fits with zero3, 34.1 of 39.1 GiB per GPU, 2.46 s a step, …".
[[nodiscard]] QString headline_of(const Planned& planned);

/// Shows the sentences that `zplan` prints above and below its table: why the plan fits or not, what others
/// lack, what is impossible, assumptions and warnings.
class WhyView : public QWidget {
  Q_OBJECT
  Q_PROPERTY(QString headline READ headline NOTIFY headline_changed)

 public:
  explicit WhyView(QWidget* parent = nullptr);
  void show_plan(PlannedPtr planned);
  /// Returns the headline of the plan, also while the widget is hidden; empty without a plan.
  [[nodiscard]] const QString& headline() const { return headline_; }
  /// Returns the whole text without markup.
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
