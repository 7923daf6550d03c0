#pragma once
// What is copied and saved as text.

#include <QByteArray>
#include <QString>

#include "gui/output/comparison_text.h"

namespace zplan::gui {

enum class TextFormat { plain, markdown, csv, json };

/// What `zplan` prints for the scenario, with --markdown, --csv or --json as the format says, to the byte. Of
/// a report that was saved, its JSON as it was and, in the other formats, the figures that it has. Throws
/// InputError where such a report cannot be read any more.
[[nodiscard]] QByteArray report_as(TextFormat format, const Planned& planned);
/// What `zplan compare FILE.zplan` prints, with --markdown, --csv or --json; one scenario by itself as
/// `zplan` reports it. Throws likewise.
[[nodiscard]] QByteArray comparison_as(TextFormat format, const Compared& compared);

/// The arguments with which `zplan` makes this one plan of a scenario: as they are where it is the one that
/// is recommended anyway.
[[nodiscard]] std::vector<std::string> pinned_arguments(const Subject& subject);

/// "zplan --model 8B …" for a shell; empty for a report that was saved, which no command made.
[[nodiscard]] QString copy_as_command(const Scenario& scenario);
/// The same with the strategy pinned where it is not the one that zplan recommends by itself.
[[nodiscard]] QString copy_as_command(const Subject& subject);

/// The whole file or, where that fails, none of it and what was there before. Returns what went wrong, naming
/// the file; empty where nothing did.
[[nodiscard]] QString write_whole_file(const QString& path, const QByteArray& content);

}  // namespace zplan::gui
