#include "gui/output/comparison_text.h"

#include <algorithm>

#include "cli/measures.h"
#include "cli/report_json.h"
#include "models/base/version.h"

namespace zplan::gui {

namespace {

/// A figure or a setting: what stands for each subject, and what that differs by from the baseline.
struct Line {
  std::string name, unit;
  std::vector<std::string> texts;
  std::vector<std::string> changes{};  ///< empty: words, which have no difference
  bool alike{};
};

bool all_equal(const std::vector<std::string>& texts) {
  return std::ranges::all_of(texts, [&texts](const std::string& text) { return text == texts.front(); });
}

ByteUnit unit_of(const Compared& compared) { return compared.subjects.front().question().unit; }

std::size_t base_of(const Compared& compared) { return static_cast<std::size_t>(compared.baseline); }

/// Whether a column of differences stands behind a subject's.
bool has_changes(const Compared& compared, std::size_t column) {
  return compared.baseline >= 0 && base_of(compared) != column;
}

Line word_line(std::string name, const Compared& compared,
               std::string (*word)(const Plan&, const Question&)) {
  Line line{.name = std::move(name), .unit = {}, .texts = {}};
  for (const Subject& each : compared.subjects) line.texts.push_back(word(each.plan(), each.question()));
  line.alike = all_equal(line.texts);
  return line;
}

Line measured_line(const Measure& measure, const Compared& compared) {
  const ByteUnit unit = unit_of(compared);
  Line line{.name = measure.name, .unit = measure.unit, .texts = {}};
  std::vector<double> values;
  for (const Subject& each : compared.subjects) {
    values.push_back(measure.value(each.plan(), each.question()));
    line.texts.push_back(measure.text(values.back(), unit));
  }
  line.alike = all_equal(line.texts);
  if (compared.baseline < 0) return line;
  for (const double value : values)
    line.changes.push_back(difference_text(measure, value, values[base_of(compared)], unit));
  line.alike = std::ranges::all_of(line.changes, [](const std::string& change) { return change == "="; });
  return line;
}

std::vector<Line> measured_lines(const Compared& compared) {
  std::vector<const Question*> questions;
  for (const Subject& each : compared.subjects) questions.push_back(&each.question());
  std::vector<Line> lines;
  const auto add = [&](const std::vector<Measure>& measures) {
    for (const Measure& measure : measures) lines.push_back(measured_line(measure, compared));
  };
  add(memory_measures(unit_of(compared)));
  lines.push_back(word_line("peak in", compared, [](const Plan& plan, const Question&) {
    return std::string(to_name(reported(plan.memory.peak.phase)));
  }));
  lines.push_back(word_line("verdict", compared,
                            [](const Plan& plan, const Question&) { return comparison_verdict(plan); }));
  add(traffic_measures(questions));
  add(time_measures());
  return lines;
}

std::vector<Line> shown_lines(const Compared& compared) {
  std::vector<Line> lines;
  for (const Setting& setting : settings())
    if (Line line = word_line(setting.name, compared, setting.text); !line.alike)
      lines.push_back(std::move(line));
  for (Line& line : measured_lines(compared))
    if (!(line.alike && compared.differences && compared.subjects.size() > 1))
      lines.push_back(std::move(line));
  return lines;
}

std::string heading(const Compared& compared, std::size_t column) {
  const Subject& subject = compared.subjects[column];
  return subject.title.toStdString() + (subject.is_draft() ? " (first estimate)" : "");
}

std::string change_of(const Line& line, std::size_t column) {
  return line.changes.empty() ? "" : line.changes[column];
}

std::string with_unit(const Line& line) {
  return line.unit.empty() ? line.name : line.name + ", " + line.unit;
}

/// The text of a cell with its difference in brackets.
std::string with_change(const Compared& compared, const Line& line, std::size_t column) {
  const std::string change = has_changes(compared, column) ? change_of(line, column) : "";
  return change.empty() ? line.texts[column] : line.texts[column] + " (" + change + ")";
}

/// A row for each line: its name, what `cell` gives for each subject.
template <class Cell>
Table table_of(const Compared& compared, const Cell& cell) {
  Table table{{{"", "", false, kAlways}}, {}};
  for (std::size_t i = 0; i < compared.subjects.size(); ++i)
    table.columns.push_back({heading(compared, i), "", true, kAlways});
  for (const Line& line : shown_lines(compared)) {
    Row row{{with_unit(line)}};
    for (std::size_t i = 0; i < compared.subjects.size(); ++i) row.cells.push_back(cell(line, i));
    table.rows.push_back(std::move(row));
  }
  return table;
}

Table bracketed_table(const Compared& compared) {
  return table_of(compared, [&compared](const Line& line, std::size_t column) {
    return with_change(compared, line, column);
  });
}

std::string joined(const std::vector<std::string>& fields) {
  std::string line;
  for (const std::string& field : fields) line += (line.empty() ? "" : ",") + csv_field(field);
  return line + "\r\n";
}

std::vector<std::string> csv_headings(const Compared& compared) {
  std::vector<std::string> names{"figure", "unit"};
  for (std::size_t i = 0; i < compared.subjects.size(); ++i) {
    names.push_back(heading(compared, i));
    if (has_changes(compared, i)) names.push_back(heading(compared, i) + " difference");
  }
  return names;
}

Json subject_json(const Subject& subject) {
  const Planned& planned = *subject.planned;
  Json json{{"name", subject.title.toStdString()}};
  json["arguments"] = planned.saved ? Json(nullptr) : Json(planned.scenario.arguments);
  json["saved"] = planned.saved ? Json(planned.scenario.report) : Json(nullptr);
  json["strategy"] = subject.plan().id();
  json["fits"] = subject.plan().fits;
  json["report"] = report_of(planned);
  return json;
}

QString html_cell(const QString& tag, const std::string& text, bool right) {
  return QStringLiteral("<%1 align=\"%2\">%3</%1>")
      .arg(tag, right ? "right" : "left", QString::fromStdString(text).toHtmlEscaped());
}

}  // namespace

std::string comparison_text(const Compared& compared) {
  constexpr int kUnlimited = 100'000;
  Table table{{{"", "", false, kAlways}, {"", "", false, kAlways}}, {}};
  for (std::size_t i = 0; i < compared.subjects.size(); ++i) {
    table.columns.push_back({heading(compared, i), "", true, kAlways});
    if (has_changes(compared, i)) table.columns.push_back({"", "", true, kAlways});
  }
  for (const Line& line : shown_lines(compared)) {
    Row row{{line.name, line.unit}};
    for (std::size_t i = 0; i < compared.subjects.size(); ++i) {
      row.cells.push_back(line.texts[i]);
      if (has_changes(compared, i)) row.cells.push_back(change_of(line, i));
    }
    table.rows.push_back(std::move(row));
  }
  return render_text(table, {.width = kUnlimited, .color = false});
}

std::string comparison_markdown(const Compared& compared) {
  return render_markdown(bracketed_table(compared));
}

std::string comparison_csv(const Compared& compared) {
  std::string text = joined(csv_headings(compared));
  for (const Line& line : shown_lines(compared)) {
    std::vector<std::string> fields{line.name, line.unit};
    for (std::size_t i = 0; i < compared.subjects.size(); ++i) {
      fields.push_back(line.texts[i]);
      if (has_changes(compared, i)) fields.push_back(change_of(line, i));
    }
    text += joined(fields);
  }
  return text;
}

QString comparison_html(const Compared& compared) {
  const Table table = bracketed_table(compared);
  QString html = QStringLiteral("<table cellspacing=\"0\" cellpadding=\"3\"><thead><tr>");
  for (std::size_t i = 0; i < table.columns.size(); ++i)
    html += html_cell("th", table.columns[i].heading, i > 0);
  html += QStringLiteral("</tr></thead>");
  for (const Row& row : table.rows) {
    html += QStringLiteral("<tr>");
    for (std::size_t i = 0; i < row.cells.size(); ++i) html += html_cell("td", row.cells[i], i > 0);
    html += QStringLiteral("</tr>");
  }
  return html + QStringLiteral("</table>");
}

Json comparison_json(const Compared& compared) {
  Json scenarios = Json::array();
  for (const Subject& each : compared.subjects) scenarios.push_back(subject_json(each));
  return {{"schema", "zplan.comparison/1"},
          {"zplan_version", std::string(version())},
          {"baseline", compared.baseline < 0 ? Json(nullptr) : Json(compared.baseline)},
          {"scenarios", std::move(scenarios)}};
}

Json report_of(const Planned& planned) {
  const std::string& file = planned.scenario.report;
  return planned.saved ? parse_json(read_file(file), file) : report_json(planned.report());
}

}  // namespace zplan::gui
