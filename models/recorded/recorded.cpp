#include "models/recorded/recorded.h"

#include <algorithm>
#include <cmath>

namespace zplan {

Bytes RecordedSize::at(std::int64_t b, std::int64_t s, std::int64_t rank) const {
  const auto batch = static_cast<double>(b), sequence = static_cast<double>(s);
  const double monomials[] = {1,     sequence,         sequence * sequence,
                              batch, batch * sequence, batch * sequence * sequence};
  // Sizes stay far below 2^53 wherever they are exact.
  double sum = 0;
  for (std::size_t i = 0; i < coefficients.size(); ++i)
    sum +=
        static_cast<double>(coefficients[i]) * monomials[i % 6] * (i < 6 ? 1.0 : static_cast<double>(rank));
  constexpr double kMost = 0x1p60;
  return Bytes(static_cast<std::int64_t>(std::clamp(std::ceil(sum / static_cast<double>(over)), 0.0, kMost)));
}

}  // namespace zplan
