#include "gui/editors/number_editor.h"

#include <QHBoxLayout>
#include <QKeyEvent>

namespace zplan::gui {

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
