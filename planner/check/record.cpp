#include "planner/check/record.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

namespace zplan::check {

double relative_error(double predicted, const Range& measured) {
  const bool low = predicted < measured.low;
  const bool high = measured.high && predicted > *measured.high;
  if (!low && !high) return 0;
  const double end = low ? measured.low : *measured.high;
  if (end == 0) return predicted < 0 ? -1 : 1;
  return (predicted - end) / end;
}

void Skip::add(const std::string& feature, const std::string& said) {
  if (std::find(features.begin(), features.end(), feature) == features.end()) features.push_back(feature);
  if (!said.empty()) detail += (detail.empty() ? "" : ", ") + said;
}

std::string Skip::text() const {
  const std::string names = fmt::format("{}", fmt::join(features, "; "));
  return detail.empty() ? names : fmt::format("{}: {}", names, detail);
}

}  // namespace zplan::check
