// Measures the time from a change to the screen, and the planner's share of it.

#include <benchmark/benchmark.h>

#include <QApplication>
#include <QElapsedTimer>
#include <QFontDatabase>

#include "cli/options/options.h"
#include "cli/options/request.h"
#include "gui/charts/chart.h"
#include "gui/editors/number_editor.h"
#include "gui/editors/option_field.h"
#include "gui/window/comparison_view.h"
#include "gui/window/main_window.h"

namespace zplan::gui {
namespace {

std::vector<std::string> arguments(int seq) {
  return {"--model", "8B", "--gpus", "5", "--mem", "44", "--seq", std::to_string(seq)};
}

/// A window that compares `count` scenarios, all answered and drawn.
std::unique_ptr<MainWindow> open_window(int scenarios) {
  auto window = std::make_unique<MainWindow>(Environment{});
  ScenarioFile file;
  for (int i = 0; i < scenarios; ++i)
    file.scenarios.push_back(
        {.name = "scenario " + std::to_string(i), .arguments = arguments(2048 + 64 * i)});
  window->session().load(file);
  window->resize(1280, 800);
  window->show();
  while (!window->session().planning().is_idle())
    QCoreApplication::processEvents(QEventLoop::WaitForMoreEvents);
  return window;
}

/// From a move of the slider of the sequence length to chart, table and editors with its figures painted.
void redraw(benchmark::State& state) {
  const auto window = open_window(static_cast<int>(state.range(0)));
  Session& session = window->session();
  bool drawn = false;
  // Comparing scenarios needs only a glance; comparing strategies needs the full answer.
  QObject::connect(&session, &Session::glanced, window.get(),
                   [&](int) { drawn = drawn || state.range(0) > 1; });
  QObject::connect(&session, &Session::answered, window.get(), [&](int) { drawn = true; });
  auto* slider = window->findChild<OptionField*>(QStringLiteral("--seq"))->findChild<LogSlider*>();
  double worst = 0;
  int move = 0;
  slider->setSliderDown(true);
  for (auto _ : state) {
    drawn = false;
    QElapsedTimer timer;
    timer.start();
    slider->setSliderPosition(1 + ++move % 6);  // 768 tokens to 4096
    while (!drawn) QCoreApplication::processEvents(QEventLoop::WaitForMoreEvents);
    window->view().refresh();
    QCoreApplication::processEvents();  // paints what is due
    worst = std::max(worst, static_cast<double>(timer.nsecsElapsed()) / 1e6);
  }
  slider->setSliderDown(false);
  state.counters["worst_ms"] = worst;
}
BENCHMARK(redraw)->Arg(1)->Arg(8)->Unit(benchmark::kMillisecond)->UseRealTime();

Question question(int seq) { return make_request(parse_options(arguments(seq)), Environment{}).question; }

/// Measures the planning alone.
void draft(benchmark::State& state) {
  int seq = 1024;
  for (auto _ : state) benchmark::DoNotOptimize(draft_answer(question(seq = seq < 8192 ? seq + 16 : 1024)));
}
BENCHMARK(draft)->Unit(benchmark::kMillisecond)->UseRealTime();

/// Measures the command line's plan of the same question.
void full_answer(benchmark::State& state) {
  int seq = 1024;
  for (auto _ : state) benchmark::DoNotOptimize(answer(question(seq = seq < 8192 ? seq + 16 : 1024)));
}
BENCHMARK(full_answer)->Unit(benchmark::kMillisecond)->UseRealTime();

}  // namespace
}  // namespace zplan::gui

int main(int argc, char** argv) {
  qputenv("QT_QPA_PLATFORM", "offscreen");
  const QApplication application(argc, argv);
  QFontDatabase::addApplicationFont(QStringLiteral(":/fonts/zplan-sans-regular.ttf"));
  QApplication::setFont(QFont(QStringLiteral("zplan Sans"), 10));
  benchmark::Initialize(&argc, argv);
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}
