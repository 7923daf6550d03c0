#include "cli/base/environment.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cstdlib>
#include <filesystem>
#include <sstream>
#include <system_error>

#include "models/base/json_reader.h"

namespace zplan {

namespace {

std::string variable(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? std::string() : std::string(value);
}

/// True if the variable is on as huggingface_hub reads its switches (constants.py _is_true).
bool is_on(const char* name) {
  std::string value = variable(name);
  std::transform(value.begin(), value.end(), value.begin(),
                 [](unsigned char c) { return static_cast<char>(std::toupper(c)); });
  return value == "1" || value == "ON" || value == "YES" || value == "TRUE";
}

std::string modelscope_endpoint() {
  const std::string domain = variable("MODELSCOPE_DOMAIN");
  if (domain.empty()) return "https://www.modelscope.cn";
  return domain.find("://") == std::string::npos ? "https://" + domain : domain;
}

/// The folder of the Hugging Face libraries: HF_HOME, else in XDG_CACHE_HOME, else ~/.cache.
std::string hugging_face_home(const Environment& environment) {
  if (!environment.hugging_face_home.empty()) return environment.hugging_face_home;
  if (!environment.cache_home.empty()) return environment.cache_home + "/huggingface";
  return environment.home.empty() ? std::string() : environment.home + "/.cache/huggingface";
}

int width_of(const std::string& text) {
  int width = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), width);
  return error == std::errc() && end == text.data() + text.size() ? width : 0;
}

int terminal_width() {
  if (const int given = width_of(variable("COLUMNS")); given > 0) return given;
  winsize size{};
  return ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 ? size.ws_col : 0;
}

std::string config_folder(const Environment& environment) {
  if (!environment.config_home.empty()) return environment.config_home + "/zplan";
  return environment.home.empty() ? std::string() : environment.home + "/.config/zplan";
}

}  // namespace

namespace {

bool speaks_utf8() {
  for (const char* name : {"LC_ALL", "LC_CTYPE", "LANG"}) {
    std::string locale = variable(name);
    if (locale.empty()) continue;
    std::ranges::transform(locale, locale.begin(), [](unsigned char c) { return std::tolower(c); });
    return locale.find("utf-8") != std::string::npos || locale.find("utf8") != std::string::npos;
  }
  return false;
}

}  // namespace

Environment read_environment() {
  const std::string cache = variable("HF_HUB_CACHE"), endpoint = variable("HF_ENDPOINT"),
                    token = variable("HF_TOKEN");
  return {.home = variable("HOME"),
          .config_home = variable("XDG_CONFIG_HOME"),
          .hugging_face_home = variable("HF_HOME"),
          .hugging_face_cache = cache.empty() ? variable("HUGGINGFACE_HUB_CACHE") : cache,
          .cache_home = variable("XDG_CACHE_HOME"),
          .network = true,
          .hub_offline = is_on("HF_HUB_OFFLINE") || is_on("TRANSFORMERS_OFFLINE"),
          .no_hub_token = is_on("HF_HUB_DISABLE_IMPLICIT_TOKEN"),
          .hub_endpoint = endpoint.empty() ? "https://huggingface.co" : endpoint,
          .hub_token = token.empty() ? variable("HUGGING_FACE_HUB_TOKEN") : token,
          .hub_token_path = variable("HF_TOKEN_PATH"),
          .modelscope_endpoint = modelscope_endpoint(),
          .modelscope_token = variable("MODELSCOPE_API_TOKEN"),
          .modelscope_cache = variable("MODELSCOPE_CACHE"),
          .terminal = variable("TERM"),
          .no_color = !variable("NO_COLOR").empty(),
          .output_is_terminal = isatty(STDOUT_FILENO) == 1,
          .errors_are_terminal = isatty(STDERR_FILENO) == 1,
          .unicode = speaks_utf8(),
          .terminal_width = terminal_width(),
          .owns_process = true};
}

int output_width(const Environment& environment) {
  constexpr int kUsual = 100, kLeast = 40, kMost = 400;
  return environment.terminal_width > 0 ? std::clamp(environment.terminal_width, kLeast, kMost) : kUsual;
}

std::string user_models_folder(const Environment& environment) {
  const std::string folder = config_folder(environment);
  return folder.empty() ? folder : folder + "/models";
}

std::string user_hardware_folder(const Environment& environment) {
  const std::string folder = config_folder(environment);
  return folder.empty() ? folder : folder + "/hardware";
}

std::string hub_cache_folder(const Environment& environment) {
  if (!environment.hugging_face_cache.empty()) return environment.hugging_face_cache;
  const std::string home = hugging_face_home(environment);
  return home.empty() ? home : home + "/hub";
}

std::string modelscope_cache_folder(const Environment& environment) {
  if (!environment.modelscope_cache.empty()) return environment.modelscope_cache;
  return environment.home.empty() ? std::string() : environment.home + "/.cache/modelscope/hub";
}

std::string hub_token(const Environment& environment) {
  if (!environment.hub_token.empty()) return environment.hub_token;
  if (environment.no_hub_token) return {};
  const std::string home = hugging_face_home(environment);
  std::string path = environment.hub_token_path;
  if (path.empty() && !home.empty()) path = home + "/token";
  constexpr std::size_t kLongest = 65536;
  std::error_code ignored;
  if (path.empty() || !std::filesystem::exists(path, ignored)) return {};
  std::istringstream words(read_file(path, kLongest));
  std::string token;
  words >> token;
  return token;
}

}  // namespace zplan
