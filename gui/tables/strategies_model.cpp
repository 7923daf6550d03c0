#include "gui/tables/strategies_model.h"

#include <QFont>
#include <algorithm>

#include "cli/report/report_text.h"
#include "gui/session/words.h"

namespace zplan::gui {

namespace {

/// Two lines, as the columns are narrow.
std::string heading_of(const zplan::Column& column) {
  return column.unit.empty() ? column.heading : column.heading + "\n" + column.unit;
}

}  // namespace

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
