// What leaves the window: files, paper, the clipboard.

#include <QApplication>
#include <QClipboard>
#include <QFileInfo>
#include <QMenu>
#include <QMimeData>
#include <QPrintDialog>
#include <QPrinter>
#include <QStatusBar>

#include "gui/charts/chart.h"
#include "gui/output/export.h"
#include "gui/output/picture.h"
#include "gui/session/words.h"
#include "gui/window/comparison_view.h"
#include "gui/window/main_window.h"
#include "models/base/error.h"

namespace zplan::gui {

void MainWindow::build_export_menu(QMenu* menu) {
  add_action(menu, {"export_chart", tr("The &chart…"), QKeySequence(Qt::CTRL | Qt::Key_E),
                    tr("PNG, SVG or PDF"), &MainWindow::export_chart});
  add_action(menu,
             {"export_comparison", tr("The c&omparison…"), QKeySequence(Qt::CTRL | Qt::SHIFT | Qt::Key_E),
              tr("CSV, Markdown or JSON"), &MainWindow::export_comparison});
  menu->addSeparator();
  add_action(menu, {"export_report",
                    tr("The current &plan…"),
                    {},
                    tr("What zplan prints for it: JSON, CSV or Markdown"),
                    &MainWindow::export_report});
  add_action(menu, {"export_page",
                    tr("Its &answer as a page…"),
                    {},
                    tr("For a browser, as zplan --html"),
                    &MainWindow::export_page});
  add_action(menu, {"export_snapshot",
                    tr("Its &memory as a snapshot…"),
                    {},
                    tr("For pytorch.org/memory_viz, as zplan --snapshot"),
                    &MainWindow::export_snapshot});
  add_action(menu, {"export_trace",
                    tr("Its &step as a trace…"),
                    {},
                    tr("For ui.perfetto.dev, as zplan --trace"),
                    &MainWindow::export_trace});
}

namespace {

/// Returns the format for the suffix of a file's name; nothing for an unknown suffix.
std::optional<TextFormat> format_of(const QString& path) {
  const QString suffix = QFileInfo(path).suffix().toLower();
  if (suffix == QStringLiteral("csv")) return TextFormat::csv;
  if (suffix == QStringLiteral("md")) return TextFormat::markdown;
  if (suffix == QStringLiteral("json")) return TextFormat::json;
  if (suffix == QStringLiteral("txt")) return TextFormat::plain;
  return std::nullopt;
}

QString text_files() { return MainWindow::tr("Markdown (*.md);;CSV (*.csv);;JSON (*.json);;Text (*.txt)"); }

/// Writes the output of `make` in the format of the file's suffix. Returns an error; empty on success.
template <class F>
QString write_text(const QString& path, const F& make) {
  const std::optional<TextFormat> format = format_of(path);
  if (!format) return MainWindow::tr("%1: an unknown ending; accepted: .md, .csv, .json, .txt").arg(path);
  try {
    return write_whole_file(path, make(*format));
  } catch (const InputError& error) {
    return QString::fromUtf8(error.what());
  }
}

}  // namespace

/// Shows an error as a message, success in the status bar.
void MainWindow::report_written(const QString& path, const QString& problem) {
  if (!problem.isEmpty()) return say(problem);
  statusBar()->showMessage(tr("Wrote %1").arg(path), 5000);
}

Compared MainWindow::compared() const {
  Compared all{.subjects = {},
               .baseline = -1,
               .differences = session_.differences(),
               .file = documents_.file().toStdString()};
  all.subjects = view_->subjects(&all.baseline);
  return all;
}

Picture MainWindow::picture_of(Chart& chart, const QPalette& palette) const {
  return {.title = view_->chart_name(),
          .size = QSizeF(chart.picture_size().expandedTo(chart.viewport()->size())),
          .background = palette.color(QPalette::Base),
          .paint = [&chart, palette](QPainter& painter, const QRectF& area) {
            chart.paint(painter, area, palette);
          }};
}

void MainWindow::export_chart() {
  const QString path =
      dialogs.file_to_write(tr("Export the chart"), QStringLiteral("zplan.png"), picture_filter());
  if (!path.isEmpty()) report_written(path, write_picture(path, picture_of(view_->chart(), palette())));
}

/// True if the comparison may be copied or exported: it is neither empty nor a first estimate.
bool MainWindow::may_go_out(const Compared& all) {
  if (all.subjects.empty())
    say(tr("Nothing is compared: tick a scenario."));
  else if (!is_complete(all))
    say(tr("There is no answer yet."));
  return !all.subjects.empty() && is_complete(all);
}

void MainWindow::export_comparison() {
  const Compared all = compared();
  if (!may_go_out(all)) return;
  const QString path =
      dialogs.file_to_write(tr("Export the comparison"), QStringLiteral("comparison.md"), text_files());
  if (!path.isEmpty())
    report_written(path, write_text(path, [&, this](TextFormat format) {
                     return comparison_as(format, all, session_.planning().environment());
                   }));
}

PlannedPtr MainWindow::whole_answer() {
  const Session::Entry& entry = session_.at(session_.current());
  if (entry.planned && !entry.planned->draft && !entry.problem) return entry.planned;
  say(tr("There is no answer yet."));
  return nullptr;
}

void MainWindow::export_report() {
  const PlannedPtr planned = whole_answer();
  if (!planned) return;
  const QString path =
      dialogs.file_to_write(tr("Export the plan"), QStringLiteral("plan.json"), text_files());
  if (!path.isEmpty())
    report_written(path, write_text(path, [&, this](TextFormat format) {
                     return report_as(format, *planned, session_.planning().environment());
                   }));
}

void MainWindow::export_snapshot() {
  export_plan(ExportedFile::snapshot, tr("Export the memory as a snapshot"), QStringLiteral("plan.pickle"),
              tr("Snapshots of PyTorch (*.pickle)"));
}

void MainWindow::export_trace() {
  export_plan(ExportedFile::trace, tr("Export the step as a trace"), QStringLiteral("trace.json"),
              tr("Traces (*.json)"));
}

void MainWindow::export_page() {
  export_plan(ExportedFile::page, tr("Export the answer as a page"), QStringLiteral("plan.html"),
              tr("Pages (*.html)"));
}

void MainWindow::export_plan(ExportedFile file, const QString& title, const QString& suggested,
                             const QString& filter) {
  const PlannedPtr planned = whole_answer();
  if (!planned) return;
  if (planned->saved)
    return say(tr("%1 is a saved report: it has figures and no steps").arg(qt(planned->scenario.name)));
  const QString path = dialogs.file_to_write(title, suggested, filter);
  if (!path.isEmpty())
    report_written(path,
                   write_whole_file(path, plan_file(file, *planned, session_.planning().environment())));
}

Pages MainWindow::pages() const {
  const Compared all = compared();
  const QPalette paper = paper_palette();
  return {.title = windowTitle().remove(QStringLiteral("[*]")),
          .pictures = {picture_of(view_->chart(), paper)},
          .table = all.subjects.empty() ? QString() : comparison_html(all)};
}

void MainWindow::print() {
  QPrinter printer(QPrinter::HighResolution);
  QPrintDialog dialog(&printer, this);
  if (dialog.exec() == QDialog::Accepted) report_written(tr("to the printer"), gui::print(printer, pages()));
}

void MainWindow::copy_table() {
  const Compared all = compared();
  if (!may_go_out(all)) return;
  QApplication::clipboard()->setMimeData(comparison_data(all).release());
  statusBar()->showMessage(tr("Copied the table"), 3000);
}

void MainWindow::copy_command() {
  const Scenario& scenario = session_.at(session_.current()).scenario;
  const QString command = copy_as_command(scenario);
  if (command.isEmpty())
    return say(tr("%1 is a saved report: nothing was typed for it").arg(qt(scenario.name)));
  QApplication::clipboard()->setText(command);
  statusBar()->showMessage(tr("Copied the command line"), 3000);
}

}  // namespace zplan::gui
