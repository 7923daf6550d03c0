#include "gui/editors/scenario_heading.h"

#include <QAbstractItemView>
#include <QFormLayout>
#include <QMetaObject>
#include <algorithm>

#include "cli/report/comparison.h"

namespace zplan::gui {

ScenarioHeading::ScenarioHeading(Session& session, QWidget* parent)
    : QWidget(parent), session_(session), name_(new FieldEdit(this)), strategy_(new QComboBox(this)) {
  name_->setObjectName(QStringLiteral("name"));
  name_->keep_own_undo();  // a name is applied when it is done
  name_->setAccessibleName(tr("Name of the scenario"));
  strategy_->setObjectName(QStringLiteral("strategy"));
  strategy_->setAccessibleName(tr("Shown strategy"));
  strategy_->setToolTip(tr("The plan that stands for this scenario in bars and tables"));
  strategy_->setSizeAdjustPolicy(QComboBox::AdjustToMinimumContentsLengthWithIcon);
  strategy_->setMinimumContentsLength(12);
  guard_wheel(strategy_);
  auto* form = new QFormLayout(this);
  form->setContentsMargins(0, 0, 0, 0);
  form->setFieldGrowthPolicy(QFormLayout::AllNonFixedFieldsGrow);
  form->addRow(tr("Na&me"), name_);
  form->addRow(tr("Shown &strategy"), strategy_);
  connect(name_, &QLineEdit::editingFinished, this, &ScenarioHeading::apply_name);
  connect(strategy_, &QComboBox::activated, this, [this](int item) {
    if (const int row = session_.current(); row >= 0)
      session_.set_strategy(row, strategy_->itemData(item).toString());
  });
}

void ScenarioHeading::apply_name() {
  const int row = session_.row_of(shown_);
  if (row < 0 || !name_->isModified()) return;
  name_->setModified(false);
  if (name_->value().isEmpty())
    show_name(session_.at(row));  // a scenario has a name
  else
    session_.rename(row, name_->value());
}

void ScenarioHeading::refresh() {
  const int row = session_.current();
  setEnabled(row >= 0);
  if (row < 0) {
    shown_ = 0;
    name_->show_text({});
    strategy_->clear();
    return;
  }
  show_name(session_.at(row));
  show_strategies(session_.at(row));
}

void ScenarioHeading::show_name(const Session::Entry& entry) {
  if (shown_ == entry.id && name_->isModified()) return;  // being typed
  // Another scenario was chosen by a key that leaves the focus here. The name that was being typed is not
  // lost; it waits until whatever changed the current scenario is done.
  if (shown_ != 0 && name_->isModified() && !name_->value().isEmpty())
    QMetaObject::invokeMethod(
        this,
        [this, id = shown_, name = name_->value()] {
          if (const int row = session_.row_of(id); row >= 0) session_.rename(row, name);
        },
        Qt::QueuedConnection);
  shown_ = entry.id;
  name_->show_text(QString::fromStdString(entry.scenario.name));
  name_->setModified(false);
}

void ScenarioHeading::show_strategies(const Session::Entry& entry) {
  if (strategy_->view()->isVisible()) return;  // a list that is open stays as it is
  const QString chosen = QString::fromStdString(entry.scenario.strategy);
  std::vector<std::pair<QString, QString>> items;  // id and text
  const bool answered = entry.planned && !entry.planned->answer.plans.empty();
  const QString best =
      answered ? QString::fromStdString(entry.planned->answer.plans.front().id()) : QString();
  const bool fits = answered && entry.planned->answer.fits();
  items.emplace_back(QString(),
                     !answered ? tr("Best") : (fits ? tr("Best (%1)") : tr("Nearest (%1)")).arg(best));
  for (const Subject& each : Session::strategies(entry))
    items.emplace_back(each.title,
                       tr("%1: %2").arg(each.title, QString::fromStdString(comparison_verdict(each.plan()))));
  const bool is_known = std::ranges::any_of(items, [&](const auto& item) { return item.first == chosen; });
  if (!is_known) items.emplace_back(chosen, tr("%1: not in the answer").arg(chosen));

  while (strategy_->count() > static_cast<int>(items.size())) strategy_->removeItem(strategy_->count() - 1);
  for (int i = 0; i < static_cast<int>(items.size()); ++i) {
    const auto& item = items[static_cast<std::size_t>(i)];
    if (i == strategy_->count()) strategy_->addItem(QString());
    strategy_->setItemText(i, item.second);
    strategy_->setItemData(i, item.first);
  }
  strategy_->setCurrentIndex(std::max(strategy_->findData(chosen), 0));
}

}  // namespace zplan::gui
