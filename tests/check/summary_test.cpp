// Errors, and the few figures that many of them become.

#include "planner/check/record.h"

#include <gtest/gtest.h>

namespace zplan::check {
namespace {

TEST(RelativeError, IsToTheNearerEndAndZeroInside) {
  const Range range{100, 200};
  EXPECT_DOUBLE_EQ(relative_error(90, range), -0.1);
  EXPECT_DOUBLE_EQ(relative_error(220, range), 0.1);
  EXPECT_EQ(relative_error(100, range), 0);
  EXPECT_EQ(relative_error(150, range), 0);
  EXPECT_EQ(relative_error(200, range), 0);
}

TEST(RelativeError, WithoutAnUpperEndOnlyTooLowIsWrong) {
  const Range at_least{100, std::nullopt};
  EXPECT_EQ(relative_error(1e12, at_least), 0);
  EXPECT_DOUBLE_EQ(relative_error(50, at_least), -0.5);
}

TEST(RelativeError, OfNothingIsWholeOrNone) {
  EXPECT_EQ(relative_error(0, Range{0, 0}), 0);
  EXPECT_EQ(relative_error(7, Range{0, 0}), 1);
}

TEST(ErrorFigures, MedianIsTheMiddle) {
  EXPECT_DOUBLE_EQ(error_figures({-0.3, 0.1, 0.2}).median, 0.2);
  EXPECT_DOUBLE_EQ(error_figures({-0.4, 0.1, 0.2, 0.3}).median, 0.25);  // the mean of the middle two
  EXPECT_DOUBLE_EQ(error_figures({-0.4}).median, 0.4);
}

// The smallest error that nine in ten do not exceed.
TEST(ErrorFigures, NinetiethPercentileIsByNearestRank) {
  std::vector<double> errors;
  for (int i = 1; i <= 10; ++i) errors.push_back(i);
  EXPECT_DOUBLE_EQ(error_figures(errors).p90, 9);
  errors.push_back(11);
  EXPECT_DOUBLE_EQ(error_figures(errors).p90, 10);
  EXPECT_DOUBLE_EQ(error_figures({1, 2}).p90, 2);
}

TEST(ErrorFigures, SharesCountSigns) {
  const ErrorFigures figures = error_figures({-0.06, -0.05, -0.01, 0, 0.5});
  EXPECT_DOUBLE_EQ(figures.under_predicted, 0.2);  // 5 % itself is not beyond 5 %
  EXPECT_DOUBLE_EQ(figures.cautious, 0.4);
  EXPECT_DOUBLE_EQ(figures.worst, 0.5);
}

TEST(ErrorFigures, OfNoErrorsAreZero) { EXPECT_EQ(error_figures({}), ErrorFigures{}); }

Record record(Statistic statistic, std::optional<double> error) {
  Record made;
  made.kind = Kind::step;
  made.statistic = statistic;
  made.error = error;
  if (!error) made.skip.add("torch.compile");
  return made;
}

TEST(Summary, NeverPutsTwoStatisticsInOneGroup) {
  const std::vector<RecordGroup> groups =
      summarise({record(Statistic::allocated, 0.1), record(Statistic::reserved, -0.2),
                 record(Statistic::allocated, std::nullopt), record(Statistic::allocated, 0.3)});
  ASSERT_EQ(groups.size(), 2U);
  EXPECT_EQ(groups[0].statistic, Statistic::allocated);
  EXPECT_EQ(groups[0].records, 3U);
  EXPECT_EQ(groups[0].judged, 2U);
  EXPECT_EQ(groups[0].skipped, 1U);
  EXPECT_DOUBLE_EQ(groups[0].median_error, 0.2);
  EXPECT_EQ(groups[0].skip_reasons.at("torch.compile"), 1U);
  EXPECT_DOUBLE_EQ(groups[1].under_predicted, 1);
}

TEST(Summary, CountsARecordUnderEachFeatureThatItLacks) {
  Record skipped = record(Statistic::allocated, std::nullopt);
  skipped.skip.add("float8 products");
  skipped.skip.add("torch.compile");  // once
  const std::vector<RecordGroup> groups = summarise({skipped});
  EXPECT_EQ(groups[0].skip_reasons.size(), 2U);
  EXPECT_EQ(groups[0].skipped, 1U);
  EXPECT_EQ(skipped.skip.text(), "torch.compile; float8 products");
}

TEST(Summary, CountsPhasesOnlyWhereTheyWereSeen) {
  Record right = record(Statistic::allocated, 0.0), wrong = right, unseen = right;
  right.phase_right = true, wrong.phase_right = false;
  const RecordGroup group = summarise({right, wrong, unseen}).front();
  EXPECT_EQ(group.phase_judged, 2U);
  EXPECT_EQ(group.phase_right, 1U);
}

TEST(WorstRecords, AreSortedBySizeAndLeaveOutTheSkipped) {
  const std::vector<Record> worst =
      worst_records({record(Statistic::allocated, 0.1), record(Statistic::allocated, std::nullopt),
                     record(Statistic::reserved, -0.4), record(Statistic::allocated, 0.3)},
                    2);
  ASSERT_EQ(worst.size(), 2U);
  EXPECT_DOUBLE_EQ(*worst[0].error, -0.4);
  EXPECT_DOUBLE_EQ(*worst[1].error, 0.3);
  EXPECT_EQ(worst_records(worst, 9).size(), 2U);
}

Record point(const std::string& id, double at, double predicted, double measured) {
  Record made;
  made.id = id;
  made.statistic = Statistic::reserved;
  made.predicted = predicted, made.measured = Range{measured, measured};
  made.error = relative_error(predicted, *made.measured);
  made.sweeps = {{"seq", "the same run", at}};
  return made;
}

TEST(Slopes, AreFromTheLeastToTheGreatest) {
  const std::vector<Slope> found =
      slopes({point("b", 200, 150, 140), point("a", 100, 100, 100), point("c", 300, 190, 200)});
  ASSERT_EQ(found.size(), 1);
  EXPECT_EQ(found[0].from + found[0].to, "ac");
  EXPECT_DOUBLE_EQ(found[0].predicted, 0.45);
  EXPECT_DOUBLE_EQ(found[0].measured, 0.5);
  EXPECT_DOUBLE_EQ(found[0].error(), -0.1);
}

TEST(Slopes, OfOnePointOrOfNoDifferenceAreNone) {
  EXPECT_TRUE(slopes({point("a", 100, 1, 1)}).empty());
  EXPECT_TRUE(slopes({point("a", 100, 100, 100), point("b", 200, 200, 100.5)}).empty());
}

TEST(Subsets, ArePooledOverCountedPeaksOnly) {
  std::vector<Record> records{record(Statistic::allocated, 0.1), record(Statistic::reserved, -0.2),
                              record(Statistic::unknown, 0.9)};
  for (Record& each : records) each.subset = "grade A";
  records.push_back(record(Statistic::allocated, 0.5));  // of no subset
  const std::vector<Subset> subsets = summarise_subsets(records, true);
  ASSERT_EQ(subsets.size(), 4);
  EXPECT_EQ(subsets.back().figures.judged, 2);
  EXPECT_DOUBLE_EQ(subsets.back().figures.worst_error, 0.2);
}

TEST(FitTallies, CountRunsByWhatWasForetold) {
  std::vector<Record> records(4);
  records[0].ran = true, records[0].fits = true;
  records[1].ran = true, records[1].fits = false;
  records[2].ran = false, records[2].fits = false;
  const FitTally expected{.ran = 2, .ran_and_fits = 1, .failed = 1, .failed_and_fits = 0};
  EXPECT_EQ(fit_tally(records), expected);
}

}  // namespace
}  // namespace zplan::check
