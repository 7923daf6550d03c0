#pragma once

#include <string_view>

#include "planner/question/terms.h"

namespace zplan {

/// One block that was asked for, and when.
struct BlockRequest {
  Term term{};
  Bytes size;  ///< as asked for
  Bytes held;  ///< in blocks at that moment, as handed out
  Phase phase{Phase::initialisation};
  std::string_view at;
  int layer{-1};
  bool operator==(const BlockRequest&) const = default;
};

}  // namespace zplan
