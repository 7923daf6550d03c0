#include "gui/tables/scenario_list_model.h"

#include <QIODevice>
#include <QMimeData>

#include "cli/options/command_line.h"
#include "cli/report/comparison.h"
#include "gui/session/words.h"

namespace zplan::gui {

namespace {

const QString kRow = QStringLiteral("application/x-zplan-scenario-row");

QString summary(const Session::Entry& entry) {
  if (entry.problem && !entry.glance) return entry.problem->text;
  if (!entry.newest()) return ScenarioListModel::tr("planning…");
  const Plan& plan = entry.newest()->plan();
  return QStringLiteral("%1 · %2 · %3")
      .arg(QString::fromStdString(plan.id()), verdict_words(plan),
           memory_words(plan.memory().required, entry.newest()->question.unit));
}

QString tip(const Session::Entry& entry) {
  const Scenario& scenario = entry.scenario;
  QString text = scenario.report.empty()
                     ? QString::fromStdString(command_line(scenario.arguments))
                     : ScenarioListModel::tr("saved report: %1").arg(QString::fromStdString(scenario.report));
  if (entry.problem) text += QStringLiteral("\n") + entry.problem->text;
  return text;
}

}  // namespace

ScenarioListModel::ScenarioListModel(Session& session, QObject* parent)
    : QAbstractListModel(parent), session_(session) {
  const auto show = [this](int row) { Q_EMIT dataChanged(index(row), index(row)); };
  connect(&session, &Session::about_to_insert, this, [this](int row) { beginInsertRows({}, row, row); });
  connect(&session, &Session::inserted, this, [this] { endInsertRows(); });
  connect(&session, &Session::about_to_remove, this, [this](int row) { beginRemoveRows({}, row, row); });
  connect(&session, &Session::removed, this, [this] { endRemoveRows(); });
  connect(&session, &Session::about_to_move, this,
          [this](int from, int to) { beginMoveRows({}, from, from, {}, from < to ? to + 1 : to); });
  connect(&session, &Session::moved, this, [this] { endMoveRows(); });
  connect(&session, &Session::about_to_reset, this, [this] { beginResetModel(); });
  connect(&session, &Session::reset, this, [this] { endResetModel(); });
  // Another question changes nothing here before its answer does.
  connect(&session, &Session::changed, this, [this](int, bool other_question) {
    if (!other_question) Q_EMIT dataChanged(index(0), index(rowCount() - 1));  // the baseline may be another
  });
  connect(&session, &Session::glanced, this, show);
  connect(&session, &Session::answered, this, show);
  connect(&session, &Session::comparison_changed, this, [this] {
    if (rowCount() > 0) Q_EMIT dataChanged(index(0), index(rowCount() - 1));
  });
}

int ScenarioListModel::rowCount(const QModelIndex& parent) const {
  return parent.isValid() ? 0 : session_.size();
}

QVariant ScenarioListModel::data(const QModelIndex& index, int role) const {
  if (!checkIndex(index, CheckIndexOption::IndexIsValid)) return {};
  const Session::Entry& entry = session_.at(index.row());
  const QString name = QString::fromStdString(entry.scenario.name);
  const bool is_baseline = session_.baseline() == index.row();
  switch (role) {
    case Qt::DisplayRole:
    case Qt::EditRole: return name;
    case Qt::CheckStateRole: return entry.scenario.compared ? Qt::Checked : Qt::Unchecked;
    case Qt::ToolTipRole: return tip(entry);
    case Qt::AccessibleTextRole:
      return QStringLiteral("%1, %2%3").arg(name, summary(entry), is_baseline ? tr(", baseline") : QString());
    case SummaryRole: return summary(entry);
    case ProblemRole: return entry.problem.has_value();
    case FitsRole:
      return entry.newest() ? (entry.glance || !entry.problem) && entry.newest()->plan().fits
                            : !entry.problem;
    case BaselineRole: return is_baseline;
    default: return {};
  }
}

bool ScenarioListModel::setData(const QModelIndex& index, const QVariant& value, int role) {
  if (!checkIndex(index, CheckIndexOption::IndexIsValid)) return false;
  if (role == Qt::EditRole)
    session_.rename(index.row(), value.toString());
  else if (role == Qt::CheckStateRole)
    session_.set_compared(index.row(), value.toInt() == Qt::Checked);
  else
    return false;
  return true;
}

Qt::ItemFlags ScenarioListModel::flags(const QModelIndex& index) const {
  if (!index.isValid()) return Qt::ItemIsDropEnabled;  // between rows
  return Qt::ItemIsSelectable | Qt::ItemIsEnabled | Qt::ItemIsEditable | Qt::ItemIsUserCheckable |
         Qt::ItemIsDragEnabled | Qt::ItemNeverHasChildren;
}

QStringList ScenarioListModel::mimeTypes() const { return {kRow}; }

QMimeData* ScenarioListModel::mimeData(const QModelIndexList& indexes) const {
  if (indexes.isEmpty()) return nullptr;
  auto* data = new QMimeData;
  data->setData(kRow, QByteArray::number(indexes.front().row()));
  return data;
}

/// The row is moved here, so the view, which would remove the dragged one, is told that nothing was taken.
bool ScenarioListModel::dropMimeData(const QMimeData* data, Qt::DropAction, int row, int,
                                     const QModelIndex& parent) {
  bool is_number = false;
  const int from = data == nullptr ? -1 : data->data(kRow).toInt(&is_number);
  if (!is_number || from < 0 || from >= session_.size()) return false;
  const int before = row >= 0 ? row : parent.isValid() ? parent.row() : session_.size();
  session_.move(from, std::min(before > from ? before - 1 : before, session_.size() - 1));
  return false;
}

}  // namespace zplan::gui
