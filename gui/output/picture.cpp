#include "gui/output/picture.h"

#include <QAbstractTextDocumentLayout>
#include <QBuffer>
#include <QCoreApplication>
#include <QFileInfo>
#include <QFontMetricsF>
#include <QGuiApplication>
#include <QPageSize>
#include <QPainter>
#include <QPdfWriter>
#include <QPrinter>
#include <QScreen>
#include <QSvgGenerator>
#include <QTextDocument>
#include <cmath>

#include "gui/output/export.h"

namespace zplan::gui {

namespace {

struct Pictures {
  Q_DECLARE_TR_FUNCTIONS(zplan::gui::Pictures)
};

constexpr int kScale = 2;            // pixels of a file per unit of the screen
constexpr qreal kMostSide = 16'384;  // largest width and height, in units of the screen

/// Returns the screen's dots per inch. With it, a font has the same size in units of every device.
int screen_resolution() {
  const QScreen* screen = QGuiApplication::primaryScreen();
  return screen == nullptr ? 96 : static_cast<int>(std::lround(screen->logicalDotsPerInch()));
}

QSize whole(const QSizeF& size) {
  return {static_cast<int>(std::ceil(size.width())), static_cast<int>(std::ceil(size.height()))};
}

void paint_picture(QPainter& painter, const Picture& picture, const QRectF& area) {
  painter.setRenderHints(QPainter::Antialiasing | QPainter::TextAntialiasing);
  painter.fillRect(area, picture.background);
  painter.save();
  picture.paint(painter, area);
  painter.restore();
}

/// Returns the content of a file; empty on failure.
using Encoder = QByteArray (*)(const Picture&);

QByteArray as_png(const Picture& picture) {
  QByteArray content;
  QBuffer buffer(&content);
  const QImage image = draw_picture(picture);
  if (image.isNull() || !buffer.open(QIODevice::WriteOnly) || !image.save(&buffer, "PNG")) return {};
  return content;
}

QByteArray as_svg(const Picture& picture) {
  QByteArray content;
  QBuffer buffer(&content);
  QSvgGenerator device;
  device.setOutputDevice(&buffer);
  device.setResolution(screen_resolution());
  device.setSize(whole(picture.size));
  device.setViewBox(QRectF({}, picture.size));
  device.setTitle(picture.title);
  QPainter painter;
  if (!painter.begin(&device)) return {};
  paint_picture(painter, picture, {{}, picture.size});
  return painter.end() ? content : QByteArray();
}

QByteArray as_pdf(const Picture& picture) {
  constexpr qreal kPointsPerInch = 72;
  QByteArray content;
  QBuffer buffer(&content);
  if (!buffer.open(QIODevice::WriteOnly)) return {};
  QPdfWriter device(&buffer);
  const int resolution = screen_resolution();
  device.setResolution(resolution);
  device.setTitle(picture.title);
  device.setPageSize(
      QPageSize(picture.size * kPointsPerInch / resolution, QPageSize::Point, {}, QPageSize::ExactMatch));
  device.setPageMargins({});
  QPainter painter;
  if (!painter.begin(&device)) return {};
  paint_picture(painter, picture, {{}, picture.size});
  return painter.end() ? content : QByteArray();
}

struct Kind {
  const char* extension;
  Encoder encode;
};
constexpr Kind kKinds[]{{"png", as_png}, {"svg", as_svg}, {"pdf", as_pdf}};

QString kinds_text() { return QStringLiteral(".png, .svg, .pdf"); }

bool can_be_drawn(const QSizeF& size) {
  return size.width() >= 1 && size.height() >= 1 && size.width() <= kMostSide && size.height() <= kMostSide;
}

// ---- on paper

/// A page that is filled from top to bottom.
class Sheet {
 public:
  Sheet(QPrinter& printer, QPainter& painter)
      : printer_(printer), painter_(painter), area_({}, printer.pageRect(QPrinter::DevicePixel).size()) {
    area_.setHeight(area_.height() - 2 * line());
    finish();
  }

  [[nodiscard]] const QRectF& area() const { return area_; }
  [[nodiscard]] qreal line() const { return QFontMetricsF(painter_.font(), &printer_).lineSpacing(); }

  /// Returns the room for the next item of this height, on the next page if necessary. At most a page.
  QRectF take(qreal height) {
    if (top_ > 0 && top_ + height > area_.height()) next();
    const QRectF room(0, top_, area_.width(), std::min(height, area_.height()));
    top_ += height + line();
    return room;
  }
  void next() {
    printer_.newPage();
    ++page_;
    top_ = 0;
    finish();
  }

 private:
  /// Draws the page number below the area.
  void finish() {
    painter_.drawText(QRectF(0, area_.height() + line(), area_.width(), line()),
                      Qt::AlignRight | Qt::AlignBottom, Pictures::tr("Page %1").arg(page_));
  }

