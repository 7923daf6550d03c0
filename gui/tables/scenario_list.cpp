#include "gui/tables/scenario_list.h"

#include <QApplication>
#include <QIODevice>
#include <QMimeData>
#include <QPainter>
#include <utility>

#include "cli/options/command_line.h"
#include "cli/report/comparison.h"
#include "gui/charts/ink.h"
#include "gui/session/words.h"

namespace zplan::gui {

namespace {

const QString kRow = QStringLiteral("application/x-zplan-scenario-row");

QString summary(const Session::Entry& entry) {
  if (entry.problem && !entry.glance) return entry.problem->text;
  if (!entry.newest()) return ScenarioListModel::tr("planning…");
  const Plan& plan = entry.newest()->plan();
  return QStringLiteral("%1 · %2 · %3")
      .arg(verdict_words(plan), memory_words(plan.memory().required, entry.newest()->question.unit),
           qt(plan.id()));
}

QString tip(const Session::Entry& entry) {
  const Scenario& scenario = entry.scenario;
  QString text = scenario.report.empty() ? qt(command_line(scenario.arguments))
                                         : ScenarioListModel::tr("saved report: %1").arg(qt(scenario.report));
  if (entry.problem) text += QStringLiteral("\n") + entry.problem->text;
  return text;
}

constexpr int kGap = 4;

/// Returns the rectangle of the upper line, in which the style draws tick and name.
QStyleOptionViewItem upper_line(const QStyleOptionViewItem& option) {
  QStyleOptionViewItem upper = option;
  upper.rect.setHeight(option.fontMetrics.height() + 2 * kGap);
  return upper;
}

/// The mark after the baseline's name: a sign and, where there is room, a word.
struct BaselineMark {
  bool shown{};
  QString word;
  QFontMetrics metrics;

  [[nodiscard]] int side() const { return metrics.ascent(); }
  [[nodiscard]] int width() const {
    if (!shown) return 0;
    return 2 * kGap + side() + (word.isEmpty() ? 0 : kGap + metrics.horizontalAdvance(word));
  }
  void paint(QPainter& painter, const QRect& room) const {
    if (!shown) return;
    const QRect sign(room.left() + 2 * kGap, room.center().y() - side() / 2, side(), side());
    ink::aim(painter, sign, painter.pen().color());
    painter.drawText(QRect(QPoint(sign.right() + kGap, room.top()), room.bottomRight()),
                     Qt::AlignLeft | Qt::AlignVCenter, word);
  }
};

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
  // A changed question shows here only once it is answered.
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
  const QString name = qt(entry.scenario.name);
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

/// Moves the row and returns false, or the view would remove the dragged row.
bool ScenarioListModel::dropMimeData(const QMimeData* data, Qt::DropAction, int row, int,
                                     const QModelIndex& parent) {
  bool is_number = false;
  const int from = data == nullptr ? -1 : data->data(kRow).toInt(&is_number);
  if (!is_number || from < 0 || from >= session_.size()) return false;
  const int before = row >= 0 ? row : parent.isValid() ? parent.row() : session_.size();
  session_.move(from, std::min(before > from ? before - 1 : before, session_.size() - 1));
  return false;
}

QSize ScenarioDelegate::sizeHint(const QStyleOptionViewItem& option, const QModelIndex& index) const {
  const QSize one = QStyledItemDelegate::sizeHint(option, index);
  return {one.width(), 2 * option.fontMetrics.height() + 3 * kGap};
}

void ScenarioDelegate::updateEditorGeometry(QWidget* editor, const QStyleOptionViewItem& option,
                                            const QModelIndex& index) const {
  QStyledItemDelegate::updateEditorGeometry(editor, upper_line(option), index);
}

/// Clicks on the tick count in the upper line.
bool ScenarioDelegate::editorEvent(QEvent* event, QAbstractItemModel* model,
                                   const QStyleOptionViewItem& option, const QModelIndex& index) {
  return QStyledItemDelegate::editorEvent(event, model, upper_line(option), index);
}

void ScenarioDelegate::paint(QPainter* painter, const QStyleOptionViewItem& option,
                             const QModelIndex& index) const {
  const QStyle& style = option.widget != nullptr ? *option.widget->style() : *QApplication::style();
  style.drawPrimitive(QStyle::PE_PanelItemViewItem, &option, painter, option.widget);

  QStyleOptionViewItem name = upper_line(option);
  initStyleOption(&name, index);
  name.font.setBold(option.state.testFlag(QStyle::State_Selected));
  const bool selected = option.state.testFlag(QStyle::State_Selected);
  const QColor pen = option.palette.color(selected ? QPalette::HighlightedText : QPalette::Text);
  const QRect text = style.subElementRect(QStyle::SE_ItemViewItemText, &name, option.widget);
  const QString title = std::exchange(name.text, QString());
  // The selection is already drawn over both lines.
  name.state &= ~(QStyle::State_Selected | QStyle::State_HasFocus);
  name.backgroundBrush = {};
  style.drawControl(QStyle::CE_ItemViewItem, &name, painter, option.widget);
  painter->save();
  painter->setFont(name.font);
  painter->setPen(pen);
  QRect room(text.left() + 3, name.rect.top(), option.rect.right() - text.left() - 2 * kGap,
             name.rect.height());
  const QFontMetrics metrics(name.font);
  const bool is_baseline = index.data(ScenarioListModel::BaselineRole).toBool();
  BaselineMark mark{is_baseline, tr("baseline"), metrics};
  if (metrics.horizontalAdvance(title) + mark.width() > room.width()) mark.word.clear();
  const QString shown = metrics.elidedText(title, Qt::ElideRight, room.width() - mark.width());
  painter->drawText(room, Qt::AlignLeft | Qt::AlignVCenter, shown);
  room.setLeft(room.left() + metrics.horizontalAdvance(shown));
  mark.paint(*painter, room);
  painter->restore();

  QRect lower(text.left() + 3, name.rect.bottom() - 1, option.rect.right() - text.left() - kGap,
              option.fontMetrics.height() + kGap);
  QPalette palette = option.palette;
  if (selected) palette.setColor(QPalette::Base, palette.color(QPalette::Highlight));
  painter->save();
  if (!index.data(ScenarioListModel::FitsRole).toBool()) {
    const int side = option.fontMetrics.ascent();
    const QRect sign(lower.left(), lower.center().y() - side / 2, side, side);
    ink::warn(*painter, sign, palette);
    lower.setLeft(sign.right() + kGap);
  }
  painter->setPen(selected ? pen : ink::faint(palette));
  const QString summary = index.data(ScenarioListModel::SummaryRole).toString();
  painter->drawText(lower, Qt::AlignLeft | Qt::AlignVCenter,
                    option.fontMetrics.elidedText(summary, Qt::ElideRight, lower.width()));
  painter->restore();
}

}  // namespace zplan::gui
