// Resolves --model: tries its meanings in order.

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "models/catalogue/catalogue.h"
#include "models/catalogue/lookup.h"
#include "models/catalogue/names.h"

namespace zplan {

namespace fs = std::filesystem;

namespace {

constexpr std::string_view kOption = "--model";
constexpr std::string_view kForms =
    "a name of the catalogue, a size such as 8B, a config.json or its folder, or a Hub id";

Model resolved(std::string_view text, const ModelSearch& where, int depth);

[[noreturn]] void fail(const std::string& found, const std::string& accepted) {
  throw InputError(std::string(kOption), found, accepted);
}

bool is_there(const fs::path& path) {
  std::error_code ignored;
  return fs::exists(path, ignored);
}

bool is_folder(const fs::path& path) {
  std::error_code ignored;
  return fs::is_directory(path, ignored);
}

/// Written as a path: nothing in the catalogue or on the Hub is called so.
bool written_as_path(std::string_view text) {
  const auto starts = [&](std::string_view with) { return text.substr(0, with.size()) == with; };
  const bool json = text.size() > 5 && text.substr(text.size() - 5) == ".json";
  return json || text == "." || text == ".." || starts("/") || starts("./") || starts("../") || starts("~");
}

/// A word without a slash may be a model and, by chance, also a folder here: only one with a config.json
/// counts.
bool is_path(std::string_view text) {
  if (written_as_path(text)) return true;
  const fs::path path(text);
  if (text.find('/') != std::string_view::npos || !is_folder(path)) return is_there(path);
  return is_there(path / "config.json");
}

/// Returns the folder of ".../Qwen3-8B/config.json", the file without its ending of ".../mine.json".
std::string name_of_file(const fs::path& path) {
  if (path.filename() != "config.json") return path.stem().string();
  std::error_code ignored;
  const std::string folder = fs::absolute(path, ignored).lexically_normal().parent_path().filename().string();
  return folder.empty() ? "config" : folder;
}

/// Returns the base of a repository of adapters: what is trained is that, with adapters.
Model base_model(std::string_view adapters, const std::string& base, const ModelSearch& where, int depth) {
  constexpr int kDeepest = 3;  // adapters of adapters
  if (depth == kDeepest)
    fail(fmt::format("{} is a repository of adapters without end", in_quotes(adapters)),
         "accepted: their base");
  Model model = resolved(base, where, depth + 1);
  model.read_as = fmt::format("{} holds adapters of {}, which is planned{}", adapters, base,
                              model.read_as.empty() ? "" : "; " + model.read_as);
  return model;
}

Model model_at_path(std::string_view text, const ModelSearch& where, int depth) {
  fs::path path(text);
  if (!is_there(path))
    fail(fmt::format("there is no file or folder {}", in_quotes(text, 200)),
         fmt::format("accepted: {}", kForms));
  if (is_folder(path)) {
    const fs::path adapters = path / "adapter_config.json";
    path /= "config.json";
    if (!is_there(path) && is_there(adapters))
      return base_model(text, base_of_adapters(adapters.string()), where, depth);
    if (!is_there(path))
      fail(fmt::format("the folder {} has no config.json", in_quotes(text, 200)),
           "accepted: a folder with the config.json of a Hugging Face model");
  }
  return config_model(path.string(), name_of_file(path));
}

std::vector<CatalogueEntry> user_entries(const std::string& folder) {
  if (folder.empty() || !is_folder(folder)) return {};
  std::error_code error;
  std::vector<std::string> files;
  for (auto it = fs::directory_iterator(folder, error); !error && it != fs::directory_iterator();
       it.increment(error))
    if (it->path().extension() == ".json") files.push_back(it->path().string());
  if (error) throw InputError(folder, error.message(), "accepted: a folder that can be read");
  std::sort(files.begin(), files.end());
  std::vector<CatalogueEntry> all;
  for (const std::string& file : files)
    for (CatalogueEntry& entry : read_entries(parse_json(read_file(file), file), file))
      all.push_back(std::move(entry));
  return all;
}

/// The one entry that `text` names, or none; InputError where it names several.
const CatalogueEntry* the_entry(std::string_view text, NameMatch match,
                                const std::vector<CatalogueEntry>& entries) {
  const auto found = entries_named(text, match, entries);
  if (found.size() < 2) return found.empty() ? nullptr : found.front();
  std::vector<std::string_view> names;
  for (const CatalogueEntry* entry : found) names.emplace_back(entry->name);
  fail(fmt::format("{} may mean several models", in_quotes(text)),
       fmt::format("accepted: one of {}", fmt::join(names, ", ")));
}

Model user_model(const CatalogueEntry& entry) {
  Model model = catalogue_model(entry);
  model.source = ModelSource::config;
  return model;
}

Model meant_model(std::string_view text, const NameMeaning& meaning) {
  Model model = model_of_meaning(meaning);
  if (!meaning.why.empty()) {
    // A repository keeps its own name; another spelling of an entry's is that entry.
    if (is_hub_id(text) && (meaning.other != nullptr || text.find('/') != std::string_view::npos))
      model.name = text;
    model.read_as = meaning_in_words(text, meaning);
  }
  if (meaning.packed != nullptr) model.stored_as = meaning.packed->method;
  return model;
}

/// True if a folder's name says nothing of the model in it: "checkpoint-500", "snapshots", a revision.
bool is_of_a_save(const std::string& name) {
  constexpr std::array<std::string_view, 11> kWords{"actor",       "best",      "final",   "hf",
                                                    "huggingface", "latest",    "last",    "merged",
                                                    "model",       "snapshots", "hf_model"};
  constexpr std::size_t kRevision = 40;
  const bool revision = name.size() == kRevision && name.find_first_not_of("0123456789abcdef") == name.npos;
  return revision || name.empty() || name.starts_with("checkpoint-") || name.starts_with("global_step") ||
         name.starts_with("epoch") || std::find(kWords.begin(), kWords.end(), name) != kWords.end();
}

/// Returns the Hub id in the name of a folder of huggingface_hub's cache, "models--Qwen--Qwen3-8B"; of others
/// the name, "." for ModelScope's "___".
std::string id_of_folder(std::string name) {
  constexpr std::string_view kCached = "models--";
  if (name.starts_with(kCached)) {
    name.erase(0, kCached.size());
    if (const std::size_t at = name.find("--"); at != name.npos) name.replace(at, 2, "/");
  }
  for (std::size_t at = 0; (at = name.find("___", at)) != name.npos;) name.replace(at, 3, ".");
  return name;
}

/// Returns the last name in a path that speaks of a model: "Qwen3-8B" of "/models/Qwen3-8B/checkpoint-500".
std::string model_in_path(std::string_view text) {
  fs::path path(text);
  if (path.filename() == "config.json") path = path.parent_path();
  while (path.has_relative_path() && is_of_a_save(path.filename().string())) path = path.parent_path();
  return id_of_folder(path.filename().string());
}

/// Returns the model that the name of a folder elsewhere means: recipes name folders of the machine that they
/// run on.
std::optional<Model> model_elsewhere(std::string_view text) {
  if (text.find('/') == std::string_view::npos || is_there(fs::path(text))) return std::nullopt;
  const std::string name = model_in_path(text);
  if (name.empty() || name.ends_with(".json")) return std::nullopt;
  auto meaning = meaning_of_name(name);
  if (!meaning) meaning = tuned_meaning(name);
  if (!meaning) return std::nullopt;
  Model model = meant_model(name, *meaning);
  model.name = text;
  model.read_as =
      fmt::format("{} is not here: {} is planned, which the folder is called", text, meaning->entry->name);
  return model;
}

bool is_number(std::string_view text) {
  return text.find_first_not_of("0123456789.") == std::string_view::npos;
}

[[noreturn]] void unknown(std::string_view text, const std::vector<CatalogueEntry>& known,
                          const std::string& asked) {
  constexpr std::size_t kMost = 8;
  const std::string found =
      fmt::format("no model is known as {}{}", in_quotes(text), asked.empty() ? "" : " (" + asked + ")");
  const std::string all = "\"zplan models list\" shows all";
  if (is_number(text))
    fail(found, fmt::format("a size needs its unit: {0}M or {0}B; {1}", text.substr(0, 20), all));
  const auto names = near_names(text, kMost, known);
  if (names.empty()) fail(found, fmt::format("accepted: {}; {}", kForms, all));
  const std::vector<std::string> others(names.begin() + 1, names.end());
  const std::string also = others.empty() ? "" : fmt::format(" Or {}?", fmt::join(others, ", "));
  fail(found, fmt::format("did you mean {}?{} {}", names.front(), also, all));
}

/// Returns the model that a cache has; nothing where it has none, or only a part of which a hub has the rest.
std::optional<Model> cached_model(std::string_view id, const ModelSearch& where, int depth) {
  const auto files = cached_files(id, where);
  if (!files) return std::nullopt;
  if (!files->adapters.empty()) return base_model(id, base_of_adapters(files->adapters), where, depth);
  if (!files->missing.empty() && where.hub) return std::nullopt;
  if (!files->missing.empty())
    fail(fmt::format("{} is in the Hugging Face cache without {}", in_quotes(id), files->missing),
         "accepted: a model whose config.json was downloaded");
  Model model = config_model(files->config, std::string(id));
  model.name = id;
  model.source = ModelSource::cache;
  model.origin = fmt::format("{} at revision {}", id, files->revision);
  return model;
}

/// Returns the model of a hub, nothing if it has none; `why` says why.
std::optional<Model> hub_model(std::string_view id, const ModelSearch& where, int depth, std::string& why) {
  why = where.why_no_hub;
  if (!where.hub || !is_hub_id(id) || id.find('/') == std::string_view::npos) return std::nullopt;
  const HubAnswer answer = where.hub(id);
  if (!answer.base.empty()) return base_model(id, answer.base, where, depth);
  why = answer.why_none;
  if (answer.config.empty()) return std::nullopt;
  Model model = model_of_text(answer.config, fmt::format("config.json of {}", id), std::string(id));
  model.name = id;
  model.source = ModelSource::hub;
  model.origin = answer.origin;
  return model;
}

Model resolved(std::string_view text, const ModelSearch& where, int depth) {
  if (text.empty()) fail("is empty", fmt::format("accepted: {}", kForms));
  if (const auto* entry = the_entry(text, NameMatch::exact, catalogue())) return catalogue_model(*entry);
  if (const auto size = parse_size(text)) return infer_model(*size);
  if (written_as_path(text))
    if (auto model = model_elsewhere(text)) return *std::move(model);
  if (is_path(text)) return model_at_path(text, where, depth);
  if (auto model = cached_model(text, where, depth)) return *std::move(model);
  const auto users = user_entries(where.user_models);
  if (const auto* entry = the_entry(text, NameMatch::exact, users)) return user_model(*entry);
  if (const auto meaning = meaning_of_name(text)) return meant_model(text, *meaning);
  if (const auto* entry = the_entry(text, NameMatch::loose, catalogue())) return catalogue_model(*entry);
  if (const auto* entry = the_entry(text, NameMatch::loose, users)) return user_model(*entry);
  std::string why;
  if (auto model = hub_model(text, where, depth, why)) return *std::move(model);
  if (const auto meaning = tuned_meaning(text)) return meant_model(text, *meaning);
  if (auto model = model_elsewhere(text)) return *std::move(model);
  auto known = users;
  known.insert(known.end(), catalogue().begin(), catalogue().end());
  unknown(text, known, why);
}

}  // namespace

Model resolve_model(std::string_view text, const ModelSearch& where) { return resolved(text, where, 0); }

}  // namespace zplan
