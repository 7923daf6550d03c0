#pragma once

#include <QStyledItemDelegate>

namespace zplan::gui {

/// A line above every row whose section is another than that of the row before.
class SectionDelegate : public QStyledItemDelegate {
  Q_OBJECT

 public:
  SectionDelegate(int section_role, QObject* parent) : QStyledItemDelegate(parent), role_(section_role) {}
  void paint(QPainter* painter, const QStyleOptionViewItem& option, const QModelIndex& index) const override;

 private:
  int role_;
};

}  // namespace zplan::gui
