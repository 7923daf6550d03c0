#include "gui/output/export.h"

#include <gtest/gtest.h>

#include <QFile>
#include <QMimeData>
#include <nlohmann/json.hpp>

#include "cli/report/comparison.h"
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
  EXPECT_EQ(report_as(TextFormat::json, plan, Environment{}).toStdString(),
            printed(readme().arguments, {"--json"}));
  EXPECT_EQ(report_as(TextFormat::csv, plan, Environment{}).toStdString(),
            printed(readme().arguments, {"--csv"}));
  EXPECT_EQ(report_as(TextFormat::markdown, plan, Environment{}).toStdString(),
            printed(readme().arguments, {"--markdown"}));
  EXPECT_EQ(report_as(TextFormat::plain, plan, Environment{}).toStdString(),
            printed(readme().arguments, {"--verbose"}));
  EXPECT_EQ(comparison_as(TextFormat::csv, {{subject()}, 0, false}, Environment{}).toStdString(),
            printed(readme().arguments, {"--csv"}));
}

QByteArray written(const QString& path) {
  QFile file(path);
  EXPECT_TRUE(file.open(QIODevice::ReadOnly)) << path.toStdString();
  return file.readAll();
}

TEST(Export, FilesOfAPlanAreWhatTheCommandLineWrites) {
  const QTemporaryDir folder;
  for (const auto& [file, option] :
       std::vector<std::pair<ExportedFile, std::string>>{{ExportedFile::snapshot, "--snapshot"},
                                                         {ExportedFile::trace, "--trace"},
                                                         {ExportedFile::page, "--html"}}) {
    const QString path = folder.filePath(QString::fromStdString(option));
    (void)printed(readme().arguments, {option, path.toStdString()});
    const QByteArray made = plan_file(file, *planned(), Environment{});
    EXPECT_GT(made.size(), 1000) << option;
    EXPECT_TRUE(made == written(path)) << option;
  }
}

TEST(Export, FilesAreOfThePlanThatIsShown) {
  Scenario other = readme();
  other.strategy = "zero2";
  const QByteArray trace = plan_file(ExportedFile::trace, *planned(other), Environment{});
  EXPECT_FALSE(trace == plan_file(ExportedFile::trace, *planned(), Environment{}));
}

/// `zplan compare` on a file with both scenarios.
std::string compared(const QString& file, const std::vector<std::string>& more) {
  (void)test::write(
      file, QByteArray::fromStdString(scenarios_text({{readme(), larger()}, 0, false}, file.toStdString())));
  return printed({"compare", file.toStdString()}, more);
}

TEST(Export, SeveralAreWhatTheCommandLinePrintsOfTheirFile) {
  const QTemporaryDir folder;
  const QString file = folder.filePath("both.zplan");
  Compared all = both();
  all.file = file.toStdString();
  EXPECT_EQ(comparison_as(TextFormat::plain, all, Environment{}).toStdString(), compared(file, {}));
  EXPECT_EQ(comparison_as(TextFormat::markdown, all, Environment{}).toStdString(),
            compared(file, {"--markdown"}));
  EXPECT_EQ(comparison_as(TextFormat::csv, all, Environment{}).toStdString(), compared(file, {"--csv"}));
  EXPECT_EQ(comparison_as(TextFormat::json, all, Environment{}).toStdString(), compared(file, {"--json"}));
}

TEST(Export, TheTableHasFiguresAndTheirDifferences) {
  const QString text = comparison_text(both()), html = comparison_html(both());
  const ByteUnit unit = planned()->question.unit;
  const Planned& other = *planned(larger());
  for (const Measure& measure : time_measures()) {
    const double base = measure.value(planned()->plan(), planned()->question);
    const double value = measure.value(other.plan(), other.question);
    const QString change = QString::fromStdString(difference_text(measure, value, base, unit));
    EXPECT_TRUE(text.contains(change)) << measure.name;
    EXPECT_TRUE(html.contains(">" + change + "</td>")) << measure.name;
  }
  EXPECT_TRUE(text.contains("sequence length"));
  EXPECT_FALSE(text.contains("optimizer used")) << "alike in both";
  const std::unique_ptr<QMimeData> data = comparison_data(both());
  EXPECT_EQ(data->text(), text);
  EXPECT_EQ(data->html(), html);
}

TEST(Export, AlikeLinesAreLeftOutOnRequest) {
  Compared same{{subject(), subject()}, 0, false};
  const qsizetype whole = comparison_html(same).count("<tr>");
  same.differences = true;
  EXPECT_EQ(comparison_html(same).count("<tr>"), 1) << "headings";
  EXPECT_GT(whole, 20);
}

TEST(Export, StrategiesOfOneScenarioStandBesideEachOther) {
  Compared two{{{"first", planned(), 0}, {"second", planned(), 1}}, 1, false};
  const Json json = Json::parse(comparison_as(TextFormat::json, two, Environment{}).toStdString());
  EXPECT_EQ(json["baseline"], 1);
  EXPECT_EQ(json["scenarios"][0]["strategy"], planned()->answer.plans[0].id());
  EXPECT_EQ(json["scenarios"][1]["strategy"], planned()->answer.plans[1].id());
  EXPECT_EQ(json["scenarios"][1]["arguments"], Json(readme().arguments));
}

TEST(Export, FirstEstimatesSayThatTheyAre) {
  Compared two{{subject(), {"draft", plan_scenario(readme(), Environment{}, Depth::draft), 1}}, 0, false};
  EXPECT_FALSE(is_complete(two));
  EXPECT_TRUE(is_complete(both()));
  EXPECT_TRUE(comparison_text(two).contains("draft (first estimate)"));
}

TEST(Export, ASavedReportIsGivenAsItWas) {
  const QTemporaryDir folder;
  const Scenario then = test::saved(folder.path());
  const PlannedPtr plan = plan_scenario(then, Environment{}, Depth::full);
  EXPECT_EQ(report_as(TextFormat::json, *plan, Environment{}).toStdString(),
            printed(readme().arguments, {"--json"}));
  EXPECT_TRUE(report_as(TextFormat::markdown, *plan, Environment{}).contains("needs"));
  EXPECT_EQ(copy_as_command(then), "");
  ASSERT_TRUE(QFile::remove(QString::fromStdString(then.report)));
  EXPECT_THROW((void)report_as(TextFormat::json, *plan, Environment{}), InputError);
}

TEST(Export, NamesAreKeptAsTheyAre) {
  Compared odd = both();
  odd.subjects[1].title = "a, \"b\" | <c>";
  EXPECT_TRUE(comparison_as(TextFormat::csv, odd, Environment{}).contains("\"a, \"\"b\"\" | <c>\","));
  EXPECT_TRUE(comparison_html(odd).contains("a, &quot;b&quot; | &lt;c&gt;"));
  EXPECT_TRUE(comparison_as(TextFormat::markdown, odd, Environment{}).contains("\\|"));
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
