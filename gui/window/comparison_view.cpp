#include "gui/window/comparison_view.h"

#include <QButtonGroup>
#include <QHBoxLayout>
#include <QHeaderView>
#include <QLabel>
#include <QPainter>
#include <QSplitter>
#include <QStyledItemDelegate>
#include <QTabBar>
#include <QTabWidget>
#include <QTableView>
#include <QToolButton>
#include <QVBoxLayout>
#include <algorithm>

#include "gui/charts/bar_chart.h"
#include "gui/charts/curve_chart.h"
#include "gui/charts/ink.h"
#include "gui/charts/scatter_chart.h"
#include "gui/models/stack_model.h"
#include "gui/models/timeline_model.h"
#include "gui/models/tradeoff_model.h"
#include "gui/output/config_preview.h"
#include "gui/output/explain_view.h"
#include "gui/output/validation_line.h"
#include "gui/output/why_view.h"
#include "gui/session/words.h"
#include "gui/tables/comparison_model.h"
#include "gui/tables/text_table_model.h"

namespace zplan::gui {

namespace {

QToolButton* toggle(const QString& name, const QString& text, const QString& tip, QWidget* parent) {
  auto* button = new QToolButton(parent);
  button->setObjectName(name);
  button->setText(text);
  button->setToolTip(tip);
  button->setCheckable(true);
  button->setFocusPolicy(Qt::StrongFocus);
  return button;
}

QTableView* table(const QString& name, const QString& spoken, QAbstractItemModel* model, QWidget* parent) {
  auto* view = new QTableView(parent);
  view->setObjectName(name);
  view->setAccessibleName(spoken);
  view->setModel(model);
  view->setAlternatingRowColors(true);
  view->setShowGrid(false);
  view->setWordWrap(false);
  view->setTabKeyNavigation(false);  // Tab goes on to the next widget; arrows move in the table
  view->verticalHeader()->setDefaultSectionSize(view->fontMetrics().height() + 6);
  view->horizontalHeader()->setHighlightSections(false);
  view->setHorizontalScrollMode(QAbstractItemView::ScrollPerPixel);
  return view;
}

/// Returns the widgets beside each other, as they stand beside tabs.
QWidget* in_a_row(const QList<QWidget*>& widgets) {
  auto* all = new QWidget;
  auto* row = new QHBoxLayout(all);
  row->setContentsMargins(0, 0, 0, 3);
  for (QWidget* each : widgets) row->addWidget(each);
  return all;
}

/// Draws a line above every row that begins a new section.
class SectionDelegate : public QStyledItemDelegate {
 public:
  SectionDelegate(int section_role, QObject* parent) : QStyledItemDelegate(parent), role_(section_role) {}
  void paint(QPainter* painter, const QStyleOptionViewItem& option, const QModelIndex& index) const override {
    QStyledItemDelegate::paint(painter, option, index);
    if (index.row() == 0 || index.data(role_) == index.siblingAtRow(index.row() - 1).data(role_)) return;
    painter->save();
    painter->setPen(ink::faint(option.palette));
    painter->drawLine(option.rect.topLeft(), option.rect.topRight());
    painter->restore();
  }

