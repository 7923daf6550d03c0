#include "gui/charts/scatter_chart.h"

#include <gtest/gtest.h>

#include <QSignalSpy>
#include <QTest>
#include <set>

#include "gui/models/tradeoff_model.h"
#include "planned_scenarios.h"
#include "tests/gui/support.h"

namespace zplan::gui {
namespace {

class ScatterChartTest : public ::testing::Test {
 protected:
  ScatterChartTest() {
    chart_.set_model(&model_);
    chart_.resize(760, 400);
    model_.show({test::readme(), test::two_nodes()});
    chart_.show();
    QCoreApplication::processEvents();
  }
  [[nodiscard]] QVariant of(int row, int role) const { return model_.index(row, 0).data(role); }
  [[nodiscard]] QPointF at(int row) const {
    return chart_.layout_now().points[static_cast<std::size_t>(row)].at;
  }

  TradeoffModel model_;
  ScatterChart chart_;
};

TEST_F(ScatterChartTest, PointsAreWhereTheirFiguresAre) {
  const ScatterLayout layout = chart_.layout_now();
  ASSERT_EQ(static_cast<int>(layout.points.size()), model_.rowCount());
  int beyond = 0;
  for (const ScatterLayout::Point& each : layout.points) {
    const double needs = of(each.row, TradeoffModel::BytesRole).toDouble();
    EXPECT_EQ(each.beyond, needs > layout.most_bytes);
    EXPECT_NEAR(each.at.x(),
                layout.plot.left() + std::min(1.0, needs / layout.most_bytes) * layout.plot.width(), 1e-6);
    EXPECT_NEAR(each.at.y(), layout.y(of(each.row, TradeoffModel::SpeedRole).toDouble()), 1e-6);
    EXPECT_TRUE(layout.plot.adjusted(-1, -1, 1, 1).contains(each.at));
    EXPECT_FALSE(each.beyond && each.fits);
    beyond += each.beyond;
  }
  EXPECT_GT(beyond, 0);
}

TEST_F(ScatterChartTest, LabelsAreOnNothingElse) {
  const ScatterLayout layout = chart_.layout_now();
  int labels = 0;
  for (const ScatterLayout::Point& each : layout.points) {
    if (each.label.isEmpty()) continue;
    ++labels;
    EXPECT_TRUE(QRectF(0, 0, 760, 400).contains(each.label));
    for (const ScatterLayout::Point& other : layout.points) {
      EXPECT_FALSE(each.label.contains(other.at)) << each.text.toStdString();
      if (&other != &each) {
        EXPECT_FALSE(each.label.intersects(other.label));
      }
    }
  }
  EXPECT_GE(labels, 4);
}

TEST_F(ScatterChartTest, FrontsJoinWhatIsOnThem) {
  const ScatterLayout layout = chart_.layout_now();
  ASSERT_EQ(layout.fronts.size(), 2U);
  for (const ScatterLayout::Front& front : layout.fronts) {
    qsizetype members = 0;
    for (const ScatterLayout::Point& each : layout.points)
      members += each.front && each.scenario == front.scenario;
    EXPECT_EQ(front.points.size(), members);
    for (qsizetype i = 1; i < front.points.size(); ++i) {
      EXPECT_GE(front.points[i].x(), front.points[i - 1].x());
      EXPECT_LE(front.points[i].y(), front.points[i - 1].y()) << "who needs more is faster";
    }
  }
}

TEST_F(ScatterChartTest, AClickAndReturnChooseAStrategy) {
  QSignalSpy activated(&chart_, &ScatterChart::activated);
  const int row = static_cast<int>(test::readme()->answer.plans.size());  // the first of the second scenario
  QTest::mouseClick(chart_.viewport(), Qt::LeftButton, {}, at(row).toPoint());
  ASSERT_EQ(activated.count(), 1);
  const int clicked = chart_.current();
  EXPECT_EQ(activated[0][0].toInt(), of(clicked, TradeoffModel::ScenarioRole).toInt());
  EXPECT_EQ(activated[0][1].toString(), of(clicked, TradeoffModel::IdRole).toString());
  EXPECT_LE(QLineF(at(clicked), at(row)).length(), 10);
  QTest::keyClick(&chart_, Qt::Key_Return);
  EXPECT_EQ(activated.count(), 2);
  QTest::mouseClick(chart_.viewport(), Qt::LeftButton, {}, QPoint(2, 2));
  EXPECT_EQ(activated.count(), 2);
}

TEST_F(ScatterChartTest, ArrowsGoThatWay) {
  for (int row = 0; row < model_.rowCount(); ++row) {
    for (const int key : {Qt::Key_Left, Qt::Key_Right, Qt::Key_Up, Qt::Key_Down}) {
      chart_.set_current(row);
      QTest::keyClick(&chart_, static_cast<Qt::Key>(key));
      if (chart_.current() == row) continue;
      const QPointF way = at(chart_.current()) - at(row);
      EXPECT_GT(key == Qt::Key_Left    ? -way.x()
                : key == Qt::Key_Right ? way.x()
                : key == Qt::Key_Up    ? -way.y()
                                       : way.y(),
                0);
    }
  }
}

TEST_F(ScatterChartTest, EveryPointIsReachedByKeys) {
  std::set<int> seen;
  QTest::keyClick(&chart_, Qt::Key_Home);
  for (int i = 0; i < model_.rowCount(); ++i) {
    seen.insert(chart_.current());
    QTest::keyClick(&chart_, Qt::Key_PageDown);
  }
  EXPECT_EQ(static_cast<int>(seen.size()), model_.rowCount());
}

TEST_F(ScatterChartTest, DescribesTheFront) {
  EXPECT_TRUE(chart_.accessibleDescription().contains("on the Pareto front"));
  model_.show({test::too_small()});
  EXPECT_TRUE(chart_.accessibleDescription().contains("none fits"));
}

TEST_F(ScatterChartTest, NothingTinyAndHugePaint) {
  for (const QSize size : {QSize(1, 1), QSize(60, 400), QSize(900, 30), QSize(2400, 1600)}) {
    chart_.resize(size);
    EXPECT_FALSE(chart_.grab().isNull());
  }
  model_.show({});
  EXPECT_FALSE(chart_.grab().isNull());
}

}  // namespace
}  // namespace zplan::gui
