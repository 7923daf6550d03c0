#include "gui/editors/log_slider.h"

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

}  // namespace zplan::gui
