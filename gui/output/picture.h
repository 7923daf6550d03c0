#pragma once
// Writes and prints charts, which are passed as paint functions.

#include <QColor>
#include <QImage>
#include <QPalette>
#include <QString>
#include <functional>
#include <vector>

class QPainter;
class QPrinter;

namespace zplan::gui {

/// Paints into a rectangle in units of the screen: pixels before scaling.
using Paint = std::function<void(QPainter&, const QRectF&)>;

struct Picture {
  QString title;
  QSizeF size;        ///< in units of the screen
  QColor background;  ///< filled before `paint`
  Paint paint;
};

/// Returns the picture with two pixels for each unit of the screen, for sharp text.
[[nodiscard]] QImage draw_picture(const Picture& picture);

/// Writes PNG, SVG or PDF by the suffix of the name. Returns an error that names the file, and then leaves an
/// existing file as it was; empty on success.
[[nodiscard]] QString write_picture(const QString& path, const Picture& picture);
/// Returns the name filter for QFileDialog.
[[nodiscard]] QString picture_filter();

/// Returns colours for white paper.
[[nodiscard]] QPalette paper_palette();

/// The contents of a print: a title, charts as wide as the page, then a table.
struct Pages {
  QString title;
  std::vector<Picture> pictures;  ///< painted for paper_palette()
  QString table;                  ///< HTML; empty: none
};
/// Prints the pages. Returns an error; empty on success.
[[nodiscard]] QString print(QPrinter& printer, const Pages& pages);

}  // namespace zplan::gui
