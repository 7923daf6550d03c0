#include "gui/output/export.h"

#include <gtest/gtest.h>

#include <QFile>

#include "cli/measures.h"
#include "support.h"

namespace zplan::gui {
namespace {

using test::planned;
using test::printed;
using test::readme;
using test::subject;

Scenario larger() {
  return {.name = "8B on 8", .arguments = {"--model", "8B", "--gpus", "8", "--mem", "80", "--seq", "8192"}};
}

Compared both() { return {{subject(readme()), subject(larger())}, 0, false}; }

TEST(Export, OneScenarioIsWhatTheCommandLinePrints) {
  const Planned& plan = *planned();
  EXPECT_EQ(report_as(TextFormat::json, plan).toStdString(), printed(readme().arguments, {"--json"}));
  EXPECT_EQ(report_as(TextFormat::csv, plan).toStdString(), printed(readme().arguments, {"--csv"}));
  EXPECT_EQ(report_as(TextFormat::markdown, plan).toStdString(), printed(readme().arguments, {"--markdown"}));
  EXPECT_EQ(report_as(TextFormat::plain, plan).toStdString(), printed(readme().arguments));
  EXPECT_EQ(comparison_as(TextFormat::csv, {{subject()}, 0, false}).toStdString(),
            printed(readme().arguments, {"--csv"}));
}

TEST(Export, SeveralStandSideBySideWithTheirDifferences) {
  const std::string text = comparison_as(TextFormat::plain, both()).toStdString();
  const std::string markdown = comparison_as(TextFormat::markdown, both()).toStdString();
  EXPECT_NE(text.find("8B on 5"), std::string::npos);
  EXPECT_NE(text.find("sequence length"), std::string::npos);
  EXPECT_EQ(text.find("optimizer used"), std::string::npos) << "alike in both";
  const ByteUnit unit = planned()->question.unit;
  for (const Measure& measure : time_measures()) {
    const double base = measure.value(planned()->plan(), planned()->question);
    const Planned& other = *planned(larger());
    const double value = measure.value(other.plan(), other.question);
    EXPECT_NE(
        markdown.find(measure.text(value, unit) + " (" + difference_text(measure, value, base, unit) + ")"),
        std::string::npos)
        << measure.name;
  }
}

TEST(Export, CsvHasAFieldForEveryHeading) {
  const QList<QByteArray> lines = comparison_as(TextFormat::csv, both()).split('\n');
  EXPECT_EQ(lines.front(), "figure,unit,8B on 5,8B on 8,8B on 8 difference\r");
  ASSERT_TRUE(lines.back().isEmpty());
  for (qsizetype i = 0; i + 1 < lines.size(); ++i)
    EXPECT_GE(lines[i].count(','), 4) << lines[i].toStdString();
}

TEST(Export, AlikeLinesAreLeftOutOnRequest) {
  Compared same{{subject(), subject()}, 0, false};
  const qsizetype whole = comparison_as(TextFormat::csv, same).count('\n');
  same.differences = true;
  EXPECT_EQ(comparison_as(TextFormat::csv, same).count('\n'), 1);
  EXPECT_GT(whole, 20);
}

TEST(Export, ComparisonJsonHoldsWholeReports) {
  const Json json = Json::parse(comparison_as(TextFormat::json, both()).toStdString());
  EXPECT_EQ(json["schema"], "zplan.comparison/1");
  EXPECT_EQ(json["baseline"], 0);
  ASSERT_EQ(json["scenarios"].size(), 2U);
  EXPECT_EQ(json["scenarios"][1]["name"], "8B on 8");
  EXPECT_EQ(json["scenarios"][1]["arguments"], Json(larger().arguments));
  EXPECT_EQ(json["scenarios"][1]["report"], Json::parse(printed(larger().arguments, {"--json"})));
  EXPECT_TRUE(comparison_json({{subject(), subject()}, -1, false})["baseline"].is_null());
}

TEST(Export, ASavedReportIsGivenAsItWas) {
  const QTemporaryDir folder;
  const Scenario then = test::saved(folder.path());
  const PlannedPtr plan = plan_scenario(then, Environment{}, Depth::full);
  EXPECT_EQ(report_as(TextFormat::json, *plan).toStdString(), printed(readme().arguments, {"--json"}));
  EXPECT_TRUE(report_as(TextFormat::markdown, *plan).contains("needs"));
  EXPECT_EQ(copy_as_command(then), "");
  ASSERT_TRUE(QFile::remove(QString::fromStdString(then.report)));
  EXPECT_THROW((void)report_as(TextFormat::json, *plan), InputError);
}

TEST(Export, NamesAreKeptAsTheyAre) {
  Compared odd = both();
  odd.subjects[1].title = "a, \"b\" | <c>";
  EXPECT_TRUE(comparison_as(TextFormat::csv, odd).startsWith("figure,unit,8B on 5,\"a, \"\"b\"\" | <c>\","));
  EXPECT_TRUE(comparison_html(odd).contains("a, &quot;b&quot; | &lt;c&gt;"));
  EXPECT_TRUE(comparison_as(TextFormat::markdown, odd).contains("\\|"));
}

TEST(Export, ACommandGivesThePlanThatIsShown) {
  EXPECT_EQ(copy_as_command(readme()), "zplan --model 8B --gpus 5 --mem 44");
  EXPECT_EQ(copy_as_command(subject()), copy_as_command(readme()));
  const Planned& plan = *planned();
  ASSERT_GT(plan.answer.plans.size(), 2U);
  for (std::size_t i = 1; i < plan.answer.plans.size(); ++i) {
    const Subject other{"", planned(), i};
    const PlannedPtr again =
        plan_scenario({.name = "", .arguments = pinned_arguments(other)}, Environment{}, Depth::draft);
    EXPECT_EQ(again->plan().id(), other.plan().id());
    EXPECT_TRUE(copy_as_command(other).startsWith("zplan --model 8B --gpus 5 --mem 44 --zero "));
  }
}

TEST(Export, AFileIsWrittenWholeOrNotAtAll) {
  const QTemporaryDir folder;
  const QString path = folder.filePath("a.csv");
  EXPECT_EQ(write_whole_file(path, "text"), "");
  QFile file(path);
  ASSERT_TRUE(file.open(QIODevice::ReadOnly));
  EXPECT_EQ(file.readAll(), "text");
  const QString missing = folder.filePath("none/a.csv");
  EXPECT_TRUE(write_whole_file(missing, "text").contains(missing));
  EXPECT_EQ(QDir(folder.path()).entryList(QDir::Files), QStringList{"a.csv"});
}

}  // namespace
}  // namespace zplan::gui
