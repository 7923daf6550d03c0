#include "gui/output/picture.h"

#include <gtest/gtest.h>

#include <QFile>
#include <QPainter>
#include <QPrinter>
#include <QXmlStreamReader>

#include "gui/output/export.h"
#include "support.h"

namespace zplan::gui {
namespace {

Picture drawing() {
  return {"Bars", QSizeF(320, 120), Qt::white, [](QPainter& painter, const QRectF& area) {
            painter.fillRect(QRectF(area.left(), area.top(), area.width() / 2, area.height()), Qt::blue);
            painter.setPen(Qt::black);
            painter.drawText(QPointF(200, 60), "34.1 GiB");
            painter.drawLine(QPointF(10, 10), QPointF(300, 110));
          }};
}

QByteArray content(const QString& path) {
  QFile file(path);
  EXPECT_TRUE(file.open(QIODevice::ReadOnly)) << path.toStdString();
  return file.readAll();
}

TEST(Pictures, APngHasTwoPixelsForOne) {
  const QTemporaryDir folder;
  const QString path = folder.filePath("bars.PNG");
  ASSERT_EQ(write_picture(path, drawing()), "");
  const QImage image(path);
  ASSERT_EQ(image.size(), QSize(640, 240));
  EXPECT_EQ(image.pixelColor(40, 200), QColor(Qt::blue));
  EXPECT_EQ(image.pixelColor(630, 10), QColor(Qt::white));
}

TEST(Pictures, AnSvgHasTextAndShapes) {
  const QTemporaryDir folder;
  const QString path = folder.filePath("bars.svg");
  ASSERT_EQ(write_picture(path, drawing()), "");
  QXmlStreamReader xml(content(path));
  QStringList seen, texts;
  QString view_box;
  while (!xml.atEnd()) {
    if (xml.readNext() != QXmlStreamReader::StartElement) continue;
    seen << xml.name().toString();
    if (xml.name() == u"svg") view_box = xml.attributes().value("viewBox").toString();
    if (xml.name() == u"text" || xml.name() == u"title") texts << xml.readElementText().trimmed();
  }
  EXPECT_FALSE(xml.hasError()) << xml.errorString().toStdString();
  EXPECT_TRUE(texts.contains("34.1 GiB"));
  EXPECT_TRUE(texts.contains("Bars"));
  EXPECT_TRUE(seen.contains("rect") || seen.contains("path"));
  EXPECT_EQ(view_box, "0 0 320 120");
}

TEST(Pictures, APdfHasOnePageOfTheDrawingsSize) {
  const QTemporaryDir folder;
  const QString path = folder.filePath("bars.pdf");
  ASSERT_EQ(write_picture(path, drawing()), "");
  const QByteArray pdf = content(path);
  EXPECT_TRUE(pdf.startsWith("%PDF-"));
  EXPECT_TRUE(pdf.trimmed().endsWith("%%EOF"));
  EXPECT_EQ(pdf.count("/Type /Page\n"), 1);
  // In points, at 96 pixels to the inch.
  EXPECT_TRUE(pdf.contains("/MediaBox [0 0 240.000000 90.000000]"))
      << pdf.mid(pdf.indexOf("/MediaBox"), 60).toStdString();
  EXPECT_FALSE(pdf.contains("/Subtype /Image")) << "lines and letters, no pixels";
}

TEST(Pictures, AnUnknownEndingNamesThoseThatAreTaken) {
  const QTemporaryDir folder;
  for (const char* name : {"bars.gif", "bars"}) {
    const QString message = write_picture(folder.filePath(name), drawing());
    EXPECT_TRUE(message.contains(name) && message.contains(".png, .svg, .pdf")) << message.toStdString();
  }
  EXPECT_TRUE(QDir(folder.path()).isEmpty());
}

TEST(Pictures, WhatCannotBeWrittenLeavesNothing) {
  const QTemporaryDir folder;
  for (const char* extension : {"png", "svg", "pdf"}) {
    const QString path = folder.filePath(QString("none/bars.%1").arg(extension));
    EXPECT_TRUE(write_picture(path, drawing()).contains(path));
    // A folder stands where the file should be.
    const QString taken = folder.filePath(QString("taken.%1").arg(extension));
    ASSERT_TRUE(QDir().mkdir(taken));
    EXPECT_FALSE(write_picture(taken, drawing()).isEmpty());
    Picture empty = drawing();
    empty.size = {};
    EXPECT_TRUE(
        write_picture(folder.filePath(QString("a.%1").arg(extension)), empty).contains("nothing to draw"));
  }
  EXPECT_EQ(QDir(folder.path()).entryList(QDir::Files), QStringList());
}

TEST(Pictures, PagesHoldTitleChartsAndTable) {
  const QTemporaryDir folder;
  const QString path = folder.filePath("pages.pdf");
  QPrinter printer;
  printer.setOutputFormat(QPrinter::PdfFormat);
  printer.setOutputFileName(path);
  printer.setPageSize(QPageSize(QPageSize::A4));
  const Compared compared{{test::subject(), test::subject(test::readme(), 1)}, 0, false};
  Picture high = drawing();
  high.size = {320, 400};
  const test::WithPalette dark(test::dark_palette());
  ASSERT_EQ(print(printer, {"Two strategies", {drawing(), high, high}, comparison_html(compared)}), "");
  const QByteArray pdf = content(path);
  EXPECT_EQ(pdf.count("/Type /Page\n"), 4) << "one drawing and a high one, a high one, the table";
  EXPECT_FALSE(pdf.contains("/Subtype /Image"));
}

TEST(Pictures, APrinterThatCannotBeUsedIsNamed) {
  const QTemporaryDir folder;
  QPrinter printer;
  printer.setOutputFormat(QPrinter::PdfFormat);
  printer.setOutputFileName(folder.filePath("none/pages.pdf"));
  test::expect_message("QPainter::begin");
  test::expect_message("QPdfEngine");
  EXPECT_TRUE(print(printer, {"Title", {}, {}}).contains("none/pages.pdf"));
}

TEST(Pictures, PaperIsWhiteInADarkRoom) {
  const test::WithPalette dark(test::dark_palette());
  EXPECT_GT(paper_palette().color(QPalette::Base).lightness(), 250);
  EXPECT_LT(paper_palette().color(QPalette::Text).lightness(), 60);
  EXPECT_LT(paper_palette().color(QPalette::WindowText).lightness(), 60);
}

}  // namespace
}  // namespace zplan::gui
