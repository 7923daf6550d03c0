#include "models/catalogue/cache.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "models/base/json_reader.h"
#include "models/config.h"
#include "models/recorded/read.h"

namespace zplan {

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
