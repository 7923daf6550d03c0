#pragma once
// A slider over numbers that people pick, each as far from the next by ratio, about, as all others.

#include <QSlider>
#include <vector>

namespace zplan::gui {

class LogSlider : public QSlider {
  Q_OBJECT

 public:
  /// `stops` rise and are not empty.
  explicit LogSlider(std::vector<qint64> stops, QWidget* parent = nullptr);

  /// Moves to the stop nearest by ratio; emits nothing. Nothing moves while it is dragged.
  void show_number(qint64 number);
  /// No stop beyond `most`, which is one itself; 0: all of them.
  void set_most(qint64 most);
  [[nodiscard]] const std::vector<qint64>& stops() const { return stops_; }

 Q_SIGNALS:
  void picked(qint64 number);

 private:
  void place();

  std::vector<qint64> all_, stops_;
  qint64 shown_{1}, most_{};
};

/// 512, 768, 1024, 1536, … 1 Mi
[[nodiscard]] std::vector<qint64> sequence_stops();
/// 1, 2, 3, 4, 6, 8, 12, … 64
[[nodiscard]] std::vector<qint64> micro_batch_stops();
/// 1 to 8, then steps of about a quarter that nodes divide, to 1024
[[nodiscard]] std::vector<qint64> gpu_stops();

}  // namespace zplan::gui
