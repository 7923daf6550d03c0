#include "gui/output/export.h"

#include <QCoreApplication>
#include <QSaveFile>
#include <nlohmann/json.hpp>

#include "cli/options/command_line.h"
#include "cli/options/strategy_words.h"
#include "cli/report/report.h"
#include "cli/report/report_text.h"
#include "models/base/json_reader.h"

namespace zplan::gui {

namespace {

constexpr int kWidth = 100;

struct Export {
  Q_DECLARE_TR_FUNCTIONS(zplan::gui::Export)
};

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

Report detailed_report(const Planned& planned, OutputFormat format) {
  Report report = report_of(planned);
  report.details = details_for(planned.question, planned.answer, format);
  return report;
}

std::string reported_text(TextFormat format, const Planned& planned) {
  switch (format) {
    case TextFormat::plain:
      return text_of(report_document(detailed_report(planned, OutputFormat::text), kWidth),
                     {.width = kWidth});
    case TextFormat::markdown: return markdown_of(report_document(report_of(planned), kWidth));
    case TextFormat::csv: return csv_of(report_document(report_of(planned), kWidth));
    case TextFormat::json: return json_text(report_json(detailed_report(planned, OutputFormat::json)));
  }
  return {};
}

/// A saved report has no question to report on: its plan's figures are what there is.
std::string saved_text(TextFormat format, const Planned& planned) {
  const std::string& file = planned.scenario.report;
  if (format == TextFormat::json) return json_text(parse_json(read_file(file), file));
  // Not owned: the subject is gone before the plan.
  const PlannedPtr borrowed(PlannedPtr{}, &planned);
  Compared alone;
  for (std::size_t i = 0; i < planned.answer.plans.size(); ++i)
    alone.subjects.push_back({QString::fromStdString(planned.answer.plans[i].id()), borrowed, i});
  return compared_text(format, alone);
}

}  // namespace

QByteArray report_as(TextFormat format, const Planned& planned) {
  return QByteArray::fromStdString(planned.saved ? saved_text(format, planned)
                                                 : reported_text(format, planned));
}

QByteArray comparison_as(TextFormat format, const Compared& compared) {
  if (compared.subjects.size() == 1) return report_as(format, *compared.subjects.front().planned);
  return QByteArray::fromStdString(compared_text(format, compared));
}

std::vector<std::string> pinned_arguments(const Subject& subject) {
  const std::vector<std::string>& arguments = subject.planned->scenario.arguments;
  if (subject.index == 0) return arguments;
  const Strategy& s = subject.plan().strategy;
  const Offload offload{s.offload_optimizer, s.offload_parameters};
  std::vector<std::pair<std::string, std::string>> pinned{{"--zero", std::to_string(s.zero_stage)},
                                                          {"--tp", std::to_string(s.layout.tensor)},
                                                          {"--offload", std::string(to_name(offload))}};
  for (auto& each : token_options(s)) pinned.push_back(std::move(each));
  return with_options(arguments, pinned);
}

QString copy_as_command(const Scenario& scenario) {
  return scenario.report.empty() ? QString::fromStdString(command_line(scenario.arguments)) : QString();
}

QString copy_as_command(const Subject& subject) {
  if (subject.planned->saved) return {};
  return QString::fromStdString(command_line(pinned_arguments(subject)));
}

QString write_whole_file(const QString& path, const QByteArray& content) {
  QSaveFile file(path);
  if (file.open(QIODevice::WriteOnly) && file.write(content) == content.size() && file.commit()) return {};
  return Export::tr("%1 is not written: %2").arg(path, file.errorString());
}

}  // namespace zplan::gui
