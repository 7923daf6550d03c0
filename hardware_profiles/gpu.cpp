#include "hardware_profiles/gpu.h"

#include <charconv>

namespace zplan {

bool is_assumed(std::string_view source) { return source.starts_with("assumed:"); }

std::vector<std::string> assumed_figures(const Gpu& gpu) {
  std::vector<std::string> figures;
  for (const auto& [figure, source] : gpu.sources)
    if (is_assumed(source)) figures.push_back(figure);
  return figures;
}

int capability_major(std::string_view compute_capability) {
  int major = 0;
  std::from_chars(compute_capability.data(), compute_capability.data() + compute_capability.size(), major);
  return major;
}

}  // namespace zplan
