// The figures on the screen equal those of the command line.

#include "cli/report/comparison.h"
#include "gui/charts/bar_chart.h"
#include "gui/models/stack_model.h"
#include "gui/session/words.h"
#include "window_support.h"

namespace zplan::gui {
namespace {

/// Questions of every kind: offload, tensor parallelism, adapters, several nodes, FSDP, nothing that fits.
const std::vector<std::vector<std::string>>& questions() {
  static const std::vector<std::vector<std::string>> all{
      {"--model", "8B", "--gpus", "5", "--mem", "44"},
      {"--model", "llama-3.1-8b", "--gpus", "8", "--gpu", "h100-sxm", "--seq", "4096"},
      {"--model", "70B", "--gpus", "16", "--nodes", "2", "--gpu", "a100-sxm-80gb"},
      {"--model", "7B", "--gpus", "1", "--mem", "24", "--method", "qlora", "--micro-batch", "2"},
      {"--model", "1.5B", "--gpus", "2", "--mem", "24", "--framework", "fsdp"},
      {"--model", "70B", "--gpus", "1", "--mem", "24"}};
  return all;
}

/// Returns the parts of the peak of a plan in a report.
json parts_of(const json& memory) {
  json parts;
  for (const char* part : {"parameters", "gradients", "optimizer_states", "activations", "loss",
                           "communication_buffers", "temporaries", "framework_overhead"})
    parts[part] = memory.at(part);
  return parts;
}

double bytes(const json& value) { return value.get<double>(); }

class FiguresTest : public WindowTest {
 protected:
  void load(const std::vector<std::vector<std::string>>& wanted) {
    ScenarioFile file;
    for (const auto& arguments : wanted)
      file.scenarios.push_back({.name = "q" + std::to_string(file.scenarios.size()), .arguments = arguments});
    session().load(file);
    settle();
    for (int row = 0; row < session().size(); ++row)
      ASSERT_FALSE(session().at(row).problem) << session().at(row).problem->text.toStdString();
  }
  static json plan_of(const json& report) { return report["plans"][0]; }
};

TEST_F(FiguresTest, TheTableHasTheFiguresOfTheReport) {
  load(questions());
  show_table(0);
  for (int i = 0; i < session().size(); ++i) {
    const json plan = plan_of(printed(questions()[static_cast<std::size_t>(i)]));
    const json& memory = plan["memory"];
    EXPECT_EQ(cell("needs, GiB", i).remove("* "),
              qt(format_bytes_value(Bytes(memory["required"].get<std::int64_t>()))));
    const json parts = parts_of(memory);
    for (const auto& [part, size] : parts.items()) {
      const QString line = qt(part).replace('_', ' ');
      const QString value = qt(format_bytes_value(Bytes(size.get<std::int64_t>())));
      EXPECT_EQ(cell(line + ", GiB", i).remove("* "), value == "0.00" ? "–" : value) << part;
    }
    const double tokens = plan["time"]["tokens_per_second"].get<double>();
    EXPECT_NEAR(cell("tokens per second", i).remove("* ").toDouble(), tokens, std::max(0.51, tokens * 0.006));
    const bool fits = plan["fits"].get<bool>(), fits_device = plan["fits_device"].get<bool>();
    EXPECT_EQ(cell("verdict", i).toStdString(), fits          ? "fits"
                                                : fits_device ? "short of host"
                                                              : "does not fit");
  }
}

TEST_F(FiguresTest, BarsAreAsLongAsTheReportSays) {
  load(questions());
  show_chart(0);
  const auto* chart = find<BarChart>("memory");
  const BarLayout layout = chart->layout_now();
  ASSERT_EQ(layout.rows.size(), questions().size());
  for (std::size_t i = 0; i < questions().size(); ++i) {
    const json report = printed(questions()[i]);
    const json memory = plan_of(report)["memory"];
    const BarLayout::Row& row = layout.rows[i];
    EXPECT_NEAR(row.bar.width(), bytes(memory["required"]) * layout.scale, 1) << i;
    double drawn = 0;
    for (const BarLayout::Segment& each : row.segments) drawn += each.box.width();
    EXPECT_NEAR(drawn, row.bar.width(), 1) << i;
    // Allocator slack is the last one.
    EXPECT_NEAR(row.segments.back().box.right() - row.bar.left(), bytes(memory["required"]) * layout.scale,
                1);
    const double available = bytes(report["cluster"]["available_memory_bytes"]);
    const double over = bytes(memory["required"]) - available;
    EXPECT_NEAR(row.beyond.width(), std::max(0.0, over) * layout.scale, 1) << i;
  }
}

TEST_F(FiguresTest, EveryStrategyHasItsBarAndItsLine) {
  load({questions().front()});
  show_chart(0);
  show_table(0);
  const json plans = printed(questions().front())["plans"];
  const BarLayout layout = find<BarChart>("memory")->layout_now();
  ASSERT_EQ(layout.rows.size(), plans.size());
  for (std::size_t i = 0; i < plans.size(); ++i) {
    EXPECT_NEAR(layout.rows[i].bar.width(), bytes(plans[i]["memory"]["required"]) * layout.scale, 1);
    EXPECT_EQ(cell("needs, GiB", static_cast<int>(i)).remove("* "),
              qt(format_bytes_value(Bytes(plans[i]["memory"]["required"].get<std::int64_t>()))));
  }
}

TEST_F(FiguresTest, TimesAndTrafficAddUpToTheReport) {
  load(questions());
  for (const auto& [tab, name] : std::vector<std::pair<int, const char*>>{{2, "time"}, {3, "traffic"}}) {
    show_chart(tab);
    const QAbstractItemModel* model = find<BarChart>(name)->model();
    for (int row = 0; row < model->rowCount(); ++row) {
      const json plan = plan_of(printed(questions()[static_cast<std::size_t>(row)]));
      double sum = 0;
      for (int column = 0; column + 1 < model->columnCount(); ++column)
        sum += model->index(row, column).data(StackModel::ValueRole).toDouble();
      const double total = model->index(row, 0).data(StackModel::TotalRole).toDouble();
      EXPECT_NEAR(sum, total, total * 1e-9) << name << row;
      if (tab == 2) {
        EXPECT_NEAR(total, plan["time"]["step"].get<double>(), total * 1e-9) << row;
      }
    }
  }
}

TEST_F(FiguresTest, DifferencesAreFromTheBaseline) {
  load({{"--model", "8B", "--gpus", "5", "--mem", "44"}, {"--model", "8B", "--gpus", "8", "--mem", "44"}});
  show_table(0);
  const double five =
      bytes(plan_of(printed({"--model", "8B", "--gpus", "5", "--mem", "44"}))["memory"]["required"]);
  const double eight =
      bytes(plan_of(printed({"--model", "8B", "--gpus", "8", "--mem", "44"}))["memory"]["required"]);
  const Measure needs = memory_measures(ByteUnit::gib)[9];
  ASSERT_EQ(needs.name, "needs");
  EXPECT_EQ(cell("needs, GiB", 1, true), qt(difference_text(needs, eight, five, ByteUnit::gib)));
  session().set_baseline(session().at(1).id);
  window_.view().refresh();
  EXPECT_EQ(cell("needs, GiB", 0, true), qt(difference_text(needs, five, eight, ByteUnit::gib)));
}

}  // namespace
}  // namespace zplan::gui
