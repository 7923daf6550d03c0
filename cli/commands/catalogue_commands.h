#pragma once
// `zplan models` and `zplan hardware`: what is known, and where each figure comes from.

#include <ostream>
#include <string>

#include "cli/document/text.h"
#include "cli/environment.h"
#include "cli/options/options.h"

namespace zplan {

/// list (the default), show NAME, search WORDS; as a table, or JSON with --json. Throws InputError for other
/// words.
[[nodiscard]] std::string models_command(const Options& options, const Environment& environment,
                                         const Style& style);
[[nodiscard]] std::string hardware_command(const Options& options, const Environment& environment,
                                           const Style& style);

/// `zplan hardware import FILE…`: the profile that the files make, to --output or `out`; what was left out to
/// `err`. Throws InputError for files that are no measurement of collectives, or contradict themselves, and
/// for an output that cannot be written.
void hardware_import(const Options& options, const Environment& environment, std::ostream& out,
                     std::ostream& err);

/// The first word of a catalogue command and the others as one text.
struct CatalogueAction {
  std::string verb;  ///< "list", "show" or "search"
  std::string text;  ///< empty for "list" alone
};
[[nodiscard]] CatalogueAction catalogue_action(const Options& options);

}  // namespace zplan
