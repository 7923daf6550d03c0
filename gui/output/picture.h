#pragma once
// Charts as files and on paper. What paints them is a function, so that nothing here knows a chart.

#include <QColor>
#include <QImage>
#include <QPalette>
#include <QString>
#include <functional>
#include <vector>

class QPainter;
class QPrinter;

namespace zplan::gui {

/// Paints into a rectangle whose units are the screen's: pixels before scaling.
using Paint = std::function<void(QPainter&, const QRectF&)>;

struct Picture {
  QString title;
  QSizeF size;        ///< on the screen
  QColor background;  ///< what the paint is made for; charts leave it free
  Paint paint;
};

/// Two pixels for each of the screen, for text that stays sharp.
[[nodiscard]] QImage draw_picture(const Picture& picture);

/// PNG, SVG or PDF, as the file's name ends. Returns what went wrong, naming the file, and leaves then what
/// was there before; empty where nothing did.
[[nodiscard]] QString write_picture(const QString& path, const Picture& picture);
/// Of QFileDialog.
[[nodiscard]] QString picture_filter();

/// Colours on white paper, whatever the screen's are.
[[nodiscard]] QPalette paper_palette();

/// What is printed: a title, charts as wide as the page one below the other, then a table.
struct Pages {
  QString title;
  std::vector<Picture> pictures;  ///< painted for paper_palette()
  QString table;                  ///< HTML; empty: none
};
/// Returns what went wrong; empty where nothing did.
[[nodiscard]] QString print(QPrinter& printer, const Pages& pages);

}  // namespace zplan::gui
