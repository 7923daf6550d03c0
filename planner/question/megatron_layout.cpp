// Layouts of layers on a pipeline, as Megatron's --pipeline-model-parallel-layout spells them.

#include <cstddef>
#include <string>
#include <string_view>

#include "planner/question/megatron.h"

namespace zplan {

namespace {

/// Layers of a layout, at most; longer ones are not read.
constexpr std::size_t kMostLayers = 10'000;

/// "*N" of a layout, with up to four digits.
struct Multiple {
  std::size_t length{};  ///< of its text; 0: there is none
  int times{};
};

Multiple multiple_at(std::string_view text, std::size_t at) {
  constexpr std::size_t kDigits = 4;
  if (at >= text.size() || text[at] != '*') return {};
  int times = 0;
  std::size_t end = at + 1;
  for (; end < text.size() && end - at <= kDigits && text[end] >= '0' && text[end] <= '9'; ++end)
    times = times * 10 + (text[end] - '0');
  return end == at + 1 ? Multiple{} : Multiple{end - at, times};
}

void add_times(std::string& written, std::string_view part, int times) {
  for (; times > 0 && written.size() <= kMostLayers; --times) written += part;
}

/// Writes out multiples of groups in parentheses.
std::string without_groups(std::string_view text) {
  std::string written;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t close = text[at] == '(' ? text.find(')', at) : at;
    if (close == std::string_view::npos) return written.append(text.substr(at));
    const Multiple multiple = close > at + 1 ? multiple_at(text, close + 1) : Multiple{};
    if (multiple.length == 0)
      written += text.substr(at, close + 1 - at);
    else
      add_times(written, text.substr(at + 1, close - at - 1), multiple.times);
    at = close + 1 + multiple.length;
  }
  return written;
}

/// Writes out multiples of one character.
std::string without_multiples(std::string_view text) {
  std::string written;
  for (std::size_t at = 0; at < text.size();) {
    const Multiple multiple = multiple_at(text, at + 1);
    add_times(written, text.substr(at, 1), multiple.length == 0 ? 1 : multiple.times);
    at += 1 + multiple.length;
  }
  return written;
}

}  // namespace

std::optional<std::vector<std::int64_t>> chunk_layers_of(std::string_view layout) {
  if (layout.size() > kMostLayers) return std::nullopt;
  std::string text(layout);
  std::erase(text, ',');
  text = without_multiples(without_groups(text));
  if (text.size() < 2 || text.size() > kMostLayers || text.front() != 'E' || text.back() != 'L')
    return std::nullopt;
  std::vector<std::int64_t> layers{0};
  for (const char each : text.substr(1, text.size() - 2)) {
    if (each == '|')
      layers.push_back(0);
    else if (each == 't')
      ++layers.back();
    else
      return std::nullopt;
  }
  return layers;
}

std::string chunk_layout_of(const std::vector<std::int64_t>& layers) {
  std::string text = "E";
  for (std::size_t i = 0; i < layers.size(); ++i) {
    if (i > 0) text += '|';
    text.append(static_cast<std::size_t>(layers[i]), 't');
  }
  return text + 'L';
}

}  // namespace zplan
