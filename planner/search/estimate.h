#pragma once
// A plan as a search first sees it.

#include <cstdint>

#include "models/base/quantity.h"

namespace zplan {

/// By live memory, without the allocator's gaps.
struct Estimate {
  std::int64_t micro_batch_size{1};
  std::int64_t gradient_accumulation_steps{1};
  Bytes required_low;  ///< device bytes, were memory packed without a gap: no less will do
  Bytes host;          ///< per node
  Seconds step;
  double tokens_per_second{};
  Bytes sent;  ///< over links, per GPU and optimizer step
  bool operator==(const Estimate&) const = default;
};

}  // namespace zplan
