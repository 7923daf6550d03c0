#include "models/catalogue/lookup.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <tuple>

#include "models/base/json_reader.h"
#include "models/base/names.h"
#include "models/config.h"
#include "models/recorded/read.h"

namespace zplan {

namespace {

constexpr std::string_view kSeparators = "-_. ";

std::string folded(std::string_view text, NameMatch match) {
  std::string out;
  for (const char c : text) {
    if (match == NameMatch::loose && kSeparators.find(c) != std::string_view::npos) continue;
    out += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  }
  return out;
}

std::string_view without_organisation(std::string_view id) {
  const std::size_t slash = id.find('/');
  return slash == std::string_view::npos ? id : id.substr(slash + 1);
}

/// Everything that an entry goes by, its Hub id first.
std::vector<std::string_view> names_of(const CatalogueEntry& entry) {
  std::vector<std::string_view> names{entry.name, without_organisation(entry.name)};
  for (const std::string& alias : entry.aliases) {
    names.emplace_back(alias);
    names.push_back(without_organisation(alias));
  }
  return names;
}

std::vector<std::string> words_of(std::string_view text, std::string_view separators) {
  std::vector<std::string> words;
  std::size_t at = 0;
  while ((at = text.find_first_not_of(separators, at)) != std::string_view::npos) {
    const std::size_t end = std::min(text.find_first_of(separators, at), text.size());
    words.push_back(folded(text.substr(at, end - at), NameMatch::exact));
    at = end;
  }
  return words;
}

bool contains_all(const std::string& name, const std::vector<std::string>& words) {
  return std::all_of(words.begin(), words.end(),
                     [&](const std::string& word) { return name.find(word) != std::string::npos; });
}

/// Order of the entries that a search finds: those found by id before those found by alias, then the shorter
/// name, then by name.
using SearchRank = std::tuple<bool, std::size_t, std::string_view>;

std::optional<SearchRank> search_rank(const CatalogueEntry& entry, const std::vector<std::string>& words) {
  if (contains_all(folded(entry.name, NameMatch::exact), words))
    return SearchRank{false, entry.name.size(), entry.name};
  std::optional<SearchRank> best;
  for (const std::string& alias : entry.aliases) {
    if (!contains_all(folded(alias, NameMatch::exact), words)) continue;
    const SearchRank rank{true, alias.size(), entry.name};
    if (!best || rank < *best) best = rank;
  }
  return best;
}

void add_new(std::vector<std::string>& names, const std::string& name) {
  if (std::find(names.begin(), names.end(), name) == names.end()) names.push_back(name);
}

std::vector<const CatalogueEntry*> entries_with_words(const std::vector<std::string>& words,
                                                      const std::vector<CatalogueEntry>& entries) {
  std::vector<std::pair<SearchRank, const CatalogueEntry*>> found;
  for (const CatalogueEntry& entry : entries)
    if (const auto rank = search_rank(entry, words)) found.emplace_back(*rank, &entry);
  std::sort(found.begin(), found.end());
  std::vector<const CatalogueEntry*> out;
  for (const auto& [rank, entry] : found) out.push_back(entry);
  return out;
}

/// "llama-3" begins "Llama-3.1-8B" but not "llama-30b".
bool begins(std::string_view name, const std::string& start) {
  if (start.empty() || name.size() < start.size() ||
      folded(name.substr(0, start.size()), NameMatch::exact) != start)
    return false;
  return name.size() == start.size() || kSeparators.find(name[start.size()]) != std::string_view::npos;
}

/// Entries with a name of which `text` is the beginning, the shortest id first.
std::vector<const CatalogueEntry*> entries_beginning(std::string_view text,
                                                     const std::vector<CatalogueEntry>& entries) {
  const std::string start = folded(text, NameMatch::exact);
  std::vector<const CatalogueEntry*> found;
  for (const CatalogueEntry& entry : entries) {
    const auto names = names_of(entry);
    if (std::any_of(names.begin(), names.end(), [&](std::string_view name) { return begins(name, start); }))
      found.push_back(&entry);
  }
  std::stable_sort(found.begin(), found.end(), [](const CatalogueEntry* a, const CatalogueEntry* b) {
    return a->name.size() < b->name.size();
  });
  return found;
}

/// The entry with the name that is spelled most like `text`.
const CatalogueEntry* spelled_like(std::string_view text, const std::vector<CatalogueEntry>& entries) {
  std::vector<std::string> names;
  for (const CatalogueEntry& entry : entries)
    for (const std::string_view name : names_of(entry)) names.emplace_back(name);
  const auto nearest = nearest_word(text, names);
  return nearest ? entries_named(*nearest, NameMatch::exact, entries).front() : nullptr;
}

}  // namespace

std::vector<const CatalogueEntry*> entries_named(std::string_view text, NameMatch match,
                                                 const std::vector<CatalogueEntry>& entries) {
  const std::string wanted = folded(text, match);
  std::vector<const CatalogueEntry*> found;
  for (const CatalogueEntry& entry : entries) {
    const auto names = names_of(entry);
    const bool named = std::any_of(names.begin(), names.end(), [&](std::string_view name) {
      return name.size() >= wanted.size() && folded(name, match) == wanted;
    });
    if (named && !wanted.empty()) found.push_back(&entry);
  }
  return found;
}

std::vector<const CatalogueEntry*> search_entries(std::string_view words,
                                                  const std::vector<CatalogueEntry>& entries) {
  return entries_with_words(words_of(words, " \t\r\n"), entries);
}

std::vector<std::string> near_names(std::string_view text, std::size_t most,
                                    const std::vector<CatalogueEntry>& entries) {
  std::vector<std::string> names;
  const std::string_view start = text.substr(0, 100);
  for (const CatalogueEntry* entry : entries_beginning(start, entries)) add_new(names, entry->name);
  if (const CatalogueEntry* entry = spelled_like(start, entries)) add_new(names, entry->name);
  // Words are dropped from the end until something has them all: "qwen3 9b base" → "qwen3 9b" → "qwen3".
  for (auto words = words_of(start, "-_ /"); !words.empty() && names.size() < most; words.pop_back())
    for (const CatalogueEntry* entry : entries_with_words(words, entries)) add_new(names, entry->name);
  names.resize(std::min(names.size(), most));
  return names;
}

std::vector<const CatalogueEntry*> search_catalogue(std::string_view words) {
  return search_entries(words, catalogue());
}

namespace fs = std::filesystem;

namespace {

bool plain(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '-' || c == '_' || c == '.';
}

/// One half of a Hub id: no path can be made of it.
bool is_id_part(std::string_view part) {
  return !part.empty() && part.size() <= 96 && part.front() != '.' &&
         std::all_of(part.begin(), part.end(), plain);
}

bool is_hub_id(std::string_view text) {
  const std::size_t slash = text.find('/');
  if (slash == std::string_view::npos) return is_id_part(text);
  return is_id_part(text.substr(0, slash)) && is_id_part(text.substr(slash + 1));
}

/// "ORG/NAME" → "models--ORG--NAME". Source: huggingface_hub, "Understand caching".
std::string cache_folder(std::string_view id) {
  std::string folder = "models--";
  for (const char c : id) folder += c == '/' ? std::string("--") : std::string(1, c);
  return folder;
}

[[noreturn]] void incomplete(std::string_view id, const fs::path& missing) {
  throw InputError("--model",
                   fmt::format("{} is in the Hugging Face cache without {}", in_quotes(id), missing.string()),
                   "accepted: a model whose config.json was downloaded");
}

std::string main_revision(std::string_view id, const fs::path& folder) {
  const fs::path reference = folder / "refs" / "main";
  std::error_code ignored;
  if (!fs::exists(reference, ignored)) incomplete(id, reference);
  std::string revision = read_file(reference.string(), 4096);
  while (!revision.empty() && std::isspace(static_cast<unsigned char>(revision.back())) != 0)
    revision.pop_back();
  if (!is_id_part(revision))
    throw InputError(reference.string(), in_quotes(revision), "accepted: the name of a snapshot");
  return revision;
}

}  // namespace

Model config_model(const std::string& path, const std::string& fallback_name) {
  const Json config = parse_json(read_file(path), path);
  const JsonReader reader(config, path);
  const bool recorded = is_recorded_model(config);
  Model model = recorded ? read_recorded_model(reader) : read_config(reader);
  if (!recorded) model.name = reader.text_or("_name_or_path", "");
  if (model.name.empty()) model.name = fallback_name;
  model.source = ModelSource::config;
  model.origin = path;
  return model;
}

std::optional<Model> cached_model(std::string_view id, const std::string& hub) {
  if (hub.empty() || !is_hub_id(id)) return std::nullopt;
  const fs::path folder = fs::path(hub) / cache_folder(id);
  std::error_code ignored;
  if (!fs::is_directory(folder, ignored)) return std::nullopt;
  const std::string revision = main_revision(id, folder);
  const fs::path config = folder / "snapshots" / revision / "config.json";
  if (!fs::exists(config, ignored)) incomplete(id, config);
  Model model = config_model(config.string(), std::string(id));
  model.name = id;
  model.source = ModelSource::cache;
  model.origin = fmt::format("{} at revision {}", id, revision);
  return model;
}

}  // namespace zplan
