#pragma once

#include <QAbstractListModel>
#include <QStyledItemDelegate>

#include "gui/session/session.h"

namespace zplan::gui {

/// The session's scenarios in order. They can be renamed, ticked and dragged.
class ScenarioListModel : public QAbstractListModel {
  Q_OBJECT

 public:
  enum Roles {
    SummaryRole = Qt::UserRole,  ///< QString: the answer in one line, or why there is none
    ProblemRole,                 ///< bool: the question has no answer
    FitsRole,                    ///< bool
    BaselineRole                 ///< bool: differences refer to it
  };

  explicit ScenarioListModel(Session& session, QObject* parent = nullptr);

  [[nodiscard]] int rowCount(const QModelIndex& parent = {}) const override;
  [[nodiscard]] QVariant data(const QModelIndex& index, int role = Qt::DisplayRole) const override;
  bool setData(const QModelIndex& index, const QVariant& value, int role) override;
  [[nodiscard]] Qt::ItemFlags flags(const QModelIndex& index) const override;

  // Rows can be dragged within the list only.
  [[nodiscard]] Qt::DropActions supportedDropActions() const override { return Qt::MoveAction; }
  [[nodiscard]] QStringList mimeTypes() const override;
  [[nodiscard]] QMimeData* mimeData(const QModelIndexList& indexes) const override;
  bool dropMimeData(const QMimeData* data, Qt::DropAction action, int row, int column,
                    const QModelIndex& parent) override;

 private:
  Session& session_;
};

/// Draws a scenario in two lines: a tick box and its name, then its summary.
class ScenarioDelegate : public QStyledItemDelegate {
  Q_OBJECT

 public:
  using QStyledItemDelegate::QStyledItemDelegate;
  void paint(QPainter* painter, const QStyleOptionViewItem& option, const QModelIndex& index) const override;
  [[nodiscard]] QSize sizeHint(const QStyleOptionViewItem& option, const QModelIndex& index) const override;
  bool editorEvent(QEvent* event, QAbstractItemModel* model, const QStyleOptionViewItem& option,
                   const QModelIndex& index) override;
  void updateEditorGeometry(QWidget* editor, const QStyleOptionViewItem& option,
                            const QModelIndex& index) const override;
};

}  // namespace zplan::gui
