#include "harness/nccl/shared_library.h"

#include <dlfcn.h>
#include <fmt/format.h>
#include <link.h>

#include <cstdlib>
#include <filesystem>
#include <optional>
#include <sstream>
#include <string_view>
#include <system_error>

namespace zplan::bench {

namespace {

namespace fs = std::filesystem;

std::vector<std::string> split_path(const char* text) {
  std::vector<std::string> folders;
  std::istringstream stream(text == nullptr ? "" : text);
  for (std::string folder; std::getline(stream, folder, ':');)
    if (!folder.empty()) folders.push_back(folder);
  return folders;
}

std::vector<fs::path> folders_in(const fs::path& folder) {
  std::vector<fs::path> found;
  std::error_code ignored;
  for (fs::directory_iterator entry(folder, ignored), end; !ignored && entry != end; entry.increment(ignored))
    if (entry->is_directory(ignored)) found.push_back(entry->path());
  return found;
}

/// Adds the folders of NVIDIA's wheels below a site-packages folder.
void add_wheels(std::vector<fs::path>& folders, const fs::path& packages) {
  for (const fs::path& wheel : folders_in(packages / "nvidia")) folders.push_back(wheel / "lib");
}

std::vector<fs::path> inside(const fs::path& root) {
  std::vector<fs::path> folders{root, root / "lib64", root / "lib"};
  add_wheels(folders, root);
  for (const fs::path& python : folders_in(root / "lib"))
    if (python.filename().string().starts_with("python")) add_wheels(folders, python / "site-packages");
  return folders;
}

std::string path_of(void* handle, const std::string& name) {
  link_map* map = nullptr;
  const bool known = dlinfo(handle, RTLD_DI_LINKMAP, static_cast<void*>(&map)) == 0 && map != nullptr;
  return known && map->l_name != nullptr && *map->l_name != '\0' ? map->l_name : name;
}

bool try_to_open(SharedLibrary& library, const std::string& name) {
  library.handle = dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library.handle != nullptr) library.path = path_of(library.handle, name);
  return library.handle != nullptr;
}

bool open_in(SharedLibrary& library, const std::vector<std::string>& roots, const std::string& name) {
  for (const std::string& root : roots)
    for (const fs::path& folder : inside(root)) {
      std::error_code ignored;
      const fs::path file = folder / name;
      if (!fs::exists(file, ignored)) continue;
      if (try_to_open(library, file.string())) return true;
      const char* error = dlerror();
      if (library.trouble.empty() && error != nullptr) library.trouble = error;
    }
  return false;
}

/// Opens a library by the dynamic loader. Keeps the reason why an existing library cannot be opened.
bool open_by_system(SharedLibrary& library, const std::string& name) {
  if (try_to_open(library, name)) return true;
  const char* error = dlerror();
  const std::string_view text = error == nullptr ? "" : error;
  if (library.trouble.empty() && !text.starts_with(name + ": cannot open shared object file"))
    library.trouble = text;
  return false;
}

bool open_one(SharedLibrary& library, const LibraryPlaces& places, const std::string& name) {
  return open_in(library, places.first, name) || (places.system && open_by_system(library, name)) ||
         open_in(library, places.then, name);
}

}  // namespace

LibraryPlaces library_places() {
  LibraryPlaces places{.first = split_path(std::getenv("ZPLAN_CUDA_PATH")), .system = true, .then = {}};
  for (const char* name : {"CUDA_HOME", "VIRTUAL_ENV", "CONDA_PREFIX"})
    if (const char* folder = std::getenv(name); folder != nullptr && *folder != '\0')
      places.then.emplace_back(folder);
  return places;
}

std::string to_text(const LibraryPlaces& places) {
  std::vector<std::string> names = places.first;
  if (places.system) names.emplace_back("the system's library path");
  names.insert(names.end(), places.then.begin(), places.then.end());
  return fmt::format("{}", fmt::join(names, ", "));
}

SharedLibrary open_library(const std::vector<std::string>& names, const LibraryPlaces& places) {
  SharedLibrary library;
  for (const std::string& name : names)
    if (open_one(library, places, name)) break;
  return library;
}

void* find_symbol(const SharedLibrary& library, const char* name) { return dlsym(library.handle, name); }

}  // namespace zplan::bench
