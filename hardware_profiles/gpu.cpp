#include "hardware_profiles/gpu.h"

namespace zplan {

bool is_assumed(std::string_view source) { return source.starts_with("assumed:"); }

std::vector<std::string> assumed_figures(const Gpu& gpu) {
  std::vector<std::string> figures;
  for (const auto& [figure, source] : gpu.sources)
    if (is_assumed(source)) figures.push_back(figure);
  return figures;
}

}  // namespace zplan
