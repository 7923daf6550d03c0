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

/// True if `text` can be the id of a repository: no path can be made of it.
[[nodiscard]] bool is_hub_id(std::string_view text);

/// Returns the folder of a repository in the cache of huggingface_hub: "models--ORG--NAME".
[[nodiscard]] std::string cache_folder(std::string_view id);
/// Returns the folder of a repository in ModelScope's cache: "models/ORG/NAME", each "." as "___".
[[nodiscard]] std::string modelscope_folder(std::string_view id);

/// Holds the files that a local cache has of a repository.
struct CachedFiles {
  std::string config{};    ///< path of its config.json; empty: not there
  std::string adapters{};  ///< path of its adapter_config.json, which names the base; empty: not there
  std::string revision{};
  std::string missing{};  ///< what a cache that has the repository lacks of it
};

/// Returns what the cache of huggingface_hub or ModelScope's has of `id`: nothing if they lack it or `id`
/// cannot be an id. Throws InputError for a reference that is no revision.
[[nodiscard]] std::optional<CachedFiles> cached_files(std::string_view id, const ModelSearch& where);

/// Returns the model that a file of adapters belongs to: base_model_name_or_path.
[[nodiscard]] std::string base_of_adapters(const std::string& path);

/// Returns the model of a config's text. `source` names it in messages.
[[nodiscard]] Model model_of_text(const std::string& text, const std::string& source,
                                  const std::string& fallback_name);

/// Returns the model of a config.json, with the name `fallback_name` if the config has no _name_or_path.
[[nodiscard]] Model config_model(const std::string& path, const std::string& fallback_name);

}  // namespace zplan
