#include "gui/session/session.h"

#include <gtest/gtest.h>

#include <QSignalSpy>
#include <QThread>
#include <nlohmann/json.hpp>
#include <sstream>

#include "cli/report/report.h"
#include "cli/run.h"
#include "planner/question/work.h"
#include "support.h"

namespace zplan::gui {
namespace {

using test::wait_until;

Scenario readme() {
  return {.name = "8B on 5", .arguments = {"--model", "8B", "--gpus", "5", "--mem", "44"}};
}

class SessionTest : public ::testing::Test {
 protected:
  [[nodiscard]] bool settled() {
    return wait_until([this] { return session_.planning().is_idle(); });
  }
  [[nodiscard]] QStringList names() const {
    QStringList all;
    for (int row = 0; row < session_.size(); ++row)
      all << QString::fromStdString(session_.at(row).scenario.name);
    return all;
  }

  Session session_{Environment{}};
};

TEST_F(SessionTest, AScenarioIsAnsweredAsADraftAndThenInFull) {
  QSignalSpy planned(&session_.planning(), &Planning::planned);
  session_.add(readme());
  ASSERT_TRUE(settled());
  ASSERT_EQ(planned.count(), 2);
  EXPECT_TRUE(planned[0][1].value<PlannedPtr>()->draft);
  const PlannedPtr answer = session_.at(0).planned;
  ASSERT_TRUE(answer);
  EXPECT_FALSE(answer->draft);
  EXPECT_FALSE(session_.at(0).pending);
  EXPECT_EQ(answer->plan().id(), "zero3");
  EXPECT_FALSE(answer->answer.plans.front().why.empty());
}

TEST_F(SessionTest, TheDraftHasTheFiguresOfTheShownPlan) {
  QSignalSpy planned(&session_.planning(), &Planning::planned);
  session_.add(readme());
  ASSERT_TRUE(settled());
  const auto draft = planned[0][1].value<PlannedPtr>(), full = planned[1][1].value<PlannedPtr>();
  EXPECT_EQ(report_json(report_of(*draft))["plans"][0]["memory"],
            report_json(report_of(*full))["plans"][0]["memory"]);
  EXPECT_EQ(report_json(report_of(*draft))["plans"][0]["time"],
            report_json(report_of(*full))["plans"][0]["time"]);
}

TEST_F(SessionTest, AChangeIsGlancedAtBeforeItIsAnswered) {
  session_.add(readme());
  ASSERT_TRUE(settled());
  session_.set_glances(true);
  QSignalSpy planned(&session_.planning(), &Planning::planned);
  QSignalSpy answered(&session_, &Session::answered);
  session_.set_arguments(0, {"--model", "8B", "--gpus", "5", "--mem", "44", "--seq", "4096"});
  ASSERT_TRUE(wait_until([&] { return !planned.isEmpty(); }));
  const auto glance = planned[0][1].value<PlannedPtr>();
  EXPECT_TRUE(glance->glance);
  EXPECT_EQ(glance->answer.plans.size(), 1U);
  ASSERT_TRUE(settled());
  ASSERT_EQ(planned.count(), 2);
  EXPECT_EQ(answered.count(), 1);
  const auto full = planned[1][1].value<PlannedPtr>();
  EXPECT_EQ(report_json(report_of(*glance))["plans"][0]["memory"],
            report_json(report_of(*full))["plans"][0]["memory"]);
  EXPECT_FALSE(session_.at(0).glance);
}

TEST_F(SessionTest, TheRoomThatATrainerLeavesFollowsTheAnswer) {
  QSignalSpy planned(&session_.planning(), &Planning::planned);
  const std::vector<std::string> question{"--model", "0.5B",  "--method",      "qlora",     "--gpus",
                                          "1",       "--gpu", "RTX-4090-24GB", "--trainer", "unsloth"};
  session_.add({.name = "unsloth", .arguments = question});
  ASSERT_TRUE(settled());
  ASSERT_EQ(planned.count(), 3);
  const auto full = planned[1][1].value<PlannedPtr>();
  EXPECT_FALSE(full->draft);
  EXPECT_TRUE(full->reaches.empty());
  const PlannedPtr answer = session_.at(0).planned;
  std::ostringstream out, err;
  std::vector<std::string> words = question;
  words.emplace_back("--json");
  ASSERT_EQ(run(words, Environment{}, out, err), 0) << err.str();
  EXPECT_EQ(report_json(report_of(*answer))["reach"], Json::parse(out.str())["reach"]);
  EXPECT_EQ(answer->reaches.size(), 2U);
}

TEST_F(SessionTest, WhatIsWrongIsNamedAndTheLastAnswerStays) {
  session_.add(readme());
  ASSERT_TRUE(settled());
  session_.set_arguments(0, {"--model", "8B", "--gpus", "none"});
  ASSERT_TRUE(settled());
  ASSERT_TRUE(session_.at(0).problem);
  EXPECT_EQ(session_.at(0).problem->place, "--gpus");
  EXPECT_TRUE(session_.at(0).planned);
  session_.undo_stack().undo();
  ASSERT_TRUE(settled());
  EXPECT_FALSE(session_.at(0).problem);
}

TEST_F(SessionTest, OptionsOfOutputAreNoneOfAScenario) {
  session_.add({.name = "json", .arguments = {"--model", "8B", "--json"}});
  session_.add({.name = "search", .arguments = {"search", "--model", "8B"}});
  ASSERT_TRUE(settled());
  EXPECT_EQ(session_.at(0).problem->place, "--json");
  EXPECT_TRUE(session_.at(1).problem);
}

TEST_F(SessionTest, EveryChangeCanBeUndoneAndDoneAgain) {
  session_.add(readme());
  session_.duplicate(0);
  session_.rename(1, "other");
  session_.move(1, 0);
  session_.set_compared(0, false);
  session_.set_baseline(session_.at(1).id);
  session_.set_strategy(0, "zero2");
  session_.set_arguments(0, {"--model", "8B", "--gpus", "8"});
  session_.set_differences(true);
  session_.remove(0);
  const ScenarioFile last = session_.contents();
  std::vector<ScenarioFile> states{last};
  while (session_.undo_stack().canUndo()) {
    session_.undo_stack().undo();
    states.push_back(session_.contents());
  }
  EXPECT_EQ(session_.size(), 0);
  EXPECT_EQ(states.size(), 11U);
  for (auto state = states.rbegin() + 1; state != states.rend(); ++state) {
    session_.undo_stack().redo();
    EXPECT_EQ(session_.contents(), *state);
  }
  EXPECT_EQ(session_.contents(), last);
}

TEST_F(SessionTest, ADraggedSliderIsOneStepToUndo) {
  session_.add(readme());
  for (int seq = 1; seq <= 200; ++seq)
    session_.set_arguments(
        0, {"--model", "8B", "--gpus", "5", "--mem", "44", "--seq", std::to_string(1024 * seq)}, "--seq");
  EXPECT_EQ(session_.undo_stack().count(), 2);
  ASSERT_TRUE(settled());
  EXPECT_EQ(session_.at(0).planned->question.training.sequence_length, 200 * 1024);
  EXPECT_FALSE(session_.at(0).planned->draft);
}

TEST(Planned, WhatNobodyWaitsForEndsAtItsNextStep) {
  for (const Depth depth : {Depth::glance, Depth::draft, Depth::full}) {
    std::atomic<bool> dropped{true};
    const Work work(&dropped);
    EXPECT_THROW(static_cast<void>(plan_scenario(readme(), {}, depth, "zero3")), Stopped);
    EXPECT_EQ(work.steps(), 0);
  }
}

TEST(Sessions, CloseWhileEverythingIsPlanned) {
  for (int times = 0; times < 20; ++times) {
    Session session{Environment{}};
    for (int row = 0; row <= times; ++row) session.add(readme());
    for (int events = 0; events < times; ++events) QCoreApplication::processEvents();
  }
}

TEST_F(SessionTest, WhatIsCalledAfterItsQuestionGoesOnBeingSo) {
  const auto on = [](const char* gpus) {
    return std::vector<std::string>{"--model", "Qwen/Qwen3-8B", "--gpus", gpus, "--mem", "44"};
  };
  session_.add({.name = name_of_question(on("5")), .arguments = on("5")});
  session_.duplicate(0);
  session_.add({.name = "ours", .arguments = on("5")});
  EXPECT_EQ(names(), (QStringList{"Qwen3-8B on 5 × 44 GiB", "Qwen3-8B on 5 × 44 GiB (2)", "ours"}));
  for (int row = 0; row < session_.size(); ++row) session_.set_arguments(row, on("8"));
  EXPECT_EQ(names(), (QStringList{"Qwen3-8B on 8 × 44 GiB", "Qwen3-8B on 8 × 44 GiB (2)", "ours"}));
  session_.undo_stack().undo();
  session_.undo_stack().undo();
  EXPECT_EQ(names().at(1), "Qwen3-8B on 5 × 44 GiB (2)");
  std::vector<std::string> longer = on("8");
  longer.insert(longer.end(), {"--seq", "4096"});
  session_.set_arguments(0, longer);
  EXPECT_EQ(names().front(), "Qwen3-8B on 8 × 44 GiB");
}

TEST_F(SessionTest, ADeletedScenarioIsNotAnswered) {
  session_.add(readme());
  QSignalSpy planned(&session_.planning(), &Planning::planned);
  session_.remove(0);
  EXPECT_TRUE(session_.planning().is_idle());
  QThread::msleep(100);
  QCoreApplication::processEvents();
  EXPECT_EQ(planned.count(), 0);
}

TEST_F(SessionTest, ComparedAreThoseThatAreTicked) {
  session_.add(readme());
  session_.duplicate(0);
  session_.duplicate(0);
  EXPECT_EQ(names(), (QStringList{"8B on 5", "8B on 5 (3)", "8B on 5 (2)"}));
  ASSERT_TRUE(settled());
  session_.set_compared(0, false);
  session_.set_baseline(session_.at(2).id);
  int baseline = -1;
  const Subjects compared = session_.compared(&baseline);
  ASSERT_EQ(compared.size(), 2U);
  EXPECT_EQ(compared[0].title, "8B on 5 (3)");
  EXPECT_EQ(baseline, 1);
}

TEST_F(SessionTest, ASessionIsTheSameAfterItsFile) {
  session_.add(readme());
  session_.duplicate(0);
  session_.set_baseline(session_.at(1).id);
  const QTemporaryDir folder;
  const std::string file = folder.filePath("one.zplan").toStdString();
  const ScenarioFile read = read_scenarios(parse_json(scenarios_text(session_.contents(), file), file), file);
  Session other{Environment{}};
  other.load(read);
  EXPECT_EQ(other.contents(), session_.contents());
  EXPECT_FALSE(other.undo_stack().canUndo());
}

}  // namespace
}  // namespace zplan::gui
