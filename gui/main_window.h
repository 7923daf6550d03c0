#pragma once

#include <QMainWindow>

#include "gui/plan_table_model.h"

class QDoubleSpinBox;
class QLabel;
class QLineEdit;
class QSpinBox;

namespace zplan::gui {

/// Model, GPUs and memory above; the strategies below, planned again at every change.
class MainWindow : public QMainWindow {
  Q_OBJECT

 public:
  explicit MainWindow(QWidget* parent = nullptr);

 private:
  void plan();

  QLineEdit* model_;
  QSpinBox* gpus_;
  QDoubleSpinBox* memory_;
  QLabel* message_;
  PlanTableModel* plans_;
};

}  // namespace zplan::gui
