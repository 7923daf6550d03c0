// Files that are dropped on the window, good and bad.

#include <QDialog>
#include <QDropEvent>
#include <QFile>
#include <QMimeData>
#include <QTemporaryDir>
#include <QUrl>

#include "window_support.h"

namespace zplan::gui {
namespace {

const QByteArray kScenarios =
    R"({"schema": "zplan.scenarios/1", "zplan_version": "0.1.0", "baseline": 0, "differences": false,
  "scenarios": [{"name": "a", "arguments": ["--model", "8B", "--gpus", "4"]}, {"name": "b", "arguments": ["--model", "7B"]}]})";

class DropTest : public WindowTest {
 protected:
  void drop(const QStringList& paths) {
    QMimeData data;
    QList<QUrl> urls;
    for (const QString& each : paths) urls << QUrl::fromLocalFile(each);
    data.setUrls(urls);
    QDragEnterEvent enter(QPoint(100, 100), Qt::CopyAction, &data, Qt::LeftButton, {});
    QCoreApplication::sendEvent(&window_, &enter);
    ASSERT_TRUE(enter.isAccepted());
    QDropEvent event(QPointF(100, 100), Qt::CopyAction, &data, Qt::LeftButton, {});
    QCoreApplication::sendEvent(&window_, &event);
    settle();
  }
  QString file(const QString& name, const QByteArray& content) {
    return test::write(folder_.filePath(name), content);
  }
  /// The file changes nothing, and a message names it and says `part`.
  void expect_refused(const QString& path, const QString& part) {
    const ScenarioFile before = session().contents();
    const int steps = session().undo_stack().count();
    drop({path});
    EXPECT_TRUE(window_.message().contains(path)) << window_.message().toStdString();
    EXPECT_TRUE(window_.message().contains(part)) << window_.message().toStdString();
    EXPECT_EQ(session().contents(), before);
    EXPECT_EQ(session().undo_stack().count(), steps);
  }

  QTemporaryDir folder_;
};

TEST_F(DropTest, ScenariosAreAddedInOneStep) {
  drop({file("two.zplan", kScenarios)});
  EXPECT_EQ(session().size(), 3);
  EXPECT_EQ(window_.message(), "");
  session().undo_stack().undo();
  EXPECT_EQ(session().size(), 1);
}

TEST_F(DropTest, AModelBecomesTheCurrentScenarioWithThatModel) {
  const QByteArray llama =
      R"({"model_type": "llama", "architectures": ["LlamaForCausalLM"], "hidden_size": 2048,
    "intermediate_size": 5632, "num_hidden_layers": 22, "num_attention_heads": 32, "num_key_value_heads": 4,
    "vocab_size": 32000, "max_position_embeddings": 2048, "torch_dtype": "bfloat16", "tie_word_embeddings": false})";
  drop({file("config.json", llama)});
  ASSERT_EQ(session().size(), 2);
  EXPECT_EQ(session().current(), 1);
  ASSERT_FALSE(session().at(1).problem) << session().at(1).problem->text.toStdString();
  EXPECT_EQ(session().at(1).planned->question.model.shape.layers, 22);
  EXPECT_EQ(session().at(1).planned->question.cluster.gpus, 5);  // as before
}

TEST_F(DropTest, AFolderWithAModelIsThatModel) {
  drop({folder_.path()});
  EXPECT_TRUE(window_.message().contains("without a config.json"));
}

TEST_F(DropTest, ADsConfigIsPlannedExactly) {
  drop({file(
      "ds.json",
      R"({"zero_optimization": {"stage": 2}, "train_micro_batch_size_per_gpu": 2, "bf16": {"enabled": true}})")});
  ASSERT_EQ(session().size(), 2);
  ASSERT_FALSE(session().at(1).problem) << session().at(1).problem->text.toStdString();
  EXPECT_EQ(session().at(1).planned->plan().strategy.zero_stage, 2);
  EXPECT_EQ(session().at(1).planned->plan().strategy.micro_batch_size, 2);
}