  QPrinter& printer_;
  QPainter& painter_;
  QRectF area_;
  qreal top_{};
  int page_{1};
};

void print_title(const QString& title, QPainter& painter, Sheet& sheet) {
  if (title.isEmpty()) return;
  painter.save();
  QFont font = painter.font();
  font.setBold(true);
  painter.setFont(font);
  constexpr int kFlags = Qt::AlignLeft | Qt::TextWordWrap;
  const QRectF asked = painter.boundingRect(sheet.area(), kFlags, title);
  painter.drawText(sheet.take(asked.height()), kFlags, title);
  painter.restore();
}

/// Prints a picture as large as the page's width and height allow.
void print_picture(const Picture& picture, QPainter& painter, Sheet& sheet) {
  if (!can_be_drawn(picture.size)) return;
  const QSizeF heading(sheet.area().width(), picture.title.isEmpty() ? 0 : 1.5 * sheet.line());
  const qreal scale = std::min(sheet.area().width() / picture.size.width(),
                               (sheet.area().height() - heading.height()) / picture.size.height());
  const QRectF room = sheet.take(heading.height() + picture.size.height() * scale);
  painter.drawText(QRectF(room.topLeft(), heading), Qt::AlignLeft, picture.title);
  painter.save();
  painter.translate(0, room.top() + heading.height());
  painter.scale(scale, scale);
  painter.setClipRect(QRectF({}, picture.size));
  paint_picture(painter, picture, {{}, picture.size});
  painter.restore();
}

/// Prints a table on pages of its own.
void print_table(const QString& html, QPrinter& printer, QPainter& painter, Sheet& sheet, bool first) {
  if (html.isEmpty()) return;
  QTextDocument document;
  document.setDocumentMargin(0);
  document.setDefaultFont(painter.font());
  document.documentLayout()->setPaintDevice(&printer);
  document.setHtml(html);
  document.setPageSize(sheet.area().size());
  QAbstractTextDocumentLayout::PaintContext context;
  context.palette = paper_palette();
  for (int page = 0; page < document.pageCount(); ++page) {
    if (page > 0 || !first) sheet.next();
    painter.save();
    painter.translate(0, -page * sheet.area().height());
    context.clip = sheet.area().translated(0, page * sheet.area().height());
    painter.setClipRect(context.clip);
    document.documentLayout()->draw(&painter, context);
    painter.restore();
  }
}

}  // namespace

QImage draw_picture(const Picture& picture) {
  if (!can_be_drawn(picture.size)) return {};
  QImage image(whole(picture.size * kScale), QImage::Format_ARGB32_Premultiplied);
  if (image.isNull()) return {};
  image.setDevicePixelRatio(kScale);
  image.fill(picture.background);
  QPainter painter(&image);
  paint_picture(painter, picture, {{}, picture.size});
  return image;
}

QString write_picture(const QString& path, const Picture& picture) {
  const QString extension = QFileInfo(path).suffix().toLower();
  for (const Kind& kind : kKinds) {
    if (extension != QLatin1String(kind.extension)) continue;
    const QByteArray content = can_be_drawn(picture.size) ? kind.encode(picture) : QByteArray();
    if (content.isEmpty()) return Pictures::tr("%1 is not written: there is nothing to draw").arg(path);
    return write_whole_file(path, content);
  }
  return Pictures::tr("%1 is not written: the name must end in one of %2").arg(path, kinds_text());
}

QString picture_filter() {
  return QStringList{Pictures::tr("PNG picture (*.png)"), Pictures::tr("SVG drawing (*.svg)"),
                     Pictures::tr("PDF document (*.pdf)")}
      .join(QStringLiteral(";;"));
}

QPalette paper_palette() {
  const QColor ink(0x1e, 0x1e, 0x1e), paper(Qt::white), shade(0xf2, 0xf2, 0xf2);
  QPalette palette(ink, shade, paper, QColor(0x80, 0x80, 0x80), QColor(0xb0, 0xb0, 0xb0), ink, paper, paper,
                   paper);
  palette.setColor(QPalette::AlternateBase, shade);
  palette.setColor(QPalette::PlaceholderText, QColor(0x60, 0x60, 0x60));
  return palette;
}

QString print(QPrinter& printer, const Pages& pages) {
  // At the screen's resolution charts and text have the same proportions as on the screen.
  printer.setResolution(screen_resolution());
  printer.setDocName(pages.title);
  QPainter painter;
  if (!painter.begin(&printer))
    return Pictures::tr("Nothing is printed: %1 cannot be used")
        .arg(printer.outputFileName().isEmpty() ? printer.printerName() : printer.outputFileName());
  painter.setFont(QGuiApplication::font());
  painter.setPen(paper_palette().color(QPalette::Text));
  Sheet sheet(printer, painter);
  print_title(pages.title, painter, sheet);
  for (const Picture& each : pages.pictures) print_picture(each, painter, sheet);
  print_table(pages.table, printer, painter, sheet, pages.title.isEmpty() && pages.pictures.empty());
  if (!painter.end() || printer.printerState() == QPrinter::Error)
    return Pictures::tr("Printing failed before the last page");
  return {};
}

}  // namespace zplan::gui
