#include <gtest/gtest.h>

#include <QApplication>
#include <QSignalSpy>
#include <QTextBrowser>

#include "cli/report/report_text.h"
#include "gui/output/why_view.h"
#include "planner/question/trainers.h"
#include "support.h"

namespace zplan::gui {
namespace {

using test::planned;

Scenario too_large() {
  return {.name = "70B", .arguments = {"--model", "70B", "--gpus", "2", "--mem", "24", "--offload", "none"}};
}

/// Returns the first paragraph that `zplan` prints, in one line.
QString first_paragraph(const Scenario& scenario) {
  const QString all = QString::fromStdString(test::printed(scenario.arguments));
  return all.left(all.indexOf("\n\n")).simplified();
}

TEST(Why, TheHeadlineIsTheVerdictOfTheCommandLine) {
  for (const Scenario& scenario : {test::readme(), too_large()}) {
    const QString headline = headline_of(*planned(scenario));
    EXPECT_TRUE(headline.at(0).isUpper());
    EXPECT_TRUE(first_paragraph(scenario).contains(
        QString(": %1%2.").arg(headline.at(0).toLower()).arg(headline.mid(1))))
        << headline.toStdString() << "\n"
        << first_paragraph(scenario).toStdString();
  }
  Planned host = *planned();
  host.answer.plans[0].fits = host.answer.plans[0].fits_host = false;
  host.answer.plans[0].fits_device = true;
  EXPECT_TRUE(headline_of(host).startsWith("Does not fit"));
}

TEST(Why, TheHeadlineOfAnotherPlanNamesIt) {
  Scenario other = test::readme();
  other.strategy = "zero2";
  EXPECT_TRUE(headline_of(*planned(other)).startsWith("Does not fit with zero2, which needs "));
}

TEST(Why, ItSaysWhatTheCommandLineSays) {
  const Scenario rejecting{.name = "rejected",
                           .arguments = {"--model", "8B", "--method", "qlora", "--gpus", "4", "--gpu",
                                         "A100-SXM-80GB", "--zero", "2,3", "--global-batch", "8"}};
  for (const Scenario& scenario : {test::readme(), rejecting, too_large()}) {
    const Planned& plan = *planned(scenario);
    WhyView view;
    view.show_plan(planned(scenario));
    const QString text = view.text();
    const auto has = [&text](const std::string& part) { return text.contains(QString::fromStdString(part)); };
    for (const Plan& each : plan.answer.plans)
      for (const std::string& sentence : each.why)
        EXPECT_TRUE((each.fits && &each != &plan.plan()) || has(sentence)) << sentence;
    for (const HeaderBlock& block : header_blocks(report_of(plan)))
      for (const std::string& line : block.lines) EXPECT_TRUE(has(line)) << line;
    for (const Impossible& each : impossible_plans(report_of(plan)))
      EXPECT_TRUE(has(each.reason)) << each.reason;
    EXPECT_TRUE(has(range_sentence(plan.plan(), plan.question)));
  }
  EXPECT_FALSE(impossible_plans(report_of(*planned(rejecting))).empty());
}

TEST(Why, WhereNothingFitsItNamesWhatWould) {
  const Planned& plan = *planned(too_large());
  ASSERT_FALSE(plan.answer.fits());
  WhyView view;
  view.show_plan(planned(too_large()));
  ASSERT_FALSE(plan.plan().why.empty());
  EXPECT_TRUE(view.text().contains(QString::fromStdString(plan.plan().why.front())));
  EXPECT_EQ(view.text().contains("What fits instead"), plan.answer.alternative.has_value());
}

TEST(Why, TheRoomThatATrainerLeavesStandsInIt) {
  Planned under = *planned();
  under.reaches = {{.trainer = parse_trainer("--trainer", "unsloth"),
                    .required = Bytes(1024),
                    .step = Seconds(1),
                    .longest_sequence = 12288},
                   {.trainer = parse_trainer("--trainer", "trl"),
                    .required = Bytes(2048),
                    .step = Seconds(2),
                    .longest_sequence = 1024}};
  WhyView view;
  view.show_plan(std::make_shared<const Planned>(under));
  EXPECT_TRUE(view.text().contains("Room"));
  EXPECT_TRUE(view.text().contains("up to 12,288 tokens in a sample"));
  EXPECT_TRUE(view.text().contains("instead: "));
  view.show_plan(planned());
  EXPECT_FALSE(view.text().contains("Room"));
}

TEST(Why, AnotherPlanThanTheBestSaysWhichThatIs) {
  Scenario other = test::readme();
  other.strategy = planned()->answer.plans[1].id();
  WhyView view;
  view.show_plan(planned(other));
  EXPECT_TRUE(view.text().contains("zplan recommends zero3."));
  EXPECT_TRUE(view.headline().contains(QString::fromStdString(other.strategy)));
}

TEST(Why, TheHeadlineIsThereWhetherSeenOrNot) {
  WhyView view;
  QSignalSpy changed(&view, &WhyView::headline_changed);
  EXPECT_TRUE(view.headline().isEmpty());
  view.show_plan(planned());
  view.show_plan(planned());
  EXPECT_EQ(changed.count(), 1);
  EXPECT_EQ(view.property("headline"), view.headline());
  EXPECT_TRUE(view.findChild<QTextBrowser*>()->toPlainText().isEmpty()) << "not made before it is seen";
  view.show();
  EXPECT_TRUE(view.findChild<QTextBrowser*>()->toPlainText().startsWith(view.headline()));
  view.show_plan(nullptr);
  EXPECT_TRUE(view.headline().isEmpty());
  EXPECT_TRUE(view.text().isEmpty());
}

TEST(Why, ASavedReportAndADraftAreSaidAsFarAsTheyGo) {
  const QTemporaryDir folder;
  WhyView view;
  view.show_plan(plan_scenario(test::saved(folder.path()), Environment{}, Depth::full));
  EXPECT_TRUE(view.text().contains("then.json"));
  EXPECT_EQ(view.headline(), headline_of(*planned()));
  view.show_plan(plan_scenario(test::readme(), Environment{}, Depth::draft));
  EXPECT_EQ(view.headline(), headline_of(*planned()));
  EXPECT_TRUE(view.text().contains("Model"));
}

TEST(Why, WordsOfOthersAreNoMarks) {
  Planned odd = *planned();
  odd.answer.warnings = {"<b>bold</b> & more"};
  WhyView view;
  view.show_plan(std::make_shared<const Planned>(std::move(odd)));
  EXPECT_TRUE(view.text().contains("<b>bold</b> & more"));
}

TEST(Why, BothPalettes) {
  WhyView view;
  view.resize(640, 700);
  view.show();
  view.show_plan(planned());
  for (const bool dark : {false, true}) {
    const test::WithPalette palette(dark ? test::dark_palette() : test::light_palette());
    QApplication::processEvents();
    const auto* page = view.findChild<QTextBrowser*>();
    EXPECT_EQ(page->palette().color(QPalette::Base), QApplication::palette().color(QPalette::Base));
    test::keep_picture(view, dark ? "why-dark" : "why-light");
  }
}

}  // namespace
}  // namespace zplan::gui
