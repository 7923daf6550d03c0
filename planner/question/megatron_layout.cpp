// Layouts of layers on a pipeline, as Megatron's --pipeline-model-parallel-layout spells them.

#include <algorithm>
#include <array>
#include <cstddef>
#include <string>
#include <utility>

#include "models/base/pattern.h"
#include "planner/question/megatron.h"

namespace zplan {

namespace {

/// Layers of a layout, at most; longer ones are not read.
constexpr std::size_t kMostLayers = 10'000;

/// Writes out multiplications of a group in parentheses, and then of one character.
std::string without_multiples(std::string text) {
  static const std::array kPatterns{Pattern(R"(\(([^)]+)\)\*(\d{1,4}))"), Pattern(R"((.)\*(\d{1,4}))")};
  for (const Pattern& each : kPatterns) {
    std::string written;
    const char* rest = text.data();
    for (const Pattern::Match& found : each.find_all(text)) {
      written.append(rest, found[0].data());
      for (int i = std::stoi(std::string(found[2])); i > 0 && written.size() <= kMostLayers; --i)
        written += found[1];
      rest = found[0].data() + found[0].size();
    }
    text = written.append(rest, static_cast<const char*>(text.data() + text.size()));
  }
  return text;
}

}  // namespace

std::optional<std::vector<std::int64_t>> chunk_layers_of(std::string_view layout) {
  if (layout.size() > kMostLayers) return std::nullopt;
  std::string text(layout);
  std::erase(text, ',');
  text = without_multiples(std::move(text));
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