 private:
  int role_;
};

/// Returns the kinds of figures that a chart shows.
std::vector<AccuracyOf> kinds_in(const QString& chart) {
  if (chart == QStringLiteral("time")) return {AccuracyOf::step_time};
  if (chart == QStringLiteral("traffic")) return {AccuracyOf::traffic, AccuracyOf::collective_time};
  if (chart == QStringLiteral("tradeoff")) return {AccuracyOf::memory, AccuracyOf::step_time};
  return {AccuracyOf::memory};
}

}  // namespace

ComparisonView::ComparisonView(Session& session, QWidget* parent)
    : QWidget(parent),
      session_(session),
      validation_(new ValidationLine(this)),
      charts_(new QTabWidget(this)),
      tables_(new QTabWidget(this)) {
  build_charts();
  build_tables();
  build_modes();
  auto* upper = new QWidget(this);
  auto* upper_column = new QVBoxLayout(upper);
  upper_column->setContentsMargins(0, 0, 0, 0);
  upper_column->addWidget(charts_, 1);
  upper_column->addWidget(validation_);

  auto* split = new QSplitter(Qt::Vertical, this);
  split->setObjectName(QStringLiteral("middle"));
  split->setChildrenCollapsible(false);
  split->addWidget(upper);
  split->addWidget(tables_);
  split->setStretchFactor(0, 5);
  split->setStretchFactor(1, 4);
  split->setSizes({400, 320});
  auto* column = new QVBoxLayout(this);
  column->setContentsMargins(6, 2, 6, 0);
  column->addWidget(split, 1);

  soon_.setSingleShot(true);
  connect(&soon_, &QTimer::timeout, this, &ComparisonView::refresh);
  const auto changed = [this] { later(); };
  connect(&session, &Session::inserted, this, changed);
  connect(&session, &Session::removed, this, changed);
  connect(&session, &Session::moved, this, changed);
  // A changed question is drawn once it is answered.
  connect(&session, &Session::changed, this, [this](int, bool other_question) {
    if (!other_question) later();
  });
  connect(&session, &Session::glanced, this, [this] {
    if (mode_ == Mode::scenarios) later();
  });
  connect(&session, &Session::answered, this, changed);
  connect(&session, &Session::current_changed, this, changed);
  connect(&session, &Session::comparison_changed, this, changed);
  connect(&session, &Session::reset, this, changed);
  connect(charts_, &QTabWidget::currentChanged, this, changed);
  connect(tables_, &QTabWidget::currentChanged, this, changed);
  set_mode(Mode::strategies);
}

/// Puts what is compared beside the tabs of the charts, and which lines are shown beside those of the tables.
void ComparisonView::build_modes() {
  by_scenario_ = toggle(QStringLiteral("by_scenario"), tr("Scenarios"),
                        tr("Compare the ticked scenarios, each by its strategy"), this);
  by_strategy_ = toggle(QStringLiteral("by_strategy"), tr("Strategies"),
                        tr("Compare the strategies of the current scenario"), this);
  differences_ = toggle(QStringLiteral("differences"), tr("Differences only"),
                        tr("Leave out lines in which all are alike"), this);
  auto* group = new QButtonGroup(this);
  group->addButton(by_scenario_);
  group->addButton(by_strategy_);
  connect(by_scenario_, &QAbstractButton::clicked, this, [this] { set_mode(Mode::scenarios); });
  connect(by_strategy_, &QAbstractButton::clicked, this, [this] { set_mode(Mode::strategies); });
  connect(differences_, &QAbstractButton::clicked, this,
          [this](bool only) { session_.set_differences(only); });
  QSizePolicy policy = differences_->sizePolicy();
  policy.setRetainSizeWhenHidden(true);
  differences_->setSizePolicy(policy);
  charts_->setCornerWidget(in_a_row({new QLabel(tr("Compare:"), this), by_scenario_, by_strategy_}));
  tables_->setCornerWidget(in_a_row({differences_}));
}

void ComparisonView::build_charts() {
  memory_ = new StackModel(StackModel::Kind::memory, this);
  time_ = new StackModel(StackModel::Kind::time, this);
  traffic_ = new StackModel(StackModel::Kind::traffic, this);
  timeline_ = new TimelineModel(this);
  tradeoff_ = new TradeoffModel(this);
  const auto add = [this](Chart* chart, QAbstractItemModel* model, const QString& name, const QString& title,
                          const QString& tip) {
    chart->setObjectName(name);
    chart->setAccessibleName(title);
    chart->set_model(model);
    charts_->setTabToolTip(charts_->addTab(chart, title), tip);
  };
  const auto bars = [this] {
    auto* chart = new BarChart(this);
    connect(chart, &BarChart::activated, this, &ComparisonView::open_subject);
    return chart;
  };
  auto* curves = new CurveChart(this);
  connect(curves, &CurveChart::activated, this, &ComparisonView::open_subject);
  auto* points = new ScatterChart(this);
  connect(points, &ScatterChart::activated, this, [this](int scenario, const QString& id) {
    int baseline = -1;
    const Subjects all = subjects(&baseline);
    if (mode_ == Mode::scenarios && scenario >= 0 && scenario < static_cast<int>(all.size()))
      session_.set_current(session_.row_of(all[static_cast<std::size_t>(scenario)].scenario));
    choose(id);
  });
  charts_->setObjectName(QStringLiteral("charts"));
  charts_->setDocumentMode(true);
  charts_->setAccessibleName(tr("Charts"));
  charts_->tabBar()->setAccessibleName(tr("Charts"));
  add(bars(), memory_, QStringLiteral("memory"), tr("Memory"),
      tr("What each GPU needs, by what it is made of"));
  add(curves, timeline_, QStringLiteral("timeline"), tr("Over the step"), tr("Live memory over one step"));
  add(bars(), time_, QStringLiteral("time"), tr("Time"), tr("What a step's time goes into"));
  add(bars(), traffic_, QStringLiteral("traffic"), tr("Traffic"),
      tr("What a GPU sends in one step, by phase"));
  add(points, tradeoff_, QStringLiteral("tradeoff"), tr("Trade-off"),
      tr("Memory against tokens per second, every strategy"));
}

void ComparisonView::build_tables() {
  comparison_ = new ComparisonModel(this);
  strategies_ = new StrategiesModel(this);
  strategies_table_ = table(QStringLiteral("strategies"), tr("Strategies"), strategies_, this);
  strategies_table_->setSelectionBehavior(QAbstractItemView::SelectRows);
  strategies_table_->setSelectionMode(QAbstractItemView::SingleSelection);
  strategies_table_->verticalHeader()->hide();
  connect(strategies_table_, &QTableView::activated, this,
          [this](const QModelIndex& index) { choose(index.data(StrategiesModel::IdRole).toString()); });
  connect(strategies_table_, &QTableView::clicked, this,
          [this](const QModelIndex& index) { choose(index.data(StrategiesModel::IdRole).toString()); });
  why_ = new WhyView(this);
  explain_ = new ExplainView(this);
  config_ = new ConfigPreview(this);
  tables_->setObjectName(QStringLiteral("tables"));
  tables_->setDocumentMode(true);
  tables_->setAccessibleName(tr("Figures"));
  tables_->tabBar()->setAccessibleName(tr("Figures"));
  add_comparison_table();
  tables_->addTab(strategies_table_, tr("Strategies"));
  tables_->addTab(why_, tr("Why"));
  tables_->addTab(explain_, tr("Explain"));
  tables_->addTab(config_, tr("Config"));
  connect(config_, &ConfigPreview::style_wanted, this, &ComparisonView::style_wanted);
}

void ComparisonView::add_comparison_table() {
  comparison_table_ = table(QStringLiteral("comparison"), tr("Comparison"), comparison_, this);
  comparison_table_->setItemDelegate(new SectionDelegate(ComparisonModel::SectionRole, comparison_table_));
  comparison_table_->setSelectionMode(QAbstractItemView::ExtendedSelection);
  comparison_page_ = new QWidget(this);
  comparison_page_->setFocusProxy(comparison_table_);
  auto* legend = new QLabel(ComparisonModel::legend(), comparison_page_);
  legend->setObjectName(QStringLiteral("legend"));
  auto* column = new QVBoxLayout(comparison_page_);
  column->setContentsMargins(0, 0, 0, 0);
  column->setSpacing(2);
  column->addWidget(comparison_table_, 1);
  column->addWidget(legend);
  tables_->addTab(comparison_page_, tr("Comparison"));
}

void ComparisonView::set_mode(Mode mode) {
  mode_ = mode;
  session_.set_glances(mode == Mode::scenarios);
  by_scenario_->setChecked(mode == Mode::scenarios);
  by_strategy_->setChecked(mode == Mode::strategies);
  later();
  Q_EMIT mode_changed();
}

const Session::Entry* ComparisonView::current() const {
  return session_.current() < 0 ? nullptr : &session_.at(session_.current());
}

Subjects ComparisonView::subjects(int* baseline) const {
  if (mode_ == Mode::scenarios) return session_.compared(baseline);
  const Session::Entry* entry = current();
  *baseline = entry != nullptr && entry->planned ? static_cast<int>(entry->planned->shown) : -1;
  return entry == nullptr ? Subjects{} : Session::strategies(*entry);
}

Chart& ComparisonView::chart() const { return *qobject_cast<Chart*>(charts_->currentWidget()); }

QString ComparisonView::chart_name() const { return charts_->tabText(charts_->currentIndex()); }

void ComparisonView::later() {
  if (!soon_.isActive()) soon_.start(0);
}

void ComparisonView::refresh() {
  soon_.stop();
  int baseline = -1;
  const Subjects all = subjects(&baseline);
  refresh_charts(all);
  refresh_tables(all, baseline);
  const QSignalBlocker quiet(differences_);
  differences_->setChecked(session_.differences());
}

void ComparisonView::refresh_charts(const Subjects& subjects) {
  const QWidget* front = charts_->currentWidget();
  for (StackModel* each : {memory_, time_, traffic_})
    if (const auto* chart = qobject_cast<const Chart*>(front); chart != nullptr && chart->model() == each)
      each->show(subjects);
  if (front->objectName() == QStringLiteral("timeline")) timeline_->show(subjects);
  if (front->objectName() == QStringLiteral("tradeoff")) {
    std::vector<PlannedPtr> answers;
    for (const Subject& each : subjects) {
      const PlannedPtr& answer = session_.at(session_.row_of(each.scenario)).planned;
      if (answers.empty() || answers.back() != answer) answers.push_back(answer);
    }
    tradeoff_->show(answers);
  }
  if (subjects.empty())
    validation_->clear();
  else
    validation_->show_plan(kinds_in(front->objectName()), subjects.front());
}

void ComparisonView::refresh_tables(const Subjects& subjects, int baseline) {
  const QWidget* front = tables_->currentWidget();
  const Session::Entry* entry = current();
  const PlannedPtr planned = entry == nullptr ? nullptr : entry->planned;
  differences_->setVisible(front == comparison_page_);
  if (front == comparison_page_) {
    const int columns = comparison_->columnCount(), base = comparison_->baseline();
    comparison_->show(subjects, baseline, session_.differences());
    if (columns != comparison_->columnCount() || base != comparison_->baseline())
      comparison_table_->resizeColumnsToContents();
    const int left_out = comparison_->left_out();
    tables_->setTabText(0,
                        left_out == 0 ? tr("Comparison") : tr("Comparison (%n left out)", "lines", left_out));
  } else if (front == strategies_table_) {
    const int columns = strategies_->columnCount();
    strategies_->show(planned);
    if (columns != strategies_->columnCount()) strategies_table_->resizeColumnsToContents();
    if (planned) strategies_table_->selectRow(static_cast<int>(planned->shown));
  }
  // The other tabs need a full answer; until it arrives they keep the scenario's earlier one.
  const quint64 id = entry == nullptr ? 0 : entry->id;
  const bool is_whole = planned && !planned->draft;
  if (!is_whole && id == detailed_ && planned) return;
  detailed_ = id;
  const PlannedPtr whole = is_whole ? planned : nullptr;
  if (front == why_) why_->show_plan(whole);
  if (front == config_) config_->show_plan(whole);
  if (front != explain_) return;
  if (!whole)
    explain_->clear();
  else
    explain_->show_subject({qt(planned->scenario.name), planned, planned->shown, entry->id});
}

void ComparisonView::open_subject(int row) {
  int baseline = -1;
  const Subjects all = subjects(&baseline);
  if (row < 0 || row >= static_cast<int>(all.size())) return;
  const Subject& subject = all[static_cast<std::size_t>(row)];
  if (mode_ == Mode::scenarios)
    session_.set_current(session_.row_of(subject.scenario));
  else
    choose(qt(subject.plan().id()));
}

/// Chooses the strategy that the scenario shows. The first one is the default and is not pinned, so that it
/// can change with the question.
void ComparisonView::choose(const QString& strategy) {
  const Session::Entry* entry = current();
  if (entry == nullptr || !entry->planned || strategy.isEmpty()) return;
  const bool first = qt(entry->planned->answer.plans.front().id()) == strategy;
  session_.set_strategy(session_.current(), first ? QString() : strategy);
}

}  // namespace zplan::gui