TEST_F(DropTest, ASavedReportIsShownAsItWas) {
  const json report = printed({"--model", "8B", "--gpus", "4", "--mem", "80"});
  drop({file("saved.json", QByteArray::fromStdString(report.dump()))});
  ASSERT_EQ(session().size(), 2);
  ASSERT_FALSE(session().at(1).problem) << session().at(1).problem->text.toStdString();
  EXPECT_TRUE(session().at(1).planned->saved);
  EXPECT_EQ(session().at(1).planned->plan().memory().required.value,
            report["plans"][0]["memory"]["required"].get<std::int64_t>());
  for (int tab = 0; tab < window_.view().charts().count(); ++tab) show_chart(tab);
  for (int tab = 0; tab < window_.view().tables().count(); ++tab) show_table(tab);
}

TEST_F(DropTest, MeasurementsOpenTheirOwnWindow) {
  drop({QStringLiteral(ZPLAN_TEST_DATA "/check/samples/bench_mpi.json")});
  EXPECT_EQ(window_.message(), "");
  EXPECT_EQ(window_.findChildren<QDialog*>().size(), 1);
  EXPECT_EQ(session().size(), 1);
}

TEST_F(DropTest, BrokenFilesAreNamedWithThePlaceAndChangeNothing) {
  expect_refused(file("cut.zplan", kScenarios.left(kScenarios.size() / 2)), "line");
  expect_refused(file("later.zplan", QByteArray(kScenarios).replace("scenarios/1", "scenarios/2")),
                 "/schema");
  expect_refused(file("typo.zplan", QByteArray(kScenarios).replace("\"name\": \"b\"", "\"nmae\": \"b\"")),
                 "/scenarios/1");
  expect_refused(file("wrong.json", R"({"model_type": "llama", "hidden_size": "much"})"), "#/");
  expect_refused(file("report.json", R"({"schema": "zplan.report/1", "plans": 3})"), "zplan_version");
  expect_refused(file("other.json", R"({"name": "package", "version": 1})"), "accepted");
  expect_refused(file("empty.json", ""), "empty.json");
  expect_refused(file("list.json", "[1, 2, 3]"), "accepted");
  expect_refused(file("words.txt", "no log of anything\n"), "accepted");
}

TEST_F(DropTest, BinaryFilesAreRefused) {
  QByteArray noise(1 << 16, '\0');
  for (int i = 0; i < noise.size(); ++i) noise[i] = static_cast<char>(i * 7919 >> 3);
  expect_refused(file("noise.bin", noise), "accepted");
  expect_refused(file("noise.json", "{\"a\": \"" + noise + "\"}"), "noise.json");
}

TEST_F(DropTest, HugeFilesAreRefusedUnread) {
  QFile huge(folder_.filePath("huge.json"));
  ASSERT_TRUE(huge.open(QIODevice::WriteOnly));
  ASSERT_TRUE(huge.resize(qint64(8) << 30));  // takes no room on the disk
  expect_refused(huge.fileName(), "larger than");
}

TEST_F(DropTest, WhatCannotBeReadIsNamed) {
  expect_refused(folder_.filePath("gone.json"), "gone.json");
  QFile::link(folder_.filePath("nowhere"), folder_.filePath("dangling.json"));
  expect_refused(folder_.filePath("dangling.json"), "dangling.json");
  const QString locked = file("locked.json", "{}");
  QFile::setPermissions(locked, {});
  expect_refused(locked, "locked.json");  // as root: read, and no file that zplan knows
}

TEST_F(DropTest, OfSeveralTheGoodOnesAreTaken) {
  drop({file("bad.json", "{"), file("two.zplan", kScenarios)});
  EXPECT_EQ(session().size(), 3);
  EXPECT_TRUE(window_.message().contains("bad.json"));
}

TEST_F(DropTest, WhatIsNoFileIsSaidSo) {
  QMimeData data;
  data.setUrls({QUrl("https://example.org/config.json")});
  QDragEnterEvent enter(QPoint(10, 10), Qt::CopyAction, &data, Qt::LeftButton, {});
  QCoreApplication::sendEvent(&window_, &enter);
  QDropEvent event(QPointF(10, 10), Qt::CopyAction, &data, Qt::LeftButton, {});
  QCoreApplication::sendEvent(&window_, &event);
  EXPECT_TRUE(window_.message().contains("example.org"));
  EXPECT_EQ(session().size(), 1);
}

}  // namespace
}  // namespace zplan::gui
