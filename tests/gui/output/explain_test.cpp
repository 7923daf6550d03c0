#include "cli/report/explain.h"

#include <gtest/gtest.h>

#include <QAbstractItemModelTester>
#include <QApplication>
#include <QClipboard>
#include <QLineEdit>
#include <QTextBrowser>
#include <QTreeView>
#include <nlohmann/json.hpp>

#include "gui/output/explain_view.h"
#include "support.h"

namespace zplan::gui {
namespace {

using test::planned;
using test::subject;

TEST(ExplainModel, NumbersAreThoseOfTheJsonReport) {
  const Planned& plan = *planned();
  ExplainModel model;
  const QAbstractItemModelTester tester(&model, QAbstractItemModelTester::FailureReportingMode::Fatal);
  model.show(explain(plan.plan(), plan.question));
  const Json json = explain_json(plan.plan(), plan.question);
  const QModelIndex symbols = model.index(0, 0);
  ASSERT_EQ(model.rowCount(symbols), static_cast<int>(json["symbols"].size()));
  EXPECT_EQ(symbols.data(), "Symbols");
  ASSERT_EQ(model.rowCount(), static_cast<int>(json.size()));
  for (int i = 1; i < model.rowCount(); ++i) {
    const Json& figures = json[model.explanation().sections[static_cast<std::size_t>(i) - 1].name];
    const QModelIndex section = model.index(i, 0);
    ASSERT_EQ(model.rowCount(section), static_cast<int>(figures.size()));
    for (int row = 0; row < model.rowCount(section); ++row) {
      const Json& figure = figures[static_cast<std::size_t>(row)];
      const auto text = [&](int column) {
        return model.index(row, column, section).data().toString().toStdString();
      };
      EXPECT_EQ(text(ExplainModel::name), figure["name"]);
      EXPECT_EQ(text(ExplainModel::formula), figure["formula"]);
      EXPECT_EQ(text(ExplainModel::source), figure["source"]);
      EXPECT_EQ(model.index(row, 0, section).data(ExplainModel::NumberRole).toDouble(), figure["value"]);
      EXPECT_EQ(model.parent(model.index(row, 1, section)), section);
    }
  }
  model.show({});
  EXPECT_EQ(model.rowCount(), 0);
}

class ExplainViewTest : public ::testing::Test {
 protected:
  void SetUp() override {
    view_.resize(900, 560);
    view_.show();
    view_.show_subject(subject());
  }
  [[nodiscard]] int figures() const {
    int count = 0;
    for (int i = 0; i < view_.shown().rowCount(); ++i)
      count += view_.shown().rowCount(view_.shown().index(i, 0));
    return count;
  }
  ExplainView view_;
};

TEST_F(ExplainViewTest, NothingIsMadeWhereItCannotBeSeen) {
  view_.hide();
  view_.clear();
  EXPECT_GT(view_.model().rowCount(), 0);
  view_.show();
  EXPECT_EQ(view_.model().rowCount(), 0);
  const QTemporaryDir folder;
  const Scenario then = test::saved(folder.path());
  view_.show_subject({"then", plan_scenario(then, Environment{}, Depth::full), 0});
  EXPECT_EQ(view_.model().rowCount(), 0) << "a saved report has no formulas";
}

TEST_F(ExplainViewTest, ASearchLeavesWhatHasTheWords) {
  const int all = figures();
  view_.search("OPTIMIZER");
  const int found = figures();
  EXPECT_GT(found, 0);
  EXPECT_LT(found, all);
  const QModelIndex section = view_.shown().index(0, 0);
  QString line = section.data().toString();
  for (int column = 0; column < ExplainModel::column_count; ++column)
    line += view_.shown().index(0, column, section).data().toString();
  EXPECT_TRUE(line.contains("optimizer", Qt::CaseInsensitive)) << line.toStdString();
  view_.search("no such figure");
  EXPECT_EQ(view_.shown().rowCount(), 0);
  view_.search("");
  EXPECT_EQ(figures(), all);
}

TEST_F(ExplainViewTest, WhatIsSelectedStaysAndIsShownInFull) {
  EXPECT_TRUE(view_.findChild<QTextBrowser*>()->toPlainText().contains(QString::fromStdString(
      accuracy_sentences(coverage_of(planned()->plan(), planned()->question)).front())));
  auto* tree = view_.findChild<QTreeView*>();
  const QModelIndex section = view_.shown().index(2, 0);
  tree->setCurrentIndex(view_.shown().index(1, 0, section));
  const QString name = tree->currentIndex().data().toString();
  const auto* details = view_.findChild<QTextBrowser*>();
  EXPECT_TRUE(details->toPlainText().startsWith(name));
  EXPECT_TRUE(details->toPlainText().contains("Source: "));
  view_.show_subject(subject(test::readme(), 1));
  EXPECT_EQ(tree->currentIndex().data().toString(), name);
  view_.copy_current();
  EXPECT_TRUE(QApplication::clipboard()->text().startsWith(name + "\t"));
}

TEST_F(ExplainViewTest, EveryPartHasANameForWhoCannotSeeIt) {
  EXPECT_FALSE(view_.findChild<QTreeView*>()->accessibleName().isEmpty());
  EXPECT_FALSE(view_.findChild<QLineEdit*>()->accessibleName().isEmpty());
  for (const bool dark : {false, true}) {
    const test::WithPalette palette(dark ? test::dark_palette() : test::light_palette());
    QApplication::processEvents();
    auto* tree = view_.findChild<QTreeView*>();
    tree->setCurrentIndex(view_.shown().index(2, 0, view_.shown().index(1, 0)));
    test::keep_picture(view_, dark ? "explain-dark" : "explain-light");
  }
}

}  // namespace
}  // namespace zplan::gui
