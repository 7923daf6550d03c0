#include "gui/charts/curve_chart.h"

#include <gtest/gtest.h>

#include <QSignalSpy>
#include <QTest>

#include "gui/charts/ink.h"
#include "gui/models/timeline_model.h"
#include "planned_scenarios.h"
#include "tests/gui/support.h"

namespace zplan::gui {
namespace {

using test::all_plans;

class CurveChartTest : public ::testing::Test {
 protected:
  CurveChartTest() {
    chart_.set_model(&model_);
    chart_.resize(760, 330);
    model_.show(all_plans(test::readme()));
    chart_.show();
    QCoreApplication::processEvents();
  }
  [[nodiscard]] QVariant of(int row, int role) const { return model_.index(row, 0).data(role); }
  [[nodiscard]] int subject() const { return of(chart_.current(), TimelineModel::SubjectRole).toInt(); }

  TimelineModel model_;
  CurveChart chart_;
};

TEST_F(CurveChartTest, CurvesAreWhereTheirFiguresAre) {
  const CurveLayout layout = chart_.layout_now();
  ASSERT_EQ(layout.curves.size(), test::readme()->answer.plans.size());
  for (const CurveLayout::Curve& curve : layout.curves) {
    ASSERT_EQ(curve.points.size(), 2 * (curve.last - curve.first + 1));
    double highest = 1e9;
    for (int row = curve.first; row <= curve.last; ++row) {
      const QPointF at = curve.points[2 * (row - curve.first)];
      const double bytes = of(row, TimelineModel::BytesRole).toDouble();
      EXPECT_NEAR(at.y(), layout.plot.bottom() - bytes / layout.most * layout.plot.height(), 1e-6);
      EXPECT_NEAR(at.x(), layout.x(of(row, TimelineModel::PositionRole).toDouble()), 1e-6);
      EXPECT_TRUE(layout.plot.adjusted(-1, -1, 1, 1).contains(at));
      highest = std::min(highest, at.y());
    }
    EXPECT_NEAR(curve.peak.y(), highest, 1e-6);
  }
}

TEST_F(CurveChartTest, TheLimitIsInThePicture) {
  const CurveLayout layout = chart_.layout_now();
  ASSERT_FALSE(layout.limits.isEmpty());
  const Question& question = test::readme()->question;
  EXPECT_NEAR(layout.limits[0].x, layout.y(number(available(question.cluster, question.headroom))), 1e-6);
  EXPECT_TRUE(layout.limits[0].text.startsWith("available"));
  EXPECT_GT(layout.limits[0].x, layout.plot.top());
}

TEST_F(CurveChartTest, LabelsOfCurvesKeepApart) {
  const CurveLayout layout = chart_.layout_now();
  for (const CurveLayout::Curve& a : layout.curves)
    for (const CurveLayout::Curve& b : layout.curves)
      if (&a != &b) {
        EXPECT_FALSE(a.label.adjusted(0, 0.1, 0, -0.1).intersects(b.label));
      }
}

TEST_F(CurveChartTest, PhasesCoverTheStep) {
  model_.show({{"8B", test::readme(), 0}});
  const CurveLayout layout = chart_.layout_now();
  ASSERT_EQ(layout.phases.size(), 4U);
  EXPECT_EQ(layout.phases.front().name, "forward");
  EXPECT_EQ(layout.phases.back().name, "optimizer step");
  double at = layout.plot.left();
  for (const CurveLayout::Phase& each : layout.phases) {
    EXPECT_NEAR(each.area.left(), at, 1e-6);
    EXPECT_FALSE(each.label.isEmpty()) << each.name.toStdString();
    at = each.area.right();
  }
  EXPECT_NEAR(at, layout.plot.right(), 1e-6);
}

TEST_F(CurveChartTest, KeysMoveAlongACurveAndToTheNext) {
  QSignalSpy activated(&chart_, &CurveChart::activated);
  chart_.set_current(3);
  QTest::keyClick(&chart_, Qt::Key_Right);
  EXPECT_EQ(chart_.current(), 4);
  QTest::keyClick(&chart_, Qt::Key_Left);
  EXPECT_EQ(chart_.current(), 3);
  const double at = of(3, TimelineModel::PositionRole).toDouble();
  QTest::keyClick(&chart_, Qt::Key_Down);
  EXPECT_EQ(subject(), 1);
  EXPECT_NEAR(of(chart_.current(), TimelineModel::PositionRole).toDouble(), at, 0.05);
  QTest::keyClick(&chart_, Qt::Key_Return);
  ASSERT_EQ(activated.count(), 1);
  EXPECT_EQ(activated[0][0].toInt(), 1);
  QTest::keyClick(&chart_, Qt::Key_Up);
  EXPECT_EQ(subject(), 0);
  EXPECT_TRUE(chart_.accessibleDescription().contains("Current: "));
}

TEST_F(CurveChartTest, TheCurveUnderTheMouseIsFound) {
  const QModelIndex index = model_.index(20, TimelineModel::device);
  const QModelIndex found = chart_.index_at(chart_.place_of(index).center());
  ASSERT_TRUE(found.isValid());
  EXPECT_NEAR(of(found.row(), TimelineModel::BytesRole).toDouble(),
              of(20, TimelineModel::BytesRole).toDouble(), 1e8);
  EXPECT_FALSE(chart_.index_at({0, 0}).isValid());
}

TEST_F(CurveChartTest, DescribesThePeaks) {
  EXPECT_EQ(chart_.accessibleDescription().count("the peak"),
            static_cast<int>(test::readme()->answer.plans.size()));
}

TEST_F(CurveChartTest, NothingTinyAndHugePaint) {
  for (const QSize size : {QSize(1, 1), QSize(60, 400), QSize(900, 30), QSize(2400, 1600)}) {
    chart_.resize(size);
    EXPECT_FALSE(chart_.grab().isNull());
  }
  model_.show({});
  EXPECT_FALSE(chart_.grab().isNull());
  EXPECT_EQ(chart_.accessibleDescription(), "Nothing to show");
}

TEST_F(CurveChartTest, LimitsThatDifferSayWhoseTheyAre) {
  model_.show({{"a", test::readme(), 0}, {"b", test::two_nodes(), 0}, {"c", test::readme(), 1}});
  const CurveLayout layout = chart_.layout_now();
  ASSERT_EQ(layout.curves.size(), 3U);
  ASSERT_EQ(layout.limits.size(), 2);
  EXPECT_TRUE(layout.limits[0].text.endsWith(": a, c")) << layout.limits[0].text.toStdString();
  EXPECT_TRUE(layout.limits[1].text.endsWith(": b")) << layout.limits[1].text.toStdString();
  for (const Limit& each : layout.limits) EXPECT_NEAR(each.x, layout.y(each.mark.value), 1e-6);
}

}  // namespace
}  // namespace zplan::gui
