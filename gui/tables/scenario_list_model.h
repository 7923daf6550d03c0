#pragma once

#include <QAbstractListModel>

#include "gui/session/session.h"

namespace zplan::gui {

/// The session's scenarios in order: renamed, ticked and dragged here as in any list.
class ScenarioListModel : public QAbstractListModel {
  Q_OBJECT

 public:
  enum Roles {
    SummaryRole = Qt::UserRole,  ///< QString: the answer in a line, or why there is none
    ProblemRole,                 ///< bool: there is none
    FitsRole,                    ///< bool
    BaselineRole                 ///< bool: differences are from it
  };

  explicit ScenarioListModel(Session& session, QObject* parent = nullptr);

  [[nodiscard]] int rowCount(const QModelIndex& parent = {}) const override;
  [[nodiscard]] QVariant data(const QModelIndex& index, int role = Qt::DisplayRole) const override;
  bool setData(const QModelIndex& index, const QVariant& value, int role) override;
  [[nodiscard]] Qt::ItemFlags flags(const QModelIndex& index) const override;

  // Rows are dragged within the list only.
  [[nodiscard]] Qt::DropActions supportedDropActions() const override { return Qt::MoveAction; }
  [[nodiscard]] QStringList mimeTypes() const override;
  [[nodiscard]] QMimeData* mimeData(const QModelIndexList& indexes) const override;
  bool dropMimeData(const QMimeData* data, Qt::DropAction action, int row, int column,
                    const QModelIndex& parent) override;

 private:
  Session& session_;
};

}  // namespace zplan::gui
