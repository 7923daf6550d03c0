#pragma once
// Opens libraries at run time, so that one build serves machines with and without a GPU.

#include <string>
#include <vector>

namespace zplan::bench {

/// Places in which a library is looked for, in order. A folder may be the library's own, the root of a CUDA
/// toolkit (lib64, lib), a virtual environment, or its site-packages (nvidia/*/lib of NVIDIA's wheels).
struct LibraryPlaces {
  std::vector<std::string> first;
  bool system{true};  ///< as the dynamic loader would: LD_LIBRARY_PATH, its cache, its default folders
  std::vector<std::string> then;
};

/// ZPLAN_CUDA_PATH (folders with ':' between), the system, then CUDA_HOME, VIRTUAL_ENV and CONDA_PREFIX.
[[nodiscard]] LibraryPlaces library_places();

/// For a message: "/opt/a, the system's library path, /opt/b".
[[nodiscard]] std::string to_text(const LibraryPlaces& places);

struct SharedLibrary {
  void* handle{};       ///< null: not found
  std::string path;     ///< of the file
  std::string trouble;  ///< why a file that is there could not be opened; empty: there was none
};

/// The first of `names` that opens, each looked for in all places before the next one. It stays open: what
/// CUDA starts in a process cannot be unloaded.
[[nodiscard]] SharedLibrary open_library(const std::vector<std::string>& names, const LibraryPlaces& places);

/// Address of `name`, or null.
[[nodiscard]] void* find_symbol(const SharedLibrary& library, const char* name);

}  // namespace zplan::bench
