#pragma once
// Finds models by name: in files of entries, in the catalogue, in the Hugging Face cache.

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "models/catalogue/catalogue.h"
#include "models/model.h"

namespace zplan {

/// Returns the entries of a document, which is a list of them or one alone. `source` names the document in
/// messages, and is the source of entries that name none. Throws InputError for an invalid entry.
[[nodiscard]] std::vector<CatalogueEntry> read_entries(const Json& document, const std::string& source);

/// Comparisons of names: `exact` ignores case only; `loose` ignores "-", "_", "." and spaces too.
enum class NameMatch { exact, loose };

/// Returns the entries that have the name `text`: as Hub id or alias, with or without organisation.
[[nodiscard]] std::vector<const CatalogueEntry*> entries_named(std::string_view text, NameMatch match,
                                                               const std::vector<CatalogueEntry>& entries);

/// Returns the entries of which one name or alias contains every word of `words`, best first.
[[nodiscard]] std::vector<const CatalogueEntry*> search_entries(std::string_view words,
                                                                const std::vector<CatalogueEntry>& entries);

/// Returns at most `most` Hub ids of entries that `text` may mean, the likeliest first.
[[nodiscard]] std::vector<std::string> near_names(std::string_view text, std::size_t most,
                                                  const std::vector<CatalogueEntry>& entries);

/// Returns the model `id` of the Hugging Face hub cache `hub` (folder "models--ORG--NAME", its refs/main,
/// that snapshot's config.json); nothing if the cache lacks it or `id` cannot be a Hub id. Throws InputError
/// if the cache has only a part of it.
[[nodiscard]] std::optional<Model> cached_model(std::string_view id, const std::string& hub);

/// Returns the model of a config.json, with the name `fallback_name` if the config has no _name_or_path.
[[nodiscard]] Model config_model(const std::string& path, const std::string& fallback_name);

}  // namespace zplan
