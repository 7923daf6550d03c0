#include "gui/models/figures.h"

#include <QCoreApplication>
#include <algorithm>

#include "cli/document/text.h"
#include "cli/report/report.h"
#include "models/base/format.h"
#include "planner/plan/plan_figures.h"

namespace zplan::gui {

namespace {

/// Characters in a line of a tooltip.
constexpr int kTooltipWidth = 84;

struct Words {
  Q_DECLARE_TR_FUNCTIONS(zplan::gui::Words)
};

QString lines_of(const std::string& first, const std::string& text) {
  QString all = qt(paragraph(first, text, kTooltipWidth));
  while (all.endsWith('\n')) all.chop(1);
  return all;
}

}  // namespace

QString seconds_words(Seconds time) {
  return time.value == 0 ? QStringLiteral("0 s") : qt(seconds_value(time)) + QStringLiteral(" s");
}

Scale bytes_scale(double most, ByteUnit unit) {
  const double base = unit == ByteUnit::gib ? 1024.0 : 1000.0;
  if (most > 0 && most < 0.1 * base * base * base)
    return {base * base, unit == ByteUnit::gib ? QStringLiteral("MiB") : QStringLiteral("MB")};
  return {base * base * base, qt(unit_name(unit))};
}

ByteUnit unit_of(const Subjects& subjects) {
  const bool all = std::all_of(subjects.begin(), subjects.end(),
                               [](const Subject& each) { return each.question().unit == ByteUnit::gb; });
  return all && !subjects.empty() ? ByteUnit::gb : ByteUnit::gib;
}

QVector<Mark> memory_marks(const Question& question) {
  const Cluster& cluster = question.cluster;
  QVector<Mark> marks;
  const auto add = [&](const QString& name, Bytes size) {
    if (size.value <= 0 || (!marks.isEmpty() && marks.back().value == number(size))) return;
    marks.push_back({name, memory_words(size, question.unit), number(size), marks.isEmpty()});
  };
  add(Words::tr("available"), available(cluster, question.headroom));
  add(Words::tr("usable"), cluster.usable_memory);
  add(Words::tr("GPU"), cluster.memory);
  return marks;
}

QString shortage_words(const Plan& plan, const Question& question) {
  if (plan.fits) return {};
  if (plan.fits_device) return Words::tr("short of host memory");
  // Its steps fit: an evaluation or a save does not.
  if (shortage(plan, question).value <= 0) return Words::tr("short beside the steps");
  return Words::tr("short by %1").arg(memory_words(shortage(plan, question), question.unit));
}

QString explained(const Figure& figure) {
  return explained_in_general(figure.name + ": " + figure.value, figure.formula, figure.source);
}

QString explained_in_general(const std::string& name, const std::string& formula, const std::string& source) {
  return lines_of("", name) + '\n' + lines_of("   = ", formula) + '\n' +
         lines_of("   ", Words::tr("source: %1").arg(qt(source)).toStdString());
}

QString wrapped(const QString& text) { return lines_of("", text.toStdString()); }

Explanation explanation_of(const Subject& subject) {
  if (subject.planned->saved) return {};
  return explain(subject.plan(), question_of(subject.plan(), report_of(*subject.planned)));
}

std::vector<Figure> figures_of(const Explanation& explanation, std::string_view section,
                               std::string_view beginning) {
  std::vector<Figure> found;
  for (const Section& each : explanation.sections)
    if (each.name == section)
      std::copy_if(each.figures.begin(), each.figures.end(), std::back_inserter(found),
                   [beginning](const Figure& figure) { return figure.name.starts_with(beginning); });
  return found;
}

}  // namespace zplan::gui
