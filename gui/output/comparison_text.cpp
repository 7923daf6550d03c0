#include "gui/output/comparison_text.h"

#include <QMimeData>
#include <algorithm>

#include "cli/document/table.h"

namespace zplan::gui {

namespace {

PlannedScenario scenario_of(const Subject& subject) {
  PlannedScenario scenario = *subject.planned;
  scenario.scenario.name = subject.title.toStdString() + (subject.is_draft() ? " (first estimate)" : "");
  scenario.shown = subject.index;
  return scenario;
}

QString html_cell(const QString& tag, const std::string& text, bool right) {
  return QStringLiteral("<%1 align=\"%2\">%3</%1>")
      .arg(tag, right ? QStringLiteral("right") : QStringLiteral("left"),
           QString::fromStdString(text).trimmed().toHtmlEscaped());
}

}  // namespace

bool is_complete(const Compared& compared) {
  return std::ranges::none_of(compared.subjects,
                              [](const Subject& subject) { return subject.stale || subject.planned->draft; });
}

ScenarioComparison scenario_comparison(const Compared& compared) {
  ScenarioComparison all{.file = compared.file.empty() ? "this window" : compared.file, .scenarios = {}};
  for (const Subject& each : compared.subjects) {
    all.places.push_back(all.scenarios.size());
    all.scenarios.push_back(scenario_of(each));
  }
  all.baseline = static_cast<std::size_t>(std::max(compared.baseline, 0));
  all.differences = compared.differences;
  all.unit = compared.subjects[all.baseline].question().unit;
  return all;
}

QString comparison_text(const Compared& compared) {
  constexpr int kUnlimited = 100'000;
  return QString::fromStdString(
      render_text(scenario_table(scenario_comparison(compared)), {.width = kUnlimited, .color = false}));
}

QString comparison_html(const Compared& compared) {
  const Table table = scenario_table(scenario_comparison(compared));
  QString html = QStringLiteral("<table cellspacing=\"0\" cellpadding=\"3\"><thead><tr>");
  for (const Column& column : table.columns)
    html += html_cell(QStringLiteral("th"), column.heading, column.right);
  html += QStringLiteral("</tr></thead>");
  for (const Row& row : table.rows) {
    html += QStringLiteral("<tr>");
    for (std::size_t i = 0; i < row.cells.size(); ++i)
      html += html_cell(QStringLiteral("td"), row.cells[i], table.columns[i].right);
    html += QStringLiteral("</tr>");
  }
  return html + QStringLiteral("</table>");
}

std::unique_ptr<QMimeData> comparison_data(const Compared& compared) {
  auto data = std::make_unique<QMimeData>();
  data->setText(comparison_text(compared));
  data->setHtml(comparison_html(compared));
  return data;
}

}  // namespace zplan::gui
