#pragma once
// Entries of a catalogue file, the program's own or the user's.

#include <string>
#include <string_view>
#include <vector>

#include "models/catalogue/catalogue.h"

namespace zplan {

/// Entries of a document: a list of them, or one alone. `source` names the document in messages and stands in
/// for an entry's own source where it gives none. Throws InputError for an entry that is not one.
[[nodiscard]] std::vector<CatalogueEntry> read_entries(const Json& document, const std::string& source);

}  // namespace zplan
