#pragma once
// Sentences about a plan, made from figures that the search has found. Nothing is planned here.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "models/base/format.h"
#include "planner/moments/moments.h"
#include "planner/plan/plan_figures.h"

namespace zplan {

struct Plan;

/// Enough says on what a plan would fit that misses on the device.
struct Enough {
  Bytes gpu;                          ///< the smallest, in whole GiB, as nvidia-smi totals it
  std::optional<std::int64_t> gpus;   ///< like these; absent where the miss is too large for it to be near
  std::optional<std::int64_t> nodes;  ///< that those take, where they are more than one
};

/// Findings are what a plan means for its question, and what would suffice where it does not fit.
struct Findings : PlanFigures {
  std::optional<Enough> enough{};           ///< of a plan that misses on the device
  std::optional<std::string> replicated{};  ///< which replicated state is to blame
  std::int64_t gpus_per_node{1};
  bool fails_as_it_starts{};  ///< Flattening::failing
};

/// Returns sentences: why a plan fits or does not, what fills the GPU, and what would make it fit.
[[nodiscard]] std::vector<std::string> why(const Plan& plan, const Findings& findings, ByteUnit unit);

/// Returns the words for a moment of a run: "saving the model".
[[nodiscard]] std::string_view moment_words(RunMoment moment);
/// Returns a time as "42 min", "3.4 h", "2.1 days".
[[nodiscard]] std::string duration_text(Seconds time);
/// Returns money or GPU-hours as "0.52", "1840".
[[nodiscard]] std::string amount_text(double amount);

}  // namespace zplan
