#include "gui/tables/strategies_model.h"

#include <QFont>

#include "cli/report_text.h"
#include "gui/session/words.h"

namespace zplan::gui {

void StrategiesModel::show(const PlannedPtr& planned) {
  Table table = planned ? strategies_table(planned->report(), 0) : Table{};
  const bool same_shape =
      table.rows.size() == table_.rows.size() && table.columns.size() == table_.columns.size();
  if (!same_shape) beginResetModel();
  planned_ = planned;
  table_ = std::move(table);
  if (!same_shape) {
    endResetModel();
  } else if (rowCount() > 0) {
    Q_EMIT dataChanged(index(0, 0), index(rowCount() - 1, columnCount() - 1));
    Q_EMIT headerDataChanged(Qt::Horizontal, 0, columnCount() - 1);
  }
}

int StrategiesModel::rowCount(const QModelIndex& parent) const {
  return parent.isValid() ? 0 : static_cast<int>(table_.rows.size());
}

int StrategiesModel::columnCount(const QModelIndex& parent) const {
  return parent.isValid() ? 0 : static_cast<int>(table_.columns.size());
}

QVariant StrategiesModel::data(const QModelIndex& index, int role) const {
  if (!checkIndex(index, CheckIndexOption::IndexIsValid)) return {};
  const auto row = static_cast<std::size_t>(index.row()), column = static_cast<std::size_t>(index.column());
  const Plan& plan = planned_->answer.plans[row];
  const QString text = qt(table_.rows[row].cells[column]).trimmed();
  const QString heading = headerData(index.column(), Qt::Horizontal).toString().simplified();
  switch (role) {
    case Qt::DisplayRole: return text;
    case Qt::TextAlignmentRole:
      return QVariant((table_.columns[column].right ? Qt::AlignRight : Qt::AlignLeft) | Qt::AlignVCenter);
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
    case Qt::AccessibleTextRole: return QStringLiteral("%1, %2: %3").arg(qt(plan.id()), heading, text);
    case IdRole: return qt(plan.id());
    case ShownRole: return row == planned_->shown;
    default: return {};
  }
}

QVariant StrategiesModel::headerData(int section, Qt::Orientation orientation, int role) const {
  if (orientation != Qt::Horizontal || section < 0 || section >= columnCount()) return {};
  const zplan::Column& column = table_.columns[static_cast<std::size_t>(section)];
  if (role == Qt::DisplayRole)
    return qt(column.unit.empty() ? column.heading : column.heading + "\n" + column.unit);
  if (role == Qt::TextAlignmentRole)
    return QVariant((column.right ? Qt::AlignRight : Qt::AlignLeft) | Qt::AlignVCenter);
  return {};
}

}  // namespace zplan::gui
