#include "gui/models/tradeoff_model.h"

#include <algorithm>
#include <cmath>

#include "models/base/format.h"

namespace zplan::gui {

namespace {

/// True if `a` is at least as good in memory and speed, and better in one of them.
bool dominates(const Plan& a, const Plan& b) {
  const bool less = a.memory().required < b.memory().required;
  const bool faster = a.time.tokens_per_second > b.time.tokens_per_second;
  return a.memory().required <= b.memory().required && a.time.tokens_per_second >= b.time.tokens_per_second &&
         (less || faster);
}

bool is_on_front(const Plan& plan, const std::vector<Plan>& all) {
  return plan.fits && std::none_of(all.begin(), all.end(), [&plan](const Plan& other) {
           return other.fits && dominates(other, plan);
         });
}

}  // namespace

void TradeoffModel::show(const std::vector<PlannedPtr>& scenarios) {
  beginResetModel();
  scenarios_ = scenarios;
  points_.clear();
  for (std::size_t i = 0; i < scenarios_.size(); ++i) {
    const std::vector<Plan>& plans = scenarios_[i]->answer.plans;
    for (std::size_t j = 0; j < plans.size(); ++j) points_.push_back({i, j, is_on_front(plans[j], plans)});
  }
  endResetModel();
}

int TradeoffModel::rowCount(const QModelIndex& parent) const {
  return parent.isValid() ? 0 : static_cast<int>(points_.size());
}

int TradeoffModel::columnCount(const QModelIndex& parent) const {
  return parent.isValid() ? 0 : column_count;
}

const Plan& TradeoffModel::plan_of(const Point& point) const {
  return scenarios_[point.scenario]->answer.plans[point.plan];
}

QVariant TradeoffModel::data(const QModelIndex& index, int role) const {
  if (!checkIndex(index, CheckIndexOption::IndexIsValid)) return {};
  const Point& point = points_[static_cast<std::size_t>(index.row())];
  const Planned& planned = *scenarios_[point.scenario];
  const Plan& plan = plan_of(point);
  const auto column = static_cast<Column>(index.column());
  switch (role) {
    case Qt::DisplayRole: return text(point, column);
    case Qt::ToolTipRole: return tooltip(point);
    case Qt::AccessibleTextRole: return spoken(point);
    case Qt::TextAlignmentRole:
      return QVariant::fromValue((column == needs || column == speed ? Qt::AlignRight : Qt::AlignLeft) |
                                 Qt::AlignVCenter);
    case ScenarioRole: return static_cast<int>(point.scenario);
    case BytesRole: return number(plan.memory().required);
    case SpeedRole: return plan.time.tokens_per_second;
    case FitsRole: return plan.fits;
    case FrontRole: return point.front;
    case IdRole: return qt(plan.id());
    case TitleRole: return text(point, scenario);
    case MarksRole: return QVariant::fromValue(memory_marks(planned.question));
    case DraftRole: return planned.draft && point.plan != planned.shown;
    case ShownRole: return point.plan == planned.shown;
    default: return {};
  }
}

QString TradeoffModel::text(const Point& point, Column column) const {
  const Planned& planned = *scenarios_[point.scenario];
  const Plan& plan = plan_of(point);
  switch (column) {
    case scenario: return qt(planned.scenario.name);
    case strategy: return qt(plan.id());
    case needs: return memory_words(plan.memory().required, planned.question.unit);
    case speed: return qt(group_digits(std::llround(plan.time.tokens_per_second)));
    case verdict: return verdict_words(plan);
    case front: return point.front ? tr("yes") : tr("no");
    case column_count: break;
  }
  return {};
}

QString TradeoffModel::spoken(const Point& point) const {
  const QString text_of = tr("%1, %2: needs %3, %4 tokens/s, %5")
                              .arg(text(point, scenario), text(point, strategy), text(point, needs),
                                   text(point, speed), text(point, verdict));
  return point.front ? tr("%1, on the Pareto front").arg(text_of) : text_of;
}

QString TradeoffModel::tooltip(const Point& point) const {
  QStringList lines{wrapped(spoken(point))};
  if (scenarios_[point.scenario]->draft && point.plan != scenarios_[point.scenario]->shown)
    lines << tr("A first estimate; the full answer follows.");
  for (const std::string& sentence : plan_of(point).why) lines << wrapped(qt(sentence));
  return lines.join('\n');
}

QVariant TradeoffModel::headerData(int section, Qt::Orientation orientation, int role) const {
  if (orientation != Qt::Horizontal) return role == Qt::DisplayRole ? QVariant(section + 1) : QVariant();
  if (role == ScaleRole) {
    if (section == speed) return QVariant::fromValue(Scale{1, tr("tokens/s")});
    double most = 0;
    bool gb = !scenarios_.empty();
    for (const Point& each : points_) most = std::max(most, number(plan_of(each).memory().required));
    for (const PlannedPtr& each : scenarios_) gb = gb && each->question.unit == ByteUnit::gb;
    return QVariant::fromValue(bytes_scale(most, gb ? ByteUnit::gb : ByteUnit::gib));
  }
  const bool tip = role == Qt::ToolTipRole;
  if (!tip && role != Qt::DisplayRole && role != Qt::AccessibleTextRole) return {};
  switch (static_cast<Column>(section)) {
    case scenario: return tip ? QString() : tr("Scenario");
    case strategy: return tip ? QString() : tr("Strategy");
    case needs:
      return tip ? wrapped(tr("The smallest device on which it runs. Source: PyTorch's caching allocator, "
                              "simulated (docs/allocator.md)."))
                 : tr("Needs per GPU");
    case speed:
      return tip ? wrapped(tr("Tokens of a step over its time. Source: docs/step-time.md.")) : tr("Tokens/s");
    case verdict: return tip ? QString() : tr("Verdict");
    case front:
      return tip ? wrapped(tr("Among the strategies of its scenario that fit, none needs less and is as fast "
                              "(Pareto front)."))
                 : tr("On the front");
    case column_count: break;
  }
  return {};
}

}  // namespace zplan::gui
