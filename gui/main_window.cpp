#include "gui/main_window.h"

#include <QDoubleSpinBox>
#include <QFormLayout>
#include <QHeaderView>
#include <QLabel>
#include <QLineEdit>
#include <QSpinBox>
#include <QTableView>
#include <QVBoxLayout>

#include "models/catalogue/catalogue.h"

namespace zplan::gui {

namespace {

Question question(const QString& model, int gpus, double gib) {
  ClusterRequest request;
  request.gpus = gpus;
  request.memory = Bytes(static_cast<std::int64_t>(gib * static_cast<double>(kGiB.value)));
  return {.model = resolve_model(model.toStdString(), {}),
          .cluster = assemble_cluster(request, built_in_profiles()),
          .training = {},
          .space = {},
          .headroom = {},
          .unit = {}};
}

QString verdict(const Answer& answer) {
  if (const Plan* best = answer.recommended())
    return MainWindow::tr("Recommended: %1").arg(QString::fromStdString(best->id()));
  return MainWindow::tr("Nothing fits.");
}

}  // namespace

MainWindow::MainWindow(QWidget* parent)
    : QMainWindow(parent),
      model_(new QLineEdit("8B")),
      gpus_(new QSpinBox),
      memory_(new QDoubleSpinBox),
      message_(new QLabel),
      plans_(new PlanTableModel(this)) {
  setWindowTitle(tr("zplan"));
  gpus_->setRange(1, 1'000'000);
  gpus_->setValue(5);
  memory_->setRange(1, 4096);
  memory_->setValue(44);
  memory_->setSuffix(tr(" GiB"));

  auto* form = new QFormLayout;
  form->addRow(tr("&Model"), model_);
  form->addRow(tr("&GPUs"), gpus_);
  form->addRow(tr("Me&mory per GPU"), memory_);

  auto* table = new QTableView;
  table->setModel(plans_);
  table->setAccessibleName(tr("Strategies, best first"));
  table->setSelectionBehavior(QAbstractItemView::SelectRows);
  table->horizontalHeader()->setSectionResizeMode(QHeaderView::ResizeToContents);
  table->verticalHeader()->hide();
  message_->setWordWrap(true);

  auto* page = new QWidget;
  auto* layout = new QVBoxLayout(page);
  layout->addLayout(form);
  layout->addWidget(message_);
  layout->addWidget(table, 1);
  setCentralWidget(page);
  resize(760, 480);

  connect(model_, &QLineEdit::editingFinished, this, &MainWindow::plan);
  connect(gpus_, &QSpinBox::valueChanged, this, &MainWindow::plan);
  connect(memory_, &QDoubleSpinBox::valueChanged, this, &MainWindow::plan);
  plan();
}

void MainWindow::plan() {
  try {
    Question asked = question(model_->text(), gpus_->value(), memory_->value());
    Answer found = answer(asked);
    message_->setText(verdict(found));
    plans_->show(std::move(asked), std::move(found));
  } catch (const InputError& error) {
    // What was typed stays, and so does the last answer: the message says what is wrong with it.
    message_->setText(QString::fromUtf8(error.what()));
  }
}

}  // namespace zplan::gui
