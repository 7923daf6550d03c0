#pragma once
// The search over layouts: of thousands of plans only those are simulated that their bounds leave open.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "planner/search/explore.h"
#include "planner/search/layout_bounds.h"

namespace zplan {

/// LayoutCandidate is a plan that is not simulated yet.
struct LayoutCandidate {
  std::size_t family{};  ///< its place among the families of the search
  std::int64_t micro_batch_size{1}, gradient_accumulation_steps{1};
  LayoutBound bound;
  double most_tokens_per_second{};  ///< at the bound's step
  std::size_t kind{};               ///< candidates of one kind miss their bounds by like shares
};

/// A candidate of `family` that was simulated.
struct SimulatedLayout {
  std::size_t family{};
  Estimate estimate;
};

struct ScreenedLayouts {
  std::vector<SimulatedLayout> simulated;  ///< those that fit, in the order in which they were simulated
  LayoutCounts counts;
  bool stopped{};
};

/// LayoutScreen simulates the most promising candidates first, and leaves out each that cannot fit, and each
/// that one simulated before is as fast as and needs as little memory as. A candidate promises the speed of
/// its bound, less what simulated ones of its kind, or of all kinds, miss theirs by. What it finds does not
/// depend on the number of threads.
struct LayoutScreen {
  /// Plans that save less than this share of the memory of a faster one, or train at less than this share of
  /// the fastest's speed, are not looked for.
  static constexpr double kLeastSaved = 0.1, kSlowest = 0.5;
  /// The most plans that are simulated; others that are open then are counted as not looked at.
  static constexpr std::size_t kMostSimulated = 640;

  /// Returns the estimate of a candidate; nothing where it needs more than `most` bytes of the device.
  std::function<std::optional<Estimate>(const LayoutCandidate&, Bytes most)> estimate;
  Bytes device, host;  ///< what there is
  /// Told of each round, with the fastest so far. Null: nobody is told.
  std::function<void(const LayoutCounts&, double tokens_per_second)> progress{};
  /// Returns true where nobody waits for more. Null: somebody does.
  std::function<bool()> stopped{};

  [[nodiscard]] ScreenedLayouts run(std::vector<LayoutCandidate> candidates) const;
};

}  // namespace zplan
