#include "gui/tables/text_table_model.h"

#include <QFont>

namespace zplan::gui {

namespace {

int alignment(const Column& column) {
  return static_cast<int>((column.right ? Qt::AlignRight : Qt::AlignLeft) | Qt::AlignVCenter);
}

/// A tone is not a colour here, which not everybody sees.
QVariant font_of(Tone tone) {
  QFont font;
  if (tone == Tone::plain) return {};
  font.setItalic(tone == Tone::faint);
  font.setBold(tone != Tone::faint);
  return font;
}

}  // namespace

void TextTableModel::show(Table table, std::vector<QVariant> keys, QStringList hints) {
  beginResetModel();
  table_ = std::move(table);
  keys_ = std::move(keys);
  hints_ = std::move(hints);
  endResetModel();
}

int TextTableModel::rowCount(const QModelIndex& parent) const {
  return parent.isValid() ? 0 : static_cast<int>(table_.rows.size());
}

int TextTableModel::columnCount(const QModelIndex& parent) const {
  return parent.isValid() ? 0 : static_cast<int>(table_.columns.size());
}

QVariant TextTableModel::data(const QModelIndex& index, int role) const {
  if (!checkIndex(index, CheckIndexOption::IndexIsValid)) return {};
  const auto row = static_cast<std::size_t>(index.row()), column = static_cast<std::size_t>(index.column());
  const QString text = QString::fromStdString(table_.rows[row].cells[column]);
  switch (role) {
    case Qt::DisplayRole: return text;
    case Qt::ToolTipRole: return index.row() < hints_.size() ? hints_[index.row()] : text;
    case Qt::TextAlignmentRole: return alignment(table_.columns[column]);
    case Qt::FontRole: return font_of(table_.rows[row].tone);
    case SortRole: return row < keys_.size() ? keys_[row] : QVariant(text);
    default: return {};
  }
}

QVariant TextTableModel::headerData(int section, Qt::Orientation orientation, int role) const {
  if (orientation == Qt::Vertical || section < 0 || section >= columnCount())
    return QAbstractTableModel::headerData(section, orientation, role);
  const Column& column = table_.columns[static_cast<std::size_t>(section)];
  if (role == Qt::TextAlignmentRole) return alignment(column);
  if (role != Qt::DisplayRole) return {};
  return QString::fromStdString(column.unit.empty() ? column.heading : column.heading + ", " + column.unit);
}

}  // namespace zplan::gui
