#include "gui/output/export.h"

#include <QMimeData>
#include <algorithm>
#include <functional>
#include <nlohmann/json.hpp>

#include "cli/document/table.h"
#include "cli/options/command_line.h"
#include "cli/options/open_levers.h"
#include "cli/options/strategy_words.h"
#include "cli/report/report.h"
#include "cli/report/report_text.h"
#include "gui/session/words.h"
#include "models/base/error.h"
#include "models/base/files.h"
#include "models/base/json_reader.h"

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
      .arg(tag, right ? QStringLiteral("right") : QStringLiteral("left"), qt(text).trimmed().toHtmlEscaped());
}

constexpr int kWidth = 100;

std::string compared_text(TextFormat format, const Compared& compared) {
  ScenarioComparison all = scenario_comparison(compared);
  switch (format) {
    case TextFormat::plain: return text_of(scenario_document(all, kWidth), {.width = kWidth});
    case TextFormat::markdown: return markdown_of(scenario_document(all, kWidth));
    case TextFormat::csv: return csv_of(scenario_document(all, kWidth));
    case TextFormat::json:
      for (PlannedScenario& each : all.scenarios)
        if (!each.saved) each.details = details_for(each.question, each.answer, OutputFormat::json);
      return json_text(scenario_json(all));
  }
  return {};
}

/// Calls `use` with the report that the command line makes of the scenario for an output format.
std::string with_report(OutputFormat format, const Planned& planned, const Environment& environment,
                        const std::function<std::string(const Report&)>& use) {
  Report report = report_of(planned);
  report.details = details_for(planned.question, planned.answer, format);
  const Advice advice = advice_for(report.options, report.arguments, planned.question, environment);
  report.advice = &advice;
  return use(report);
}

std::string reported_text(TextFormat format, const Planned& planned, const Environment& environment) {
  if (format == TextFormat::markdown) return markdown_of(report_document(report_of(planned), kWidth));
  if (format == TextFormat::csv) return csv_of(report_document(report_of(planned), kWidth));
  if (format == TextFormat::json)
    return with_report(OutputFormat::json, planned, environment,
                       [](const Report& report) { return json_text(report_json(report)); });
  return with_report(OutputFormat::text, planned, environment, [](const Report& report) {
    return text_of(report_document(report, kWidth), {.width = kWidth});
  });
}

/// Returns a saved report, which has no question but the figures of its plans.
std::string saved_text(TextFormat format, const Planned& planned) {
  const std::string& file = planned.scenario.report;
  if (format == TextFormat::json) return json_text(parse_json(read_file(file), file));
  // Not owned: the plan outlives the subject.
  const PlannedPtr borrowed(PlannedPtr{}, &planned);
  Compared alone;
  for (std::size_t i = 0; i < planned.answer.plans.size(); ++i)
    alone.subjects.push_back({qt(planned.answer.plans[i].id()), borrowed, i});
  return compared_text(format, alone);
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
  return qt(
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

QByteArray report_as(TextFormat format, const Planned& planned, const Environment& environment) {
  return QByteArray::fromStdString(planned.saved ? saved_text(format, planned)
                                                 : reported_text(format, planned, environment));
}

QByteArray plan_file(ExportedFile file, const Planned& planned, const Environment& environment) {
  if (file != ExportedFile::page)
    return QByteArray::fromStdString(exported_text(file, planned.plan(), report_of(planned)));
  return QByteArray::fromStdString(
      with_report(OutputFormat::text, planned, environment,
                  [&](const Report& report) { return exported_text(file, planned.plan(), report); }));
}

QByteArray comparison_as(TextFormat format, const Compared& compared, const Environment& environment) {
  if (compared.subjects.size() == 1)
    return report_as(format, *compared.subjects.front().planned, environment);
  return QByteArray::fromStdString(compared_text(format, compared));
}

std::vector<std::string> pinned_arguments(const Subject& subject) {
  const std::vector<std::string>& arguments = subject.planned->scenario.arguments;
  if (subject.index == 0) return arguments;
  return with_options(arguments, strategy_options(subject.plan().strategy));
}

QString copy_as_command(const Scenario& scenario) {
  return scenario.report.empty() ? qt(command_line(scenario.arguments)) : QString();
}

QString copy_as_command(const Subject& subject) {
  if (subject.planned->saved) return {};
  return qt(command_line(pinned_arguments(subject)));
}

QString write_whole_file(const QString& path, const QByteArray& content) {
  const std::string name = path.toStdString();
  try {
    write_file(name, content.toStdString(), name);
    return {};
  } catch (const InputError& error) {
    return qt(error.what());
  }
}

}  // namespace zplan::gui
