#include "gui/plan_table_model.h"

#include <fmt/format.h>

#include "planner/search/why.h"

namespace zplan::gui {

namespace {

QString from(const std::string& text) { return QString::fromStdString(text); }

QString joined(const std::vector<std::string>& sentences) {
  QStringList lines;
  for (const std::string& sentence : sentences) lines << from(sentence);
  return lines.join('\n');
}

}  // namespace

void PlanTableModel::show(Question question, Answer answer) {
  beginResetModel();
  question_ = std::move(question);
  answer_ = std::move(answer);
  endResetModel();
}

int PlanTableModel::rowCount(const QModelIndex& parent) const {
  return parent.isValid() ? 0 : static_cast<int>(answer_.plans.size());
}

int PlanTableModel::columnCount(const QModelIndex& parent) const {
  return parent.isValid() ? 0 : column_count;
}

QVariant PlanTableModel::data(const QModelIndex& index, int role) const {
  if (!checkIndex(index, CheckIndexOption::IndexIsValid)) return {};
  const Plan& plan = answer_.plans[static_cast<std::size_t>(index.row())];
  const auto column = static_cast<Column>(index.column());
  switch (role) {
    case Qt::DisplayRole: return text(plan, column);
    case Qt::ToolTipRole: return joined(plan.why);
    case Qt::TextAlignmentRole:
      return QVariant::fromValue(column == strategy || column == verdict ? Qt::AlignLeft | Qt::AlignVCenter
                                                                         : Qt::AlignRight | Qt::AlignVCenter);
    default: return {};
  }
}

QString PlanTableModel::text(const Plan& plan, Column column) const {
  const Bytes missing = shortage(plan, *question_);
  switch (column) {
    case strategy: return from(plan.id());
    case needs: return from(format_bytes(plan.memory.required, question_->unit));
    case free: return from(format_bytes(Bytes{} - missing, question_->unit));
    case step: return from(format_seconds(plan.time.step));
    case tokens_per_second: return from(group_digits(static_cast<std::int64_t>(plan.time.tokens_per_second)));
    case verdict: return plan.fits ? tr("fits") : tr("does not fit");
    case column_count: break;
  }
  return {};
}

QVariant PlanTableModel::headerData(int section, Qt::Orientation orientation, int role) const {
  if (role != Qt::DisplayRole || orientation != Qt::Horizontal) return {};
  switch (static_cast<Column>(section)) {
    case strategy: return tr("Strategy");
    case needs: return tr("Needs per GPU");
    case free: return tr("Free");
    case step: return tr("Step");
    case tokens_per_second: return tr("Tokens/s");
    case verdict: return tr("Verdict");
    case column_count: break;
  }
  return {};
}

}  // namespace zplan::gui
