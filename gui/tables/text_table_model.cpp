#include "gui/tables/text_table_model.h"

#include <QFont>
#include <algorithm>

#include "cli/report/report_text.h"
#include "gui/session/words.h"

namespace zplan::gui {

namespace {

int alignment(const Column& column) {
  return static_cast<int>((column.right ? Qt::AlignRight : Qt::AlignLeft) | Qt::AlignVCenter);
}

/// Returns a font for the tone. Fonts rather than colours, which not everybody can tell apart.
QVariant font_of(Tone tone) {
  QFont font;
  if (tone == Tone::plain) return {};
  font.setItalic(tone == Tone::faint);
  font.setBold(tone != Tone::faint);
  return font;
}

/// Two lines, as the columns are narrow.
std::string heading_of(const zplan::Column& column) {
  return column.unit.empty() ? column.heading : column.heading + "\n" + column.unit;
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
  const QString text = qt(table_.rows[row].cells[column]);
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
  return qt(column.unit.empty() ? column.heading : column.heading + ", " + column.unit);
}

void StrategiesModel::show(const PlannedPtr& planned) {
  Table now = planned ? strategies_table(report_of(*planned), 0) : Table{};
  const bool same_shape =
      now.rows.size() == table().rows.size() && now.columns.size() == table().columns.size();
  const bool same_headings = std::ranges::equal(now.columns, table().columns, {}, heading_of, heading_of);
  if (!same_shape) beginResetModel();
  planned_ = planned;
  set_table(std::move(now));
  if (!same_shape) {
    endResetModel();
  } else if (rowCount() > 0) {
    Q_EMIT dataChanged(index(0, 0), index(rowCount() - 1, columnCount() - 1));
    if (!same_headings) Q_EMIT headerDataChanged(Qt::Horizontal, 0, columnCount() - 1);
  }
}

QVariant StrategiesModel::data(const QModelIndex& index, int role) const {
  if (!checkIndex(index, CheckIndexOption::IndexIsValid)) return {};
  const auto row = static_cast<std::size_t>(index.row()), column = static_cast<std::size_t>(index.column());
  const Plan& plan = planned_->answer.plans[row];
  const QString text = qt(table().rows[row].cells[column]).trimmed();
  switch (role) {
    case Qt::DisplayRole: return text;
    case Qt::FontRole: {
      QFont font;
      font.setBold(row == planned_->shown);
      font.setItalic(planned_->draft && row != planned_->shown);
      return font;
    }
    case Qt::ToolTipRole: {
      QStringList why;
      for (const std::string& each : plan.why) why << qt(each);
      return why.join(QLatin1Char('\n'));
    }
    case Qt::AccessibleTextRole: {
      const QString heading = qt(heading_of(table().columns[column])).simplified();
      return QStringLiteral("%1, %2: %3").arg(qt(plan.id()), heading, text);
    }
    case IdRole: return qt(plan.id());
    case ShownRole: return row == planned_->shown;
    case Qt::TextAlignmentRole: return TextTableModel::data(index, role);
    default: return {};
  }
}

QVariant StrategiesModel::headerData(int section, Qt::Orientation orientation, int role) const {
  if (orientation != Qt::Horizontal || section < 0 || section >= columnCount()) return {};
  if (role == Qt::DisplayRole) return qt(heading_of(table().columns[static_cast<std::size_t>(section)]));
  return TextTableModel::headerData(section, orientation, role);
}

}  // namespace zplan::gui
