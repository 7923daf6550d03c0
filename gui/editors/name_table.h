#pragma once
// Names to pick from, with what is worth knowing of each: models, GPUs, cloud shapes, nodes, networks.

#include <QAbstractTableModel>
#include <QSortFilterProxyModel>
#include <functional>
#include <vector>

#include "cli/base/environment.h"

namespace zplan::gui {

class NameTable : public QAbstractTableModel {
  Q_OBJECT

 public:
  /// Role of all names that a row goes by.
  static constexpr int kNames = Qt::UserRole;
  struct Row {
    QString name;
    QStringList aliases;
    std::function<QStringList()> details;  ///< texts of the other columns, asked for when they are shown
  };

  NameTable(QStringList headings, std::vector<Row> rows, QObject* parent = nullptr);
  [[nodiscard]] int rowCount(const QModelIndex& parent = {}) const override;
  [[nodiscard]] int columnCount(const QModelIndex& parent = {}) const override;
  [[nodiscard]] QVariant data(const QModelIndex& index, int role = Qt::DisplayRole) const override;
  [[nodiscard]] QVariant headerData(int section, Qt::Orientation orientation,
                                    int role = Qt::DisplayRole) const override;

 private:
  [[nodiscard]] const QStringList& details(std::size_t row) const;

  QStringList headings_;
  std::vector<Row> rows_;
  mutable std::vector<QStringList> details_;  ///< of rows that were shown
};

/// The catalogue, and the user's own entries.
[[nodiscard]] NameTable* model_names(const Environment& environment, QObject* parent);
/// Built-in profiles and the user's.
[[nodiscard]] NameTable* gpu_names(const Environment& environment, QObject* parent);
[[nodiscard]] NameTable* instance_names(const Environment& environment, QObject* parent);
[[nodiscard]] NameTable* node_names(const Environment& environment, QObject* parent);
[[nodiscard]] NameTable* network_names(const Environment& environment, QObject* parent);

/// Rows of which one name has every word that is looked for, the likeliest first. Case and punctuation do not
/// count.
class NameFilter : public QSortFilterProxyModel {
  Q_OBJECT

 public:
  explicit NameFilter(NameTable* names, QObject* parent = nullptr);
  void look_for(const QString& words);

 protected:
  [[nodiscard]] bool filterAcceptsRow(int row, const QModelIndex& parent) const override;
  [[nodiscard]] bool lessThan(const QModelIndex& left, const QModelIndex& right) const override;

 private:
  [[nodiscard]] int distance(const QModelIndex& index) const;

  QStringList words_;  ///< folded
};

}  // namespace zplan::gui
