#include "gui/editors/number_editor.h"

#include <QHBoxLayout>
#include <QKeyEvent>
#include <QSignalBlocker>
#include <algorithm>
#include <cmath>

namespace zplan::gui {

LogSlider::LogSlider(std::vector<qint64> stops, QWidget* parent)
    : QSlider(Qt::Horizontal, parent), all_(std::move(stops)), stops_(all_) {
  setPageStep(2);
  place();
  connect(this, &QSlider::valueChanged, this,
          [this](int stop) { Q_EMIT picked(stops_[static_cast<std::size_t>(stop)]); });
}

void LogSlider::show_number(qint64 number) {
  shown_ = std::max<qint64>(number, 1);
  place();
}

void LogSlider::set_most(qint64 most) {
  if (most == most_ || isSliderDown()) return;
  most_ = most;
  stops_ = all_;
  if (most > 0) {
    std::erase_if(stops_, [most](qint64 stop) { return stop >= most; });
    stops_.push_back(most);
  }
  place();
}

void LogSlider::place() {
  if (isSliderDown()) return;
  const QSignalBlocker blocker(this);
  setRange(0, static_cast<int>(stops_.size()) - 1);
  const auto distance = [this](qint64 stop) {
    return std::abs(std::log(static_cast<double>(stop) / static_cast<double>(shown_)));
  };
  setValue(static_cast<int>(std::ranges::min_element(stops_, {}, distance) - stops_.begin()));
}

std::vector<qint64> sequence_stops() {
  std::vector<qint64> stops;
  for (qint64 power = 512; power < 1'048'576; power *= 2) {
    stops.push_back(power);
    stops.push_back(power + power / 2);
  }
  stops.push_back(1'048'576);
  return stops;
}

std::vector<qint64> micro_batch_stops() { return {1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64}; }

std::vector<qint64> gpu_stops() {
  std::vector<qint64> stops{1, 2, 3, 4, 5, 6, 7};
  for (qint64 power = 8; power < 1024; power *= 2)
    for (const qint64 quarters : {4, 5, 6, 7}) stops.push_back(power * quarters / 4);
  stops.push_back(1024);
  return stops;
}

NumberEditor::NumberEditor(std::vector<qint64> stops, QWidget* parent)
    : ValueEditor(parent), edit_(new FieldEdit(this)), slider_(new LogSlider(std::move(stops), this)) {
  auto* row = new QHBoxLayout(this);
  row->setContentsMargins(0, 0, 0, 0);
  row->addWidget(edit_, 2);
  row->addWidget(slider_, 3);
  edit_->setMinimumWidth(edit_->fontMetrics().horizontalAdvance(QStringLiteral("1048576")) + 16);
  edit_->installEventFilter(this);
  guard_wheel(slider_);
  connect(edit_, &QLineEdit::textChanged, this, [this] { Q_EMIT edited(edit_->value(), Step::continued); });
  connect(slider_, &QSlider::sliderPressed, this, &ValueEditor::began);
  connect(slider_, &LogSlider::picked, this,
          [this](qint64 number) { Q_EMIT edited(QString::number(number), Step::continued); });
}

void NumberEditor::show_value(const QString& value) {
  edit_->show_text(value);
  bool is_number = false;
  const qint64 number = value.toLongLong(&is_number);
  if (is_number) slider_->show_number(number);
}

void NumberEditor::show_default(const QString& text) {
  edit_->setPlaceholderText(text);
  bool is_number = false;
  const qint64 number = text.toLongLong(&is_number);
  if (is_number && edit_->value().toLongLong() == 0) slider_->show_number(number);
}

bool NumberEditor::eventFilter(QObject* watched, QEvent* event) {
  if (watched == edit_ && event->type() == QEvent::KeyPress) {
    const int key = static_cast<QKeyEvent*>(event)->key();
    if (key == Qt::Key_Up || key == Qt::Key_Down) {
      slider_->triggerAction(key == Qt::Key_Up ? QSlider::SliderSingleStepAdd : QSlider::SliderSingleStepSub);
      return true;
    }
  }
  return ValueEditor::eventFilter(watched, event);
}

}  // namespace zplan::gui
