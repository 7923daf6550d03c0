#pragma once
// How long an engine generates, from what it has to read and compute. Arithmetic: no engine was measured, and
// what its scheduler adds is left out.

#include "models/base/quantity.h"

namespace zplan {

struct Cluster;
struct Model;
struct Strategy;
struct Training;

/// What one optimizer step has to wait for generation on the average.
struct RolloutTime {
  Seconds prompts;      ///< computed once for each group of completions
  Seconds completions;  ///< token by token: weights, keys and values are read
  [[nodiscard]] Seconds total() const { return prompts + completions; }
};
/// Nothing where nothing is generated. Of an engine in the trainer's processes, or the trainer's own
/// generation, which takes no less; a server is taken to have as many GPUs.
[[nodiscard]] RolloutTime rollout_time(const Model& model, const Training& training, const Strategy& strategy,
                                       const Cluster& cluster);

}  // namespace zplan
