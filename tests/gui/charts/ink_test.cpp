#include "gui/charts/ink.h"

#include <gtest/gtest.h>

#include <set>

#include "tests/gui/support.h"

namespace zplan::gui {
namespace {

constexpr int kParts = 9;

/// Palettes of desktops and unusual ones: black on white, amber on brown, a background of middle lightness.
std::vector<QPalette> palettes() {
  QPalette high = test::dark_palette(), solarized = test::light_palette(), brown = test::dark_palette();
  high.setColor(QPalette::Base, QColor(0, 0, 0));
  high.setColor(QPalette::Text, QColor(255, 255, 255));
  solarized.setColor(QPalette::Base, QColor(0xfd, 0xf6, 0xe3));
  brown.setColor(QPalette::Base, QColor(0x2b, 0x1d, 0x0e));
  return {test::light_palette(), test::dark_palette(), high, solarized, brown};
}

TEST(Ink, ContrastIsThatOfTheGuidelines) {
  EXPECT_NEAR(ink::contrast(Qt::white, Qt::black), 21, 1e-6);
  EXPECT_NEAR(ink::contrast(QColor(0x77, 0x77, 0x77), Qt::white), 4.48, 0.01);
  EXPECT_EQ(ink::contrast(Qt::red, Qt::red), 1);
}

TEST(Ink, PartsStandOutFromTheBackgroundAndFromTheirNeighbours) {
  for (const QPalette& palette : palettes())
    for (int i = 0; i < kParts; ++i) {
      EXPECT_GE(ink::contrast(ink::part(i, palette), palette.color(QPalette::Base)), 3) << i;
      if (i + 1 < kParts) {
        EXPECT_GE(ink::contrast(ink::part(i, palette), ink::part(i + 1, palette)), 1.8) << i;
      }
    }
}

TEST(Ink, TextIsReadOnEveryPart) {
  for (const QPalette& palette : palettes()) {
    const QColor base = palette.color(QPalette::Base);
    for (int i = 0; i < kParts; ++i)
      for (const QColor& fill : {ink::part(i, palette), ink::draft(ink::part(i, palette), palette)})
        EXPECT_GE(ink::contrast(ink::on(fill, palette), fill), 4.5) << i;
    for (const QColor& text : {ink::text(palette), ink::faint(palette), ink::alarm(palette)})
      EXPECT_GE(ink::contrast(text, base), 4.5);
    for (int i = 0; i < 10; ++i) EXPECT_GE(ink::contrast(ink::series(i, palette), base), 3) << i;
  }
}

TEST(Ink, PartsOfOneLightnessHaveTexturesOfTheirOwn) {
  for (const int first : {0, 1}) {
    std::set<ink::Texture> seen;
    int parts = 0;
    for (int i = first; i < kParts; i += 2, ++parts) seen.insert(ink::texture(i));
    EXPECT_EQ(static_cast<int>(seen.size()), parts);
  }
}

TEST(Ink, CurvesAndPointsDifferWithoutColour) {
  for (int i = 0; i < 6; ++i)
    for (int j = 0; j < i; ++j) {
      EXPECT_NE(ink::dashes(i), ink::dashes(j));
      EXPECT_NE(ink::shape(i, {}, 5), ink::shape(j, {}, 5));
    }
}

TEST(Ink, ShapesAreAboutOneSize) {
  for (int i = 0; i < ink::kShapes; ++i) {
    const QRectF box = ink::shape(i, {10, 20}, 5).boundingRect();
    EXPECT_GT(box.width(), 7) << i;
    EXPECT_LT(box.width(), 15) << i;
    EXPECT_TRUE(ink::shape(i, {10, 20}, 5).contains(QPointF(10, 20))) << i;
  }
}

TEST(Ink, HatchesStayInTheirBox) {
  for (const auto texture : {ink::Texture::rising, ink::Texture::falling, ink::Texture::level,
                             ink::Texture::upright, ink::Texture::crossed}) {
    QImage image(60, 40, QImage::Format_RGB32);
    image.fill(Qt::white);
    QPainter painter(&image);
    ink::hatch(painter, QRectF(10, 10, 30, 20), texture, Qt::black, 5);
    painter.end();
    int inside = 0, outside = 0;
    for (int x = 0; x < image.width(); ++x)
      for (int y = 0; y < image.height(); ++y)
        if (qGray(image.pixel(x, y)) < 200) ++(QRect(9, 9, 32, 22).contains(x, y) ? inside : outside);
    EXPECT_GT(inside, 30);
    EXPECT_EQ(outside, 0);
  }
}

}  // namespace
}  // namespace zplan::gui
