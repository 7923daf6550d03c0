#pragma once
// The base of all charts: painting a model, the current row, the row under the mouse, and keys.

#include <QAbstractItemModel>
#include <QAbstractScrollArea>
#include <QPointer>

class QHelpEvent;

namespace zplan::gui {

/// A picture of an item model. Its accessible description has all figures in short, then the current row.
class Chart : public QAbstractScrollArea {
  Q_OBJECT

 public:
  /// `least_lines`: least height, in lines of text.
  Chart(int least_lines, QWidget* parent);

  void set_model(QAbstractItemModel* model);
  [[nodiscard]] QAbstractItemModel* model() const { return model_; }
  /// Returns the current row of the model; −1: none.
  [[nodiscard]] int current() const { return current_; }
  void set_current(int row);

  /// Paints the whole picture, without current and hovered rows, for files and paper. Uses the painter's font
  /// and units: scale a painter of a finer resolution to about 96 dots per inch and give it a font in pixels.
  /// Does not paint the background.
  void paint(QPainter& painter, const QRectF& area, const QPalette& palette) const;
  /// Returns the size at which nothing is cut off, in the widget's font.
  [[nodiscard]] virtual QSize picture_size() const = 0;
  /// Returns where a cell is drawn in the viewport; empty if it is not drawn.
  [[nodiscard]] virtual QRectF place_of(const QModelIndex& index) const = 0;
  /// Returns the cell drawn at a point; for a whole row its last column.
  [[nodiscard]] virtual QModelIndex index_at(const QPointF& at) const = 0;

  [[nodiscard]] QSize sizeHint() const override;
  [[nodiscard]] QSize minimumSizeHint() const override;

 Q_SIGNALS:
  void current_changed(int row);

 protected:
  /// The state of the widget that a picture shows.
  struct View {
    int current{-1}, hovered{-1}, hovered_column{-1}, part{-1};
    bool focused{};
    double scrolled{};  ///< pixels
  };
  virtual void draw(QPainter& painter, const QRectF& area, const QPalette& palette,
                    const View& view) const = 0;
  /// Returns the row that a key moves to from `row`; −1 if the chart does not use the key.
  [[nodiscard]] virtual int moved(int row, int key) const = 0;
  /// Reacts to Return or a double click on a row.
  virtual void activate(int row) = 0;
  /// Returns all figures in short.
  [[nodiscard]] virtual QString summary() const = 0;
  /// Adapts the scroll bars after a change of the model or the size.
  virtual void arrange() {}
  /// Returns the cell whose text describes a row.
  [[nodiscard]] virtual QModelIndex spoken_index(int row) const;
  /// True if a single click activates.
  [[nodiscard]] virtual bool is_link() const { return false; }

  /// Returns a size in characters and lines of the widget's font.
  [[nodiscard]] QSize size_of(int characters, int lines) const;
  [[nodiscard]] int rows() const { return model_ == nullptr ? 0 : model_->rowCount(); }
  [[nodiscard]] QVariant value(int row, int column, int role) const;
  [[nodiscard]] View view() const;
  void set_part(int part);
  [[nodiscard]] int part() const { return part_; }
  /// Draws "Nothing to show".
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

  int least_lines_;
  QPointer<QAbstractItemModel> model_;
  int current_{-1}, hovered_{-1}, hovered_column_{-1}, part_{-1};
};

}  // namespace zplan::gui
