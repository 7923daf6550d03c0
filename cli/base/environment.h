#pragma once
// The program's surroundings: what it reads of them, and the exit statuses that it returns to them.

#include <string>

namespace zplan {

/// Exit statuses, as docs/command-line.md promises them.
inline constexpr int kFits = 0, kNothingFits = 1, kBadInput = 2;
/// Ctrl-C in a search that had found nothing yet; elsewhere it ends the process, which shells report alike.
inline constexpr int kInterrupted = 130;

/// Holds what the program reads of its surroundings. Read once in main, a plain value everywhere else.
struct Environment {
  std::string home;                ///< HOME
  std::string config_home;         ///< XDG_CONFIG_HOME
  std::string hugging_face_home;   ///< HF_HOME
  std::string hugging_face_cache;  ///< HF_HUB_CACHE, else HUGGINGFACE_HUB_CACHE
  std::string terminal;            ///< TERM
  bool no_color{};                 ///< NO_COLOR is set and not empty
  bool output_is_terminal{};       ///< stdout
  bool errors_are_terminal{};      ///< stderr
  int terminal_width{};            ///< columns of that terminal, or COLUMNS; 0: unknown
  bool owns_process{};             ///< signals are ours to catch; false in a library
};

[[nodiscard]] Environment read_environment();

/// Columns that a table may take: the terminal's, or 100 where there is none.
[[nodiscard]] int output_width(const Environment& environment);

/// The user's own models ("…/zplan/models") and hardware profiles; empty where there is no home.
[[nodiscard]] std::string user_models_folder(const Environment& environment);
[[nodiscard]] std::string user_hardware_folder(const Environment& environment);

/// Returns the cache folder of the Hugging Face libraries. Source: huggingface_hub constants.py:
/// HF_HUB_CACHE, HUGGINGFACE_HUB_CACHE, HF_HOME/hub, ~/.cache/huggingface/hub.
[[nodiscard]] std::string hub_cache_folder(const Environment& environment);

}  // namespace zplan
