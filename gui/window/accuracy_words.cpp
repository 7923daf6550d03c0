#include "gui/window/accuracy_words.h"

#include <QCoreApplication>

#include "cli/report/explain.h"
#include "gui/session/words.h"

namespace zplan::gui {

namespace {

QString checked(const QString& badge) {
  return QCoreApplication::translate("zplan", "Accuracy: %1").arg(badge);
}

}  // namespace

QString accuracy_words(const QString& chart, const Subject& subject) {
  const Coverage plan = coverage_of(subject.plan(), subject.question());
  const auto of = [&plan](AccuracyOf kind) { return qt(accuracy_badge(kind, plan)); };
  const QString separator = QStringLiteral("; ");
  if (chart == QStringLiteral("time")) return checked(of(AccuracyOf::step_time));
  if (chart == QStringLiteral("traffic"))
    return checked(of(AccuracyOf::traffic) + separator + of(AccuracyOf::collective_time));
  if (chart == QStringLiteral("tradeoff"))
    return checked(of(AccuracyOf::memory) + separator + of(AccuracyOf::step_time));
  return checked(of(AccuracyOf::memory));
}

}  // namespace zplan::gui
