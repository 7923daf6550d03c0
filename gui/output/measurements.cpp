#include "gui/output/measurements.h"

#include <QApplication>
#include <QBoxLayout>
#include <QCheckBox>
#include <QClipboard>
#include <QDialogButtonBox>
#include <QFileInfo>
#include <QHeaderView>
#include <QLabel>
#include <QLineEdit>
#include <QProgressBar>
#include <QPushButton>
#include <QTableView>
#include <cmath>
#include <sstream>

#include "cli/commands/commands.h"
#include "cli/options/command_line.h"
#include "cli/options/strategy_words.h"
#include "gui/output/export.h"
#include "gui/output/text_label.h"
#include "gui/session/words.h"
#include "hardware_profiles/cluster.h"
#include "planner/check/readers/read.h"
#include "planner/question/work.h"

namespace zplan::gui {

namespace {

/// Returns the options that describe the run of a log. A measured run has one size of micro-batch.
std::vector<std::string> plan_arguments(const Subject& subject) {
  const Strategy& strategy = subject.plan().strategy;
  std::vector<std::pair<std::string, std::string>> pinned = strategy_options(strategy);
  pinned.emplace_back("--micro-batch", std::to_string(strategy.micro_batch_size));
  return with_options(subject.planned->scenario.arguments, pinned);
}

QStringList lines_of(const std::string& text) { return qt(text).split(u'\n', Qt::SkipEmptyParts); }

/// Replaces the table's English headings by translated ones.
Table with_headings(Table table, const QStringList& headings) {
  for (std::size_t i = 0; i < table.columns.size() && static_cast<qsizetype>(i) < headings.size(); ++i)
    table.columns[i].heading = headings[static_cast<qsizetype>(i)].toStdString();
  return table;
}

std::vector<QVariant> sizes_of_errors(const CheckReport& report) {
  std::vector<QVariant> sizes;
  // Records that were not judged come last.
  for (const check::Record& each : report.records)
    sizes.emplace_back(each.judged() ? std::abs(*each.error) : -1.0);
  return sizes;
}

/// Returns a tooltip for each record: where it is from, and why it was not judged or how it failed.
QStringList hints_of(const CheckReport& report) {
  QStringList hints;
  for (const check::Record& each : report.records) {
    QStringList lines{qt(each.id), qt(each.file)};
    if (!each.part.empty()) lines << qt(each.part);
    if (each.skip.any()) lines << MeasurementsDialog::tr("Not modelled: %1").arg(qt(each.skip.text()));
    if (!each.failure.empty()) lines << qt(each.failure);
    hints << lines.join(u'\n');
  }
  return hints;
}

QTableView* make_table(QAbstractItemModel* model, const QString& name) {
  auto* view = new QTableView;
  view->setModel(model);
  view->setAccessibleName(name);
  view->setAlternatingRowColors(true);
  view->setSelectionBehavior(QAbstractItemView::SelectRows);
  view->setEditTriggers(QAbstractItemView::NoEditTriggers);
  view->setTabKeyNavigation(false);
  view->verticalHeader()->hide();
  view->verticalHeader()->setDefaultSectionSize(view->verticalHeader()->minimumSectionSize());
  return view;
}

}  // namespace

CheckedFiles check_files(const QStringList& files, const std::optional<Subject>& plan,
                         const Environment& environment) {
  std::vector<std::string> words;
  bool needs_plan = false;
  for (const QString& each : files) {
    words.push_back(each.toStdString());
    if (QFileInfo(each).isDir()) continue;
    const std::optional<check::Format> format =
        check::recognised(read_file(words.back()), words.back()).format;
    needs_plan = needs_plan || (format && check::needs_plan(*format));
  }
  std::vector<std::string> arguments;
  if (needs_plan && plan && !plan->planned->saved) arguments = plan_arguments(*plan);
  arguments.insert(arguments.begin(), std::string(to_name(Command::check)));
  Options options = parse_options(arguments);
  options.words = words;
  std::ostringstream notes;
  CheckedFiles result{check_report(options, environment, notes), {}};
  result.notes = lines_of(notes.str());
  return result;
}

MeasurementsDialog::MeasurementsDialog(Environment environment, QWidget* parent)
    : QDialog(parent), environment_(std::move(environment)) {
  setWindowTitle(tr("Measurements"));
  thread_.setMaxThreadCount(1);
  found_.setSourceModel(&records_);
  found_.setSortRole(TextTableModel::SortRole);
  found_.setFilterKeyColumn(-1);
  found_.setFilterCaseSensitivity(Qt::CaseInsensitive);

  files_ = text_label();
  busy_ = new QProgressBar;
  busy_->setRange(0, 0);
  busy_->setAccessibleName(tr("Checking"));
  problem_label_ = text_label();
  problem_label_->setAccessibleName(tr("Problem"));
  remarks_ = text_label();
  summary_view_ = make_table(&summary_, tr("Summary by kind and statistic"));
  records_view_ = make_table(&found_, tr("Records: predicted, measured and error"));
  search_ = new QLineEdit;
  search_->setPlaceholderText(tr("Search records"));
  search_->setAccessibleName(tr("Search records"));
  search_->setClearButtonEnabled(true);
  connect(search_, &QLineEdit::textChanged, &found_, &QSortFilterProxyModel::setFilterFixedString);
  worst_first_ = new QCheckBox(tr("&Largest errors first"));
  connect(worst_first_, &QCheckBox::toggled, this, &MeasurementsDialog::set_worst_first);
  copy_ = new QPushButton(tr("&Copy as Markdown"));
  connect(copy_, &QPushButton::clicked, this, &MeasurementsDialog::copy);
  auto* buttons = new QDialogButtonBox(QDialogButtonBox::Close);
  buttons->addButton(copy_, QDialogButtonBox::ActionRole);
  connect(buttons, &QDialogButtonBox::rejected, this, &QDialog::reject);

  auto* bar = new QHBoxLayout;
  bar->addWidget(search_, 1);
  bar->addWidget(worst_first_);
  auto* layout = new QVBoxLayout(this);
  for (QWidget* each :
       {static_cast<QWidget*>(files_), static_cast<QWidget*>(busy_), static_cast<QWidget*>(problem_label_),
        static_cast<QWidget*>(summary_view_), static_cast<QWidget*>(remarks_)})
    layout->addWidget(each);
  layout->addLayout(bar);
  layout->addWidget(records_view_, 3);
  layout->addWidget(buttons);
  layout->setStretchFactor(summary_view_, 1);
  resize(900, 600);
  set_busy(false);
  show_problem({});
}

MeasurementsDialog::~MeasurementsDialog() {
  drop();
  thread_.waitForDone();
}

void MeasurementsDialog::drop() {
  if (dropped_) *dropped_ = true;
  thread_.clear();
}

void MeasurementsDialog::check(const QStringList& files, const std::optional<Subject>& plan) {
  files_->setText(files.join(u'\n'));
  set_busy(true);
  const int number = ++asked_;
  drop();
  dropped_ = std::make_shared<std::atomic<bool>>(false);
  thread_.start([this, files, plan, number, dropped = dropped_] {
    const Work work(dropped.get());
    std::optional<CheckedFiles> result;
    QString problem;
    try {
      result = check_files(files, plan, environment_);
    } catch (const Stopped&) {
      return;
    } catch (const InputError& error) {
      problem = QString::fromUtf8(error.what());
    } catch (const std::exception& error) {
      problem = tr("The check failed: %1").arg(QString::fromUtf8(error.what()));
    }
    QMetaObject::invokeMethod(this, [this, number, result = std::move(result), problem]() mutable {
      if (number != asked_) return;
      set_busy(false);
      if (result)
        show_result(std::move(*result));
      else
        show_problem(problem);
      Q_EMIT checked();
    });
  });
}

void MeasurementsDialog::set_busy(bool busy) { busy_->setVisible(busy); }

void MeasurementsDialog::show_result(CheckedFiles result) {
  show_problem({});
  result_ = std::move(result);
  const CheckReport& report = result_->report;
  summary_.show(with_headings(
      group_table(report),
      {tr("Kind"), tr("Statistic"), tr("Records"), tr("Judged"), tr("Skipped"), tr("Median error"),
       tr("9 in 10 within"), tr("Worst"), tr("More than 5 % low"), tr("Equal"), tr("Phase right")}));
  records_.show(with_headings(record_table(report), {tr("Run"), tr("File"), tr("Kind"), tr("Statistic"),
                                                     tr("Predicted"), tr("Measured"), tr("Error")}),
                sizes_of_errors(report), hints_of(report));
  remarks_->setText(remarks().join(u'\n'));
  remarks_->setVisible(!remarks_->text().isEmpty());
  copy_->setEnabled(true);
  for (QTableView* view : {summary_view_, records_view_}) view->resizeColumnsToContents();
  arrange_records();
}

/// Moves the columns that most records share to the end.
void MeasurementsDialog::arrange_records() {
  constexpr int kRun = 0, kFile = 1, kKind = 2, kWidestRun = 400;
  QHeaderView* header = records_view_->horizontalHeader();
  for (const int column : {kKind, kFile})
    header->moveSection(header->visualIndex(column), header->count() - 1);
  header->resizeSection(kRun, std::min(header->sectionSize(kRun), kWidestRun));
}

QStringList MeasurementsDialog::remarks() const {
  QStringList lines;
  const CheckReport& report = result_->report;
  if (const std::string fits = fits_sentence(report.fits); !fits.empty()) lines << qt(fits);
  for (const std::string& each : report.failures) lines << tr("Fails: %1").arg(qt(each));
  return lines + result_->notes;
}

void MeasurementsDialog::show_problem(const QString& problem) {
  problem_ = problem;
  result_.reset();
  summary_.show({});
  records_.show({});
  remarks_->hide();
  copy_->setEnabled(false);
  problem_label_->setText(problem);
  problem_label_->setVisible(!problem.isEmpty());
}

void MeasurementsDialog::set_worst_first(bool worst_first) {
  worst_first_->setChecked(worst_first);
  found_.sort(worst_first ? 0 : -1, Qt::DescendingOrder);
}

void MeasurementsDialog::copy() const {
  if (result_) QApplication::clipboard()->setText(qt(markdown_of(check_document(result_->report))));
}

}  // namespace zplan::gui
