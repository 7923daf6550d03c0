#pragma once
// What the item models have in common: limits, scales of axes, and the words around figures. The figures'
// texts are the command line's.

#include <QMetaType>
#include <QString>
#include <QStringList>
#include <string>
#include <vector>

#include "cli/report/explain.h"
#include "gui/session/planned.h"
#include "gui/session/words.h"

namespace zplan::gui {

/// A limit that figures are compared with.
struct Mark {
  QString name, text;  ///< "available", "39.1 GiB"
  double value{};
  bool strong{};  ///< the one that decides
  bool operator==(const Mark&) const = default;
};

/// How an axis counts: in GiB, in seconds.
struct Scale {
  double unit{1};  ///< of the model's figures
  QString name;    ///< "GiB"
  bool operator==(const Scale&) const = default;
};

[[nodiscard]] inline double number(Bytes size) { return static_cast<double>(size.value); }

/// "4.16 s", as tables have it; "0 s".
[[nodiscard]] QString seconds_words(Seconds time);
/// The unit in which sizes up to `most` bytes are counted: GiB, or MiB where all are small.
[[nodiscard]] Scale bytes_scale(double most, ByteUnit unit);
/// The one that all of them ask for; GiB where they differ.
[[nodiscard]] ByteUnit unit_of(const Subjects& subjects);

/// What a device has of memory, the limit that decides first; a limit that is not known, or the same as the
/// one before, is left out.
[[nodiscard]] QVector<Mark> memory_marks(const Question& question);
/// "short by 7.14 GiB", "short of host memory"; empty where it fits.
[[nodiscard]] QString shortage_words(const Plan& plan, const Question& question);

/// A figure as --explain has it, wrapped: name and value, formula, source.
[[nodiscard]] QString explained(const Figure& figure);
/// Without the value.
[[nodiscard]] QString explained_in_general(const std::string& name, const std::string& formula,
                                           const std::string& source);
/// A paragraph of a tooltip.
[[nodiscard]] QString wrapped(const QString& text);

/// The explanation of a subject's plan; empty for a report that was saved, which does not hold what it takes.
[[nodiscard]] Explanation explanation_of(const Subject& subject);
/// A section's figures whose names begin so; all with "".
[[nodiscard]] std::vector<Figure> figures_of(const Explanation& explanation, std::string_view section,
                                             std::string_view beginning);

}  // namespace zplan::gui

Q_DECLARE_METATYPE(zplan::gui::Mark)
Q_DECLARE_METATYPE(zplan::gui::Scale)
