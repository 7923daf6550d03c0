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
  std::string cache_home{};        ///< XDG_CACHE_HOME
  bool network{};       ///< hubs may be asked; false in tests, and where models are looked up while typed
  bool hub_offline{};   ///< HF_HUB_OFFLINE or TRANSFORMERS_OFFLINE is set
  bool no_hub_token{};  ///< HF_HUB_DISABLE_IMPLICIT_TOKEN is set
  std::string hub_endpoint{};         ///< HF_ENDPOINT, or https://huggingface.co
  std::string hub_token{};            ///< HF_TOKEN, else HUGGING_FACE_HUB_TOKEN
  std::string hub_token_path{};       ///< HF_TOKEN_PATH
  std::string modelscope_endpoint{};  ///< of MODELSCOPE_DOMAIN, or https://www.modelscope.cn
  std::string modelscope_token{};     ///< MODELSCOPE_API_TOKEN
  std::string modelscope_cache{};     ///< MODELSCOPE_CACHE
  std::string terminal;               ///< TERM
  bool no_color{};                    ///< NO_COLOR is set and not empty
  bool output_is_terminal{};          ///< stdout
  bool errors_are_terminal{};         ///< stderr
  bool unicode{};                     ///< LC_ALL, LC_CTYPE or LANG, the first that is set, names UTF-8
  int terminal_width{};               ///< columns of that terminal, or COLUMNS; 0: unknown
  bool owns_process{};                ///< signals are ours to catch; false in a library
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

/// Returns the folder of models that ModelScope's library downloaded. Source: modelscope utils/file_utils.py:
/// MODELSCOPE_CACHE, ~/.cache/modelscope/hub.
[[nodiscard]] std::string modelscope_cache_folder(const Environment& environment);

/// Returns the token for the Hugging Face Hub: the variable's, else the file's that "hf auth login" writes;
/// empty if there is none. Source: huggingface_hub constants.py, utils/_auth.py.
[[nodiscard]] std::string hub_token(const Environment& environment);

}  // namespace zplan
