#pragma once
// Shared by the item models: limits, scales of axes, and texts of figures in the command line's words.

#include <QMetaType>
#include <QString>
#include <QStringList>
#include <string>
#include <vector>

#include "cli/report/explain.h"
#include "gui/session/planned.h"
#include "gui/session/words.h"

namespace zplan::gui {

/// A limit of memory, drawn as a line.
struct Mark {
  QString name, text;  ///< "available", "39.1 GiB"
  double value{};
  bool strong{};  ///< the limit that decides whether a plan fits
  bool operator==(const Mark&) const = default;
};

/// The unit of an axis.
struct Scale {
  double unit{1};  ///< bytes or seconds in one unit
  QString name;    ///< "GiB"
  bool operator==(const Scale&) const = default;
};

[[nodiscard]] inline double number(Bytes size) { return static_cast<double>(size.value); }

/// Returns "4.16 s" or "0 s".
[[nodiscard]] QString seconds_words(Seconds time);
/// Returns GiB or GB as the unit for sizes up to `most` bytes; MiB or MB if all are below a tenth of that.
[[nodiscard]] Scale bytes_scale(double most, ByteUnit unit);
/// Returns GB if all subjects ask for it, else GiB.
[[nodiscard]] ByteUnit unit_of(const Subjects& subjects);

/// Returns the limits of a device's memory: available, usable, total. Unknown and equal ones are left out.
[[nodiscard]] QVector<Mark> memory_marks(const Question& question);
/// Returns "short by 7.14 GiB" or "short of host memory"; empty if the plan fits.
[[nodiscard]] QString shortage_words(const Plan& plan, const Question& question);

/// Returns a figure as --explain prints it, wrapped: name and value, formula, source.
[[nodiscard]] QString explained(const Figure& figure);
/// Returns the same without the value.
[[nodiscard]] QString explained_in_general(const std::string& name, const std::string& formula,
                                           const std::string& source);
/// Returns the text wrapped to the width of a tooltip.
[[nodiscard]] QString wrapped(const QString& text);

/// Returns the explanation of a subject's plan; empty for a saved report, which has no question.
[[nodiscard]] Explanation explanation_of(const Subject& subject);
/// Returns the figures of a section whose names start with `beginning`.
[[nodiscard]] std::vector<Figure> figures_of(const Explanation& explanation, std::string_view section,
                                             std::string_view beginning);

}  // namespace zplan::gui

Q_DECLARE_METATYPE(zplan::gui::Mark)
Q_DECLARE_METATYPE(zplan::gui::Scale)
