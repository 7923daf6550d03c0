#pragma once
// Finding entries by what people type.

#include <string>
#include <string_view>
#include <vector>

#include "models/catalogue/catalogue.h"

namespace zplan {

/// `exact` ignores case only; `loose` ignores "-", "_", "." and spaces too.
enum class NameMatch { exact, loose };

/// Entries that go by `text`: as Hub id, as id without organisation, as alias or as alias without
/// organisation.
[[nodiscard]] std::vector<const CatalogueEntry*> entries_named(std::string_view text, NameMatch match,
                                                               const std::vector<CatalogueEntry>& entries);

/// Entries of which one name or alias contains every word of `words`, best first.
[[nodiscard]] std::vector<const CatalogueEntry*> search_entries(std::string_view words,
                                                                const std::vector<CatalogueEntry>& entries);

/// At most `most` Hub ids of entries that may be meant by `text`, the likeliest first.
[[nodiscard]] std::vector<std::string> near_names(std::string_view text, std::size_t most,
                                                  const std::vector<CatalogueEntry>& entries);

}  // namespace zplan
