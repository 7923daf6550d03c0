#pragma once
// What charts share: a model that is painted, a row that is current, one under the mouse, and the keys.

#include <QAbstractItemModel>
#include <QAbstractScrollArea>
#include <QPointer>

class QHelpEvent;

namespace zplan::gui {

/// A picture of an item model; its table is the same in text. Who cannot see it hears the accessible
/// description: all in short, then the current row.
class Chart : public QAbstractScrollArea {
  Q_OBJECT

 public:
  explicit Chart(QWidget* parent = nullptr);

  void set_model(QAbstractItemModel* model);
  [[nodiscard]] QAbstractItemModel* model() const { return model_; }
  /// A row of the model; −1: none.
  [[nodiscard]] int current() const { return current_; }
  void set_current(int row);

  /// The whole picture, without what the mouse and the keys are at: for pictures and paper. In the painter's
  /// font, with lines in its units: scale a painter of finer pixels to about 96 an inch, and give it a font
  /// in pixels. The background is left as it is.
  void paint(QPainter& painter, const QRectF& area, const QPalette& palette) const;
  /// At which nothing is cut off, in the widget's font.
  [[nodiscard]] virtual QSize picture_size() const = 0;
  /// Where a cell is drawn, in the viewport; empty where it is not.
  [[nodiscard]] virtual QRectF place_of(const QModelIndex& index) const = 0;
  /// The cell that is drawn there: a part of a bar; for a whole row its last column.
  [[nodiscard]] virtual QModelIndex index_at(const QPointF& at) const = 0;

  [[nodiscard]] QSize sizeHint() const override;

 Q_SIGNALS:
  void current_changed(int row);

 protected:
  /// What a picture shows beside its model.
  struct View {
    int current{-1}, hovered{-1}, hovered_column{-1}, part{-1};
    bool focused{};
    double scrolled{};  ///< pixels
  };
  virtual void draw(QPainter& painter, const QRectF& area, const QPalette& palette,
                    const View& view) const = 0;
  /// The row that a key moves to from the current one; −1: it is none of the chart's.
  [[nodiscard]] virtual int moved(int row, int key) const = 0;
  /// Return or a double click on a row.
  virtual void activate(int row) = 0;
  /// All figures in short.
  [[nodiscard]] virtual QString summary() const = 0;
  /// The model or the size is another: scroll bars.
  virtual void arrange() {}
  /// What the current row's description is taken from.
  [[nodiscard]] virtual QModelIndex spoken_index(int row) const;
  /// Whether one click activates already.
  [[nodiscard]] virtual bool is_link() const { return false; }

  [[nodiscard]] int rows() const { return model_ == nullptr ? 0 : model_->rowCount(); }
  [[nodiscard]] QVariant value(int row, int column, int role) const;
  [[nodiscard]] View view() const;
  void set_part(int part);
  [[nodiscard]] int part() const { return part_; }
  /// Nothing to show, said in the middle.
  static void draw_nothing(QPainter& painter, const QRectF& area, const QPalette& palette);

  void paintEvent(QPaintEvent* event) override;
  void resizeEvent(QResizeEvent* event) override;
  void keyPressEvent(QKeyEvent* event) override;
  void mousePressEvent(QMouseEvent* event) override;
  void mouseReleaseEvent(QMouseEvent* event) override;
  void mouseDoubleClickEvent(QMouseEvent* event) override;
  void mouseMoveEvent(QMouseEvent* event) override;
  void focusInEvent(QFocusEvent* event) override;
  void focusOutEvent(QFocusEvent* event) override;
  void changeEvent(QEvent* event) override;
  bool viewportEvent(QEvent* event) override;
  void scrollContentsBy(int dx, int dy) override;

 private:
  void renew();
  void describe();
  void hover(const QModelIndex& index);
  void show_tip(const QPoint& global, const QModelIndex& index);

  QPointer<QAbstractItemModel> model_;
  int current_{-1}, hovered_{-1}, hovered_column_{-1}, part_{-1};
};

}  // namespace zplan::gui
