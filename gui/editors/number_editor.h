#pragma once
// A number that may be left open, with a slider beside it.

#include "gui/editors/log_slider.h"
#include "gui/editors/value_editor.h"

namespace zplan::gui {

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
