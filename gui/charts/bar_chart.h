#pragma once

#include "gui/charts/bar_layout.h"
#include "gui/charts/chart.h"

namespace zplan::gui {

/// Stacked bars of a StackModel, one per row. The up and down keys change the current row, left and right its
/// part; space shows the tooltip.
class BarChart : public Chart {
  Q_OBJECT

 public:
  explicit BarChart(QWidget* parent = nullptr);

  [[nodiscard]] QSize picture_size() const override;
  [[nodiscard]] QRectF place_of(const QModelIndex& index) const override;
  [[nodiscard]] QModelIndex index_at(const QPointF& at) const override;
  /// Returns the layout on the screen.
  [[nodiscard]] BarLayout layout_now() const;

 Q_SIGNALS:
  void activated(int row);

 protected:
  void draw(QPainter& painter, const QRectF& area, const QPalette& palette, const View& view) const override;
  [[nodiscard]] int moved(int row, int key) const override;
  void activate(int row) override;
  [[nodiscard]] QString summary() const override;
  void arrange() override;
  [[nodiscard]] QModelIndex spoken_index(int row) const override;
  void keyPressEvent(QKeyEvent* event) override;

 private:
  void show_current();
};

}  // namespace zplan::gui
