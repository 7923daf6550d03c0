#pragma once
// Memory over a step: its moments, the worst of them, and each block that was requested.

#include <cstdint>
#include <string_view>

#include "planner/question/terms.h"

namespace zplan {

/// A stretch of the timeline, and the most that was live in it.
struct Moment {
  Phase phase{Phase::forward};
  std::string_view at;  ///< what happens: "layer forward", "optimizer step", …
  int layer{-1};
  Bytes live;
  bool operator==(const Moment&) const = default;
};

struct Peak {
  Phase phase{Phase::forward};
  std::string_view at;
  int layer{-1};
  Composition holds;  ///< what was live: adds up to the peak
  [[nodiscard]] Bytes bytes() const { return holds.total(); }
  bool operator==(const Peak&) const = default;
};

/// A module of the tape, by its number in the list of the part it belongs to.
struct ModulePlace {
  int layer{-1};            ///< −1: around the layers
  std::int32_t number{-1};  ///< −1: none
  bool operator==(const ModulePlace&) const = default;
};

/// One requested block, and when.
struct BlockRequest {
  Term term{};
  Bytes size;  ///< as requested
  Bytes held;  ///< in blocks at that moment, as handed out
  Phase phase{Phase::initialisation};
  std::string_view at;
  int layer{-1};
  ModulePlace module{};  ///< the innermost that runs, where the tape names modules
  bool operator==(const BlockRequest&) const = default;
};

/// Figures of one phase: the highest since it began.
struct PhasePeak {
  Bytes requested;  ///< as asked for
  Bytes allocated;  ///< as handed out by the allocator; as requested where none runs
  bool operator==(const PhasePeak&) const = default;
};

}  // namespace zplan
