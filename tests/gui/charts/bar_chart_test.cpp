#include "gui/charts/bar_chart.h"

#include <gtest/gtest.h>

#include <QHelpEvent>
#include <QPainter>
#include <QScrollBar>
#include <QSignalSpy>
#include <QTest>
#include <QToolTip>

#include "gui/charts/ink.h"
#include "gui/models/stack_model.h"
#include "planned_scenarios.h"
#include "tests/gui/support.h"

namespace zplan::gui {
namespace {

using test::all_plans;
using Kind = StackModel::Kind;

QFontMetricsF metrics() { return QFontMetricsF(QApplication::font()); }

double value(const QAbstractItemModel& model, int row, int column) {
  return model.index(row, column).data(StackModel::ValueRole).toDouble();
}

/// Pixels of an image that are close to a colour, within a box.
int count(const QImage& image, const QRectF& box, const QColor& color) {
  int found = 0;
  const QRect in = box.toAlignedRect().intersected(image.rect());
  for (int y = in.top(); y <= in.bottom(); ++y)
    for (int x = in.left(); x <= in.right(); ++x) {
      const QColor at = image.pixelColor(x, y);
      found += std::abs(at.red() - color.red()) + std::abs(at.green() - color.green()) +
                   std::abs(at.blue() - color.blue()) <
               12;
    }
  return found;
}

class BarLayoutTest : public ::testing::TestWithParam<QSizeF> {
 protected:
  StackModel memory_{Kind::memory};
};
INSTANTIATE_TEST_SUITE_P(Sizes, BarLayoutTest,
                         ::testing::Values(QSizeF(760, 330), QSizeF(300, 140), QSizeF(1800, 900)));

TEST_P(BarLayoutTest, WidthsAreFiguresTimesTheScale) {
  memory_.show(all_plans(test::two_nodes()));
  const BarLayout layout = bar_layout(memory_, GetParam(), metrics());
  ASSERT_EQ(static_cast<int>(layout.rows.size()), memory_.rowCount());
  ASSERT_GT(layout.scale, 0);
  for (int row = 0; row < memory_.rowCount(); ++row) {
    const BarLayout::Row& bar = layout.rows[static_cast<std::size_t>(row)];
    EXPECT_NEAR(bar.bar.width(), value(memory_, row, memory_.parts()) * layout.scale, 1);
    double at = layout.plot.left();
    std::size_t next = 0;
    for (int column = 0; column < memory_.parts(); ++column) {
      const double bytes = value(memory_, row, column);
      if (bytes <= 0) continue;
      ASSERT_LT(next, bar.segments.size());
      const BarLayout::Segment& segment = bar.segments[next++];
      EXPECT_EQ(segment.column, column);
      EXPECT_NEAR(segment.box.left(), at, 1e-6);
      EXPECT_NEAR(segment.box.width(), bytes * layout.scale, 1);
      at = segment.box.right();
    }
    EXPECT_EQ(next, bar.segments.size());
    EXPECT_NEAR(at, bar.bar.right(), 1);
  }
}

TEST_P(BarLayoutTest, NothingIsOutsideOrOnSomethingElse) {
  memory_.show(all_plans(test::readme()));
  const BarLayout layout = bar_layout(memory_, GetParam(), metrics());
  const QRectF whole(QPointF(0, 0), GetParam());
  EXPECT_TRUE(whole.contains(layout.plot));
  for (const BarLayout::Row& row : layout.rows) {
    EXPECT_LE(row.bar.right(), layout.plot.right() + 1e-6);
    EXPECT_LE(row.label.right(), row.bar.left());
    EXPECT_GE(row.total.left(), layout.plot.right());
    EXPECT_LE(row.total.right(), whole.right());
    EXPECT_FALSE(row.sign.intersects(row.total));
  }
  for (const BarLayout::Entry& each : layout.legend) {
    EXPECT_TRUE(whole.contains(each.text)) << each.words.toStdString();
    EXPECT_GT(each.text.top(), layout.plot.bottom());
    for (const BarLayout::Entry& other : layout.legend) {
      if (&other != &each) {
        EXPECT_FALSE(other.text.intersects(each.text | each.sample));
      }
    }
  }
}

TEST_P(BarLayoutTest, MarksStandWhereTheirFiguresAre) {
  memory_.show(all_plans(test::readme()));
  const BarLayout layout = bar_layout(memory_, GetParam(), metrics());
  const QVector<Mark> marks = memory_marks(test::readme()->question);
  ASSERT_EQ(layout.limits.size(), marks.size());
  for (qsizetype i = 0; i < marks.size(); ++i) {
    EXPECT_EQ(layout.limits[i].mark, marks[i]);
    EXPECT_NEAR(layout.limits[i].x, layout.plot.left() + marks[i].value * layout.scale, 1);
  }
  const auto room = static_cast<double>(
      available(test::readme()->question.cluster, test::readme()->question.headroom).value);
  for (std::size_t i = 0; i < layout.rows.size(); ++i) {
    const double needs = value(memory_, static_cast<int>(i), memory_.parts());
    EXPECT_NEAR(layout.rows[i].beyond.width(), std::max(0.0, needs - room) * layout.scale, 1);
    EXPECT_EQ(layout.rows[i].sign.isEmpty(), test::readme()->answer.plans[i].fits);
  }
}

TEST(BarLayout, RowsWithOtherLimitsHaveTheirOwn) {
  StackModel model(Kind::memory);
  model.show({{"a", test::readme(), 0}, {"b", test::two_nodes(), 0}});
  const BarLayout layout = bar_layout(model, {760, 330}, metrics());
  EXPECT_TRUE(layout.limits.isEmpty());
  for (const BarLayout::Row& row : layout.rows) {
    ASSERT_EQ(row.limits.size(), 3);
    EXPECT_NEAR(row.limits[0].x, layout.x(row.limits[0].mark.value), 1e-6);
  }
  EXPECT_NE(layout.rows[0].limits[0].x, layout.rows[1].limits[0].x);
  int named = 0;
  for (const BarLayout::Entry& each : layout.legend) named += each.column < 0;
  EXPECT_EQ(named, 3);
}

TEST(BarLayout, ManyRowsScroll) {
  StackModel model(Kind::memory);
  Subjects many;
  for (int i = 0; i < 30; ++i) many.push_back({QString::number(i), test::readme(), 0});
  model.show(many);
  const BarLayout top = bar_layout(model, {760, 330}, metrics());
  const BarLayout moved = bar_layout(model, {760, 330}, metrics(), 50);
  EXPECT_GT(top.content, top.plot.height());
  EXPECT_GE(top.row_height, metrics().height());
  EXPECT_NEAR(top.rows[20].bar.top() - moved.rows[20].bar.top(), 50, 1e-6);
  EXPECT_EQ(top.rows[0].bar.width(), moved.rows[0].bar.width());
  const double height = whole_height(model, 760, metrics());
  const BarLayout whole = bar_layout(model, {760, height}, metrics());
  EXPECT_LE(whole.content, whole.plot.height() + 1);
}

class BarChartTest : public ::testing::Test {
 protected:
  BarChartTest() {
    chart_.set_model(&model_);
    chart_.resize(760, 330);
    model_.show(all_plans(test::readme()));
    chart_.show();
    chart_.activateWindow();
    chart_.setFocus(Qt::TabFocusReason);
    QCoreApplication::processEvents();
  }
  [[nodiscard]] QPoint middle(int row, int column) const {
    return chart_.place_of(model_.index(row, column)).center().toPoint();
  }

