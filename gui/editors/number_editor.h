#pragma once
// A number that may be left open, with a slider over numbers that people pick beside it.

#include <QSlider>
#include <vector>

#include "gui/editors/value_editor.h"

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

/// The text may be anything: what is no number is explained where the scenario's problem is shown.
class NumberEditor : public ValueEditor {
  Q_OBJECT

 public:
  explicit NumberEditor(std::vector<qint64> stops, QWidget* parent = nullptr);
  void show_value(const QString& value) override;
  void show_default(const QString& text) override;
  [[nodiscard]] QList<QWidget*> inputs() const override { return {edit_, slider_}; }
  [[nodiscard]] LogSlider* slider() const { return slider_; }

 protected:
  /// Up and down go to the next stop.
  bool eventFilter(QObject* watched, QEvent* event) override;

 private:
  FieldEdit* edit_;
  LogSlider* slider_;
};

}  // namespace zplan::gui
