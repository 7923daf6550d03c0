#pragma once

#include <QAbstractItemModel>
#include <QSortFilterProxyModel>
#include <QWidget>

#include "cli/report/explain.h"
#include "gui/session/planned.h"

class QLabel;
class QLineEdit;
class QTextBrowser;
class QTreeView;

namespace zplan::gui {

/// The output of `--explain` as a tree of sections and figures. The first section holds the symbols of
/// formulas.
class ExplainModel : public QAbstractItemModel {
  Q_OBJECT

 public:
  enum Column { name, value, formula, source, column_count };
  enum Roles {
    NumberRole = Qt::UserRole,  ///< double: a figure in bytes, seconds or the unit of its section
  };

  using QAbstractItemModel::QAbstractItemModel;
  void show(Explanation explanation);
  [[nodiscard]] const Explanation& explanation() const { return explanation_; }

  [[nodiscard]] QModelIndex index(int row, int column, const QModelIndex& parent = {}) const override;
  [[nodiscard]] QModelIndex parent(const QModelIndex& index) const override;
  [[nodiscard]] int rowCount(const QModelIndex& parent = {}) const override;
  [[nodiscard]] int columnCount(const QModelIndex& parent = {}) const override;
  [[nodiscard]] QVariant data(const QModelIndex& index, int role = Qt::DisplayRole) const override;
  [[nodiscard]] QVariant headerData(int section, Qt::Orientation orientation,
                                    int role = Qt::DisplayRole) const override;

 private:
  [[nodiscard]] QString text(std::size_t section, std::size_t row, int column) const;
  Explanation explanation_;
};

/// Shows every figure of a plan with formula and source, with a search. Made only when it is visible.
class ExplainView : public QWidget {
  Q_OBJECT

 public:
  explicit ExplainView(QWidget* parent = nullptr);
  void show_subject(const Subject& subject);
  void clear();

  [[nodiscard]] const ExplainModel& model() const { return model_; }
  /// Returns the rows that the search leaves.
  [[nodiscard]] const QAbstractItemModel& shown() const { return found_; }
  void search(const QString& words);
  /// Copies the current row: name, value, formula and source.
  void copy_current() const;

 protected:
  void showEvent(QShowEvent* event) override;

 private:
  void refresh();
  void show_details();
  [[nodiscard]] QString introduction() const;
  void expand();
  /// A figure, by section and name: valid for other plans, too.
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
