#include "gui/output/measurements.h"

#include <gtest/gtest.h>

#include <QAbstractItemModelTester>
#include <QApplication>
#include <QCheckBox>
#include <QClipboard>
#include <QSignalSpy>
#include <QTableView>

#include "models/base/error.h"
#include "support.h"

namespace zplan::gui {
namespace {

using test::printed;
using test::subject;

QString sample(const char* name) { return QString(ZPLAN_TEST_DATA "/check/samples/%1").arg(name); }
QString broken(const char* name) { return QString(ZPLAN_TEST_DATA "/check/corpus/%1").arg(name); }

TEST(Measurements, TheReportIsTheCommandLines) {
  for (const char* name : {"bench_nccl.json", "bench_mpi.json", "all_reduce.txt", "reduce_scatter.json"}) {
    const CheckedFiles result = check_files({sample(name)}, {}, Environment{});
    EXPECT_EQ(csv_of(check_document(result.report)), printed({"check", sample(name).toStdString(), "--csv"}))
        << name;
  }
}

TEST(Measurements, ALogIsHeldAgainstThePlanThatIsShown) {
  const Subject shown = subject();
  const CheckedFiles result =
      check_files({sample("deepspeed.log"), sample("snapshot.json")}, shown, Environment{});
  EXPECT_FALSE(result.report.records.empty());
  EXPECT_THROW((void)check_files({sample("deepspeed.log")}, {}, Environment{}), InputError);
}

TEST(Measurements, WhatIsBrokenIsNamedWithItsPlace) {
  try {
    (void)check_files({broken("bench_time_negative.json")}, {}, Environment{});
    FAIL();
  } catch (const InputError& error) {
    EXPECT_NE(error.place().find("bench_time_negative.json#/"), std::string::npos) << error.place();
  }
}

class MeasurementsDialogTest : public ::testing::Test {
 protected:
  bool check(const QString& file) {
    QSignalSpy checked(&dialog_, &MeasurementsDialog::checked);
    dialog_.check({file});
    return test::wait_until([&checked] { return checked.count() == 1; });
  }
  MeasurementsDialog dialog_{Environment{}};
};

TEST_F(MeasurementsDialogTest, RecordsAndSummaryAreRows) {
  const QAbstractItemModelTester records(&dialog_.records(),
                                         QAbstractItemModelTester::FailureReportingMode::Fatal);
  const QAbstractItemModelTester summary(&dialog_.summary(),
                                         QAbstractItemModelTester::FailureReportingMode::Fatal);
  ASSERT_TRUE(check(sample("bench_nccl.json")));
  ASSERT_TRUE(dialog_.result()) << dialog_.problem().toStdString();
  const CheckReport& report = dialog_.result()->report;
  ASSERT_EQ(dialog_.records().rowCount(), static_cast<int>(report.records.size()));
  EXPECT_EQ(dialog_.summary().rowCount(), static_cast<int>(report.groups.size()));
  const Table table = record_table(report);
  for (int row = 0; row < dialog_.records().rowCount(); ++row)
    for (int column = 0; column < dialog_.records().columnCount(); ++column)
      EXPECT_EQ(dialog_.records().index(row, column).data().toString().toStdString(),
                table.rows[static_cast<std::size_t>(row)].cells[static_cast<std::size_t>(column)]);
  EXPECT_EQ(dialog_.records().headerData(4, Qt::Horizontal).toString(), "Predicted");
  dialog_.copy();
  EXPECT_EQ(QApplication::clipboard()->text().toStdString(), markdown_of(check_document(report)));
}

TEST_F(MeasurementsDialogTest, LargestErrorsComeFirstOnRequest) {
  ASSERT_TRUE(check(sample("all_reduce.txt")));
  ASSERT_TRUE(dialog_.result()) << dialog_.problem().toStdString();
  const auto first = [this] {
    return dialog_.records().index(0, 0).data(TextTableModel::SortRole).toDouble();
  };
  dialog_.set_worst_first(true);
  double worst = -1;
  for (const check::Record& each : dialog_.result()->report.records)
    if (each.judged()) worst = std::max(worst, std::abs(*each.error));
  EXPECT_EQ(first(), worst);
  dialog_.set_worst_first(false);
  EXPECT_EQ(dialog_.records().index(0, 0).data().toString().toStdString(),
            dialog_.result()->report.records.front().id);
}

TEST_F(MeasurementsDialogTest, AProblemTakesThePlaceOfTheTable) {
  ASSERT_TRUE(check(sample("bench_nccl.json")));
  ASSERT_TRUE(check(broken("run_ds_config_text.json")));
  EXPECT_FALSE(dialog_.result());
  EXPECT_TRUE(dialog_.problem().contains("run_ds_config_text.json#/")) << dialog_.problem().toStdString();
  EXPECT_EQ(dialog_.records().rowCount(), 0);
  ASSERT_TRUE(check(sample("make_bench.py")));
  EXPECT_TRUE(dialog_.problem().contains("no measurement"));
}

TEST_F(MeasurementsDialogTest, TheLaterOfTwoIsShown) {
  QSignalSpy checked(&dialog_, &MeasurementsDialog::checked);
  dialog_.check({sample("bench_nccl.json")});
  dialog_.check({sample("bench_mpi.json")});
  ASSERT_TRUE(test::wait_until([&checked] { return checked.count() >= 1; }));
  QApplication::processEvents();
  EXPECT_EQ(checked.count(), 1);
  ASSERT_TRUE(dialog_.result());
  EXPECT_TRUE(
      QString::fromStdString(dialog_.result()->report.records.front().file).endsWith("bench_mpi.json"));
}

TEST_F(MeasurementsDialogTest, BothPalettes) {
  ASSERT_TRUE(check(sample("bench_nccl.json")));
  dialog_.show();
  for (const QTableView* each : dialog_.findChildren<QTableView*>())
    EXPECT_FALSE(each->accessibleName().isEmpty());
  for (const bool dark : {false, true}) {
    const test::WithPalette palette(dark ? test::dark_palette() : test::light_palette());
    QApplication::processEvents();
    EXPECT_EQ(dialog_.palette().color(QPalette::Base), QApplication::palette().color(QPalette::Base));
    test::keep_picture(dialog_, dark ? "measurements-dark" : "measurements-light");
  }
}

}  // namespace
}  // namespace zplan::gui