  StackModel model_{Kind::memory};
  BarChart chart_;
};

TEST_F(BarChartTest, KeysMoveThroughRowsAndParts) {
  QSignalSpy current(&chart_, &Chart::current_changed), activated(&chart_, &BarChart::activated);
  chart_.set_current(0);
  QTest::keyClick(&chart_, Qt::Key_Down);
  EXPECT_EQ(chart_.current(), 1);
  QTest::keyClick(&chart_, Qt::Key_Up);
  QTest::keyClick(&chart_, Qt::Key_Up);
  EXPECT_EQ(chart_.current(), 0);
  QTest::keyClick(&chart_, Qt::Key_End);
  EXPECT_EQ(chart_.current(), model_.rowCount() - 1);
  QTest::keyClick(&chart_, Qt::Key_Down);
  EXPECT_EQ(chart_.current(), model_.rowCount() - 1);
  QTest::keyClick(&chart_, Qt::Key_Home);
  EXPECT_EQ(chart_.current(), 0);
  QTest::keyClick(&chart_, Qt::Key_Right);
  EXPECT_TRUE(chart_.accessibleDescription().contains("Current: zero3, parameters: "))
      << chart_.accessibleDescription().toStdString();
  QTest::keyClick(&chart_, Qt::Key_Left);
  EXPECT_TRUE(chart_.accessibleDescription().contains("Current: zero3, needs: "));
  QTest::keyClick(&chart_, Qt::Key_Return);
  ASSERT_EQ(activated.count(), 1);
  EXPECT_EQ(activated[0][0].toInt(), 0);
}

TEST_F(BarChartTest, ClicksMakeARowCurrentAndDoubleClicksActivateIt) {
  QSignalSpy activated(&chart_, &BarChart::activated);
  QTest::mouseClick(chart_.viewport(), Qt::LeftButton, {}, middle(1, 0));
  EXPECT_EQ(chart_.current(), 1);
  EXPECT_EQ(activated.count(), 0);
  QTest::mouseDClick(chart_.viewport(), Qt::LeftButton, {}, middle(1, 0));
  ASSERT_EQ(activated.count(), 1);
  EXPECT_EQ(activated[0][0].toInt(), 1);
}

TEST_F(BarChartTest, ThePartUnderTheMouseIsFoundAndOutlined) {
  const QModelIndex states = model_.index(0, static_cast<int>(MemoryPart::optimizer_states));
  EXPECT_EQ(chart_.index_at(QPointF(middle(0, states.column()))), states);
  const QModelIndex title = chart_.index_at(chart_.layout_now().rows[0].label.center());
  EXPECT_EQ(title, model_.index(0, model_.parts()));
  EXPECT_FALSE(chart_.index_at(QPointF(5, 329)).isValid());
  const QImage before = chart_.grab().toImage();
  QTest::mouseMove(chart_.viewport(), middle(0, states.column()));
  QCoreApplication::processEvents();
  const QImage after = chart_.grab().toImage();
  const QRectF box = chart_.place_of(states);
  EXPECT_GT(count(after, box, ink::text(chart_.palette())),
            count(before, box, ink::text(chart_.palette())) + 40);
}

TEST_F(BarChartTest, TheMouseAndTheSpaceBarShowTheModelsTooltip) {
  test::expect_message("raise()");  // the offscreen platform has no windows over others
  const QModelIndex states = model_.index(0, static_cast<int>(MemoryPart::optimizer_states));
  const QPoint at = middle(0, states.column());
  QHelpEvent help(QEvent::ToolTip, at, chart_.viewport()->mapToGlobal(at));
  QApplication::sendEvent(chart_.viewport(), &help);
  EXPECT_EQ(QToolTip::text(), states.data(Qt::ToolTipRole).toString());
  chart_.set_current(0);
  QTest::keyClick(&chart_, Qt::Key_Space);
  EXPECT_EQ(QToolTip::text(), model_.index(0, model_.parts()).data(Qt::ToolTipRole).toString());
  QToolTip::hideText();
}

TEST_F(BarChartTest, DescribesWhatItShows) {
  EXPECT_FALSE(chart_.accessibleName().isEmpty());
  for (int row = 0; row < model_.rowCount(); ++row)
    EXPECT_TRUE(chart_.accessibleDescription().contains(
        model_.index(row, model_.parts()).data(Qt::AccessibleTextRole).toString()));
  model_.show({});
  EXPECT_EQ(chart_.current(), -1);
  EXPECT_FALSE(chart_.accessibleDescription().contains("needs"));
}

TEST_F(BarChartTest, ARowThatIsScrolledAwayComesBackByTheKeys) {
  Subjects many;
  for (int i = 0; i < 30; ++i) many.push_back({QString::number(i), test::readme(), 0});
  model_.show(many);
  EXPECT_GT(chart_.verticalScrollBar()->maximum(), 0);
  QTest::keyClick(&chart_, Qt::Key_End);
  const BarLayout layout = chart_.layout_now();
  EXPECT_LE(layout.rows.back().area.bottom(), layout.plot.bottom() + 1);
  QTest::keyClick(&chart_, Qt::Key_Home);
  EXPECT_GE(chart_.layout_now().rows.front().area.top(), chart_.layout_now().plot.top() - 1);
}

TEST_F(BarChartTest, PaintsPartsInTheirHuesInEitherPalette) {
  for (const QPalette& palette : {test::light_palette(), test::dark_palette()}) {
    const test::WithPalette with(palette);
    BarChart chart;  // who is there already hears of it only while the application runs
    chart.set_model(&model_);
    chart.resize(760, 330);
    const QImage image = chart.grab().toImage();
    const BarLayout layout = chart.layout_now();
    for (const BarLayout::Segment& segment : layout.rows[0].segments) {
      if (segment.box.width() < 8) continue;
      const QColor hue = ink::part(segment.column, palette);
      EXPECT_GT(count(image, segment.box, hue), segment.box.width() * segment.box.height() / 4)
          << segment.column;
    }
    EXPECT_GT(count(image, layout.plot, palette.color(QPalette::Base)), 1000);
    EXPECT_GT(count(image, layout.rows[0].label, palette.color(QPalette::Text)), 0);
  }
}

TEST_F(BarChartTest, NothingAndALostModelPaintTheirEmptiness) {
  model_.show({});
  EXPECT_FALSE(chart_.grab().isNull());
  chart_.resize(20, 10);
  EXPECT_FALSE(chart_.grab().isNull());
  QTest::keyClick(&chart_, Qt::Key_Down);
  EXPECT_EQ(chart_.current(), -1);
  {
    StackModel other(Kind::traffic);
    other.show(all_plans(test::readme()));
    chart_.set_model(&other);
    EXPECT_FALSE(chart_.grab().isNull());
  }
  EXPECT_EQ(chart_.model(), nullptr);
  EXPECT_FALSE(chart_.grab().isNull());
}

TEST_F(BarChartTest, PicturesLeaveOutWhatIsOfTheScreen) {
  const auto picture = [this] {
    QImage image(chart_.picture_size(), QImage::Format_RGB32);
    image.fill(Qt::white);
    QPainter painter(&image);
    painter.setFont(chart_.font());
    chart_.paint(painter, QRectF(image.rect()), test::light_palette());
    return image;
  };
  const QImage before = picture();
  chart_.set_current(1);
  QTest::mouseMove(chart_.viewport(), middle(0, 0));
  EXPECT_EQ(picture(), before);
  EXPECT_GT(count(before, before.rect(), ink::part(2, test::light_palette())), 100);
}

TEST(BarChartSizes, TinyAndHugeOnesPaint) {
  for (const Kind kind : {Kind::memory, Kind::time, Kind::traffic}) {
    StackModel model(kind);
    BarChart chart;
    chart.set_model(&model);
    model.show(all_plans(test::two_nodes()));
    for (const QSize size : {QSize(1, 1), QSize(60, 400), QSize(900, 30), QSize(2400, 1600)}) {
      chart.resize(size);
      EXPECT_FALSE(chart.grab().isNull());
    }
  }
}

}  // namespace
}  // namespace zplan::gui
