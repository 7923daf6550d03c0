#include "models/catalogue/lookup.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <cmath>
#include <filesystem>
#include <initializer_list>
#include <nlohmann/json.hpp>
#include <optional>
#include <tuple>

#include "models/base/json_reader.h"
#include "models/base/names.h"
#include "models/config.h"
#include "models/recorded/read.h"

namespace zplan {

namespace {

constexpr std::string_view kSeparators = "-_. :";  // a colon as in Ollama's names: "qwen3:8b"

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

// ---- nearness of names, by family, size and modality

/// Holds the family, size and modality in a name: "qwen2.5", 7e9 and images of "Qwen2.5-VL-7B-Instruct".
struct NameTraits {
  std::vector<std::string> words;  ///< but sizes and words of training
  std::optional<double> size;      ///< parameters
  bool text_only{true};
};

bool is_one_of(std::string_view word, std::initializer_list<std::string_view> words) {
  return std::find(words.begin(), words.end(), word) != words.end();
}

bool is_of_training(std::string_view word) {
  return is_one_of(word, {"instruct", "base", "chat", "it", "pt", "hf", "sft", "dpo", "thinking"});
}

bool is_modality(std::string_view word) {
  return is_one_of(word, {"vl", "vision", "omni", "audio", "llava", "ocr", "video", "voxtral", "pixtral"}) ||
         word.find("vl") != std::string_view::npos;
}

std::size_t letters_in(std::string_view word) {
  return static_cast<std::size_t>(
      std::count_if(word.begin(), word.end(), [](unsigned char c) { return std::isalpha(c) != 0; }));
}

NameTraits traits_of(std::string_view name) {
  NameTraits traits;
  for (const std::string& word : words_of(without_organisation(name), "-_ :")) {
    const auto size = word.ends_with('k') ? std::nullopt : parse_size(word);  // "300k" is a length
    if (size)
      traits.size = static_cast<double>(size->value);
    else if (!is_of_training(word))
      traits.words.push_back(word);
    if (is_modality(word)) traits.text_only = false;
  }
  return traits;
}

/// Returns the nearness of two words: 3 for the same, 2 for another version of one family.
double nearness(std::string_view a, std::string_view b) {
  const auto family = [](std::string_view word) { return word.substr(0, word.find_first_of("0123456789.")); };
  constexpr std::size_t kLeastLetters = 3;
  if (letters_in(a) < kLeastLetters) return a == b ? 0.5 : 0;
  if (a == b) return 3;
  if (family(a) == family(b)) return 2;
  constexpr double kAlike = 0.6;
  const double alike = similarity(a, b);
  return alike >= kAlike ? alike : 0;
}

/// Returns the nearness of two names; nothing if no word of both is alike.
std::optional<double> nearness(const NameTraits& asked, const NameTraits& known) {
  constexpr double kForeignWord = 0.3, kOtherModality = 3, kSameSize = 2;
  double score = 0, best = 0;
  for (const std::string& word : known.words) {
    double nearest = 0;
    for (const std::string& each : asked.words) nearest = std::max(nearest, nearness(each, word));
    score += nearest > 0 ? nearest : -kForeignWord;
    best = std::max(best, nearest);
  }
  if (best < 0.6) return std::nullopt;
  if (asked.text_only != known.text_only) score -= kOtherModality;
  if (asked.size && known.size && *known.size > 0 && *asked.size > 0)
    score += kSameSize - std::min(kSameSize, std::abs(std::log2(*asked.size / *known.size)));
  return score;
}

/// Returns the entries with the nearest names, the nearest first.
std::vector<const CatalogueEntry*> nearest_entries(std::string_view text,
                                                   const std::vector<CatalogueEntry>& entries) {
  const NameTraits asked = traits_of(text);
  std::vector<std::pair<double, const CatalogueEntry*>> scored;
  for (const CatalogueEntry& entry : entries) {
    std::optional<double> best;
    for (const std::string_view name : names_of(entry))
      if (const auto score = nearness(asked, traits_of(name)); score && (!best || *score > *best))
        best = score;
    if (best) scored.emplace_back(*best, &entry);
  }
  std::stable_sort(scored.begin(), scored.end(),
                   [](const auto& a, const auto& b) { return a.first > b.first; });
  constexpr double kWorse = 3;  // than the nearest: another family or modality
  std::vector<const CatalogueEntry*> nearest;
  for (const auto& [score, entry] : scored)
    if (score > scored.front().first - kWorse) nearest.push_back(entry);
  return nearest;
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
  for (const CatalogueEntry* entry : nearest_entries(start, entries)) add_new(names, entry->name);
  // Words are dropped from the end until something has them all: "qwen3 9b base" → "qwen3 9b" → "qwen3".
  for (auto words = words_of(start, "-_ /:"); !words.empty() && names.empty(); words.pop_back())
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

}  // namespace

bool is_hub_id(std::string_view text) {
  const std::size_t slash = text.find('/');
  if (slash == std::string_view::npos) return is_id_part(text);
  return is_id_part(text.substr(0, slash)) && is_id_part(text.substr(slash + 1));
}

// Source: huggingface_hub, "Understand caching".
std::string cache_folder(std::string_view id) {
  std::string folder = "models--";
  for (const char c : id) folder += c == '/' ? std::string("--") : std::string(1, c);
  return folder;
}

// Source: modelscope 1.3x, hub/utils/utils.py model_id_to_group_owner_name, hub/snapshot_download.py.
std::string modelscope_folder(std::string_view id) {
  std::string folder = "models/";
  for (const char c : id) folder += c == '.' ? std::string("___") : std::string(1, c);
  return folder;
}

namespace {

std::string main_revision(const fs::path& reference) {
  std::string revision = read_file(reference.string(), 4096);
  while (!revision.empty() && std::isspace(static_cast<unsigned char>(revision.back())) != 0)
    revision.pop_back();
  if (!is_id_part(revision))
    throw InputError(reference.string(), in_quotes(revision), "accepted: the name of a snapshot");
  return revision;
}

bool is_file(const fs::path& path) {
  std::error_code ignored;
  return fs::is_regular_file(path, ignored);
}

/// Fills in the files of a folder that a cache has.
void take_files(const fs::path& folder, CachedFiles& files) {
  if (is_file(folder / "config.json"))
    files.config = (folder / "config.json").string();
  else if (is_file(folder / "adapter_config.json"))
    files.adapters = (folder / "adapter_config.json").string();
  else
    files.missing = (folder / "config.json").string();
}

std::optional<CachedFiles> hub_files(std::string_view id, const std::string& hub) {
  const fs::path folder = fs::path(hub) / cache_folder(id);
  std::error_code ignored;
  if (hub.empty() || !fs::is_directory(folder, ignored)) return std::nullopt;
  const fs::path reference = folder / "refs" / "main";
  if (!fs::exists(reference, ignored)) return CachedFiles{.missing = reference.string()};
  CachedFiles files{.revision = main_revision(reference)};
  take_files(folder / "snapshots" / files.revision, files);
  return files;
}

std::optional<CachedFiles> modelscope_files(std::string_view id, const std::string& cache) {
  if (cache.empty() || id.find('/') == std::string_view::npos) return std::nullopt;
  const std::string inside = modelscope_folder(id);
  // Before 1.20 its cache had no folder "models".
  for (const std::string& each : {inside, inside.substr(inside.find('/') + 1)}) {
    CachedFiles files{.revision = "master"};
    take_files(fs::path(cache) / each, files);
    if (files.missing.empty()) return files;
  }
  return std::nullopt;
}

}  // namespace

std::optional<CachedFiles> cached_files(std::string_view id, const ModelSearch& where) {
  if (!is_hub_id(id)) return std::nullopt;
  if (auto files = modelscope_files(id, where.modelscope_cache)) return files;
  return hub_files(id, where.hub_cache);
}

std::string base_of_adapters(const std::string& path) {
  const Json config = parse_json(read_file(path), path);
  return JsonReader(config, path).at("base_model_name_or_path").text();
}

Model model_of_text(const std::string& text, const std::string& source, const std::string& fallback_name) {
  const Json config = parse_json(text, source);
  const JsonReader reader(config, source);
  const bool recorded = is_recorded_model(config);
  Model model = recorded ? read_recorded_model(reader) : read_config(reader);
  if (!recorded) model.name = printable(reader.text_or("_name_or_path", ""));
  if (model.name.empty()) model.name = fallback_name;
  model.source = ModelSource::config;
  model.origin = source;
  return model;
}

Model config_model(const std::string& path, const std::string& fallback_name) {
  return model_of_text(read_file(path), path, fallback_name);
}

}  // namespace zplan
