#include "cli/hub/hub_cache.h"

#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <system_error>

#include "models/base/error.h"
#include "models/base/files.h"
#include "models/catalogue/lookup.h"

namespace zplan {

namespace {

namespace fs = std::filesystem;

bool is_plain(const std::string& word) {
  constexpr std::size_t kLongest = 128;
  return !word.empty() && word.size() <= kLongest &&
         std::all_of(word.begin(), word.end(), [](unsigned char c) { return std::isalnum(c) != 0; });
}

fs::path beside(const fs::path& path) {
  return path.string() + "." + std::to_string(getpid()) + ".incomplete";
}

/// Moves `made` to `path`; removes it where that fails.
void put(const fs::path& made, const fs::path& path) {
  std::error_code failed;
  fs::rename(made, path, failed);
  if (failed) fs::remove(made, failed);
}

/// Writes a file whole or not at all. A cache that cannot be written costs the next question, not this one.
void write_whole(const fs::path& path, const std::string& text) {
  try {
    write_file(path.string(), text, "cache");
  } catch (const InputError&) {
    return;
  }
}

bool is_there(const fs::path& path) {
  std::error_code ignored;
  return fs::exists(path, ignored);
}

bool make_folder(const fs::path& folder) {
  std::error_code failed;
  fs::create_directories(folder, failed);
  return !failed;
}

/// Links the snapshot's config.json to the blob, as huggingface_hub does; copies where links are not
/// possible.
void link_to_blob(const fs::path& config, const std::string& tag, const std::string& text) {
  const fs::path made = beside(config);
  std::error_code failed;
  fs::create_symlink(fs::path("../../blobs") / tag, made, failed);
  if (failed)
    write_whole(config, text);
  else
    put(made, config);
}

}  // namespace

void keep_config(const std::string& cache, std::string_view id, const std::string& revision,
                 const std::string& tag, const std::string& config) {
  if (cache.empty() || !is_hub_id(id) || !is_plain(revision) || !is_plain(tag)) return;
  const fs::path folder = fs::path(cache) / cache_folder(id);
  const fs::path snapshot = folder / "snapshots" / revision;
  if (!make_folder(folder / "blobs") || !make_folder(folder / "refs") || !make_folder(snapshot)) return;
  const fs::path blob = folder / "blobs" / tag;
  if (!is_there(blob)) write_whole(blob, config);
  if (!is_there(blob)) return;
  if (!is_there(snapshot / "config.json")) link_to_blob(snapshot / "config.json", tag, config);
  if (is_there(snapshot / "config.json")) write_whole(folder / "refs" / "main", revision);
}

void keep_modelscope_config(const std::string& cache, std::string_view id, const std::string& config) {
  if (cache.empty() || !is_hub_id(id)) return;
  const fs::path folder = fs::path(cache) / modelscope_folder(id);
  if (make_folder(folder) && !is_there(folder / "config.json")) write_whole(folder / "config.json", config);
}

}  // namespace zplan
