#include "cli/base/environment.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cstdlib>

namespace zplan {

namespace {

std::string variable(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? std::string() : std::string(value);
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

Environment read_environment() {
  const std::string cache = variable("HF_HUB_CACHE");
  return {.home = variable("HOME"),
          .config_home = variable("XDG_CONFIG_HOME"),
          .hugging_face_home = variable("HF_HOME"),
          .hugging_face_cache = cache.empty() ? variable("HUGGINGFACE_HUB_CACHE") : cache,
          .terminal = variable("TERM"),
          .no_color = !variable("NO_COLOR").empty(),
          .output_is_terminal = isatty(STDOUT_FILENO) == 1,
          .errors_are_terminal = isatty(STDERR_FILENO) == 1,
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
  if (!environment.hugging_face_home.empty()) return environment.hugging_face_home + "/hub";
  return environment.home.empty() ? std::string() : environment.home + "/.cache/huggingface/hub";
}

}  // namespace zplan
