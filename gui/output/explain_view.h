#pragma once

#include <QSortFilterProxyModel>
#include <QWidget>

#include "gui/output/explain_model.h"
#include "gui/session/planned.h"

class QLabel;
class QLineEdit;
class QTextBrowser;
class QTreeView;

namespace zplan::gui {

/// Every figure of a plan with formula and source, to look through and to search; made where it can be seen,
/// and not before.
class ExplainView : public QWidget {
  Q_OBJECT

 public:
  explicit ExplainView(QWidget* parent = nullptr);
  void show_subject(const Subject& subject);
  void clear();

  [[nodiscard]] const ExplainModel& model() const { return model_; }
  /// What the tree shows of it.
  [[nodiscard]] const QAbstractItemModel& shown() const { return found_; }
  void search(const QString& words);
  /// Current line with its figure, formula and source, for the clipboard.
  void copy_current() const;

 protected:
  void showEvent(QShowEvent* event) override;

 private:
  void refresh();
  void show_details();
  [[nodiscard]] QString introduction() const;
  void expand();
  /// A figure of one plan and its like of another.
  struct Place {
    int section{-1};
    QString name;
  };
  [[nodiscard]] Place current() const;
  void set_current(const Place& place);

  Subject subject_;
  bool stale_{};
  ExplainModel model_;
  QSortFilterProxyModel found_;
  QLabel* title_{};
  QLineEdit* search_{};
  QTreeView* tree_{};
  QTextBrowser* details_{};
};

}  // namespace zplan::gui
