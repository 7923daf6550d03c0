#pragma once
// Finding entries by what people type.

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "models/catalogue/catalogue.h"
#include "models/model.h"

namespace zplan {

/// Entries of a document: a list of them, or one alone. `source` names the document in messages and stands in
/// for an entry's own source where it gives none. Throws InputError for an entry that is not one.
[[nodiscard]] std::vector<CatalogueEntry> read_entries(const Json& document, const std::string& source);

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

/// The model `id` of the Hugging Face hub cache `hub` (folder "models--ORG--NAME", its refs/main, that
/// snapshot's config.json); nothing where the cache does not have it or `id` cannot be a Hub id. Throws
/// InputError where it has only a part of it.
[[nodiscard]] std::optional<Model> cached_model(std::string_view id, const std::string& hub);

/// The model of a config.json. `fallback_name` is what it is called where the config has no _name_or_path.
[[nodiscard]] Model config_model(const std::string& path, const std::string& fallback_name);

}  // namespace zplan
