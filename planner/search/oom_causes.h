#pragma once
// Why a run ended out of memory though its plan fits: each way in which it can differ from the plan is
// simulated, and compared with the figures of the message. docs/fit.md

#include <optional>
#include <string>
#include <vector>

#include "planner/search/oom.h"

namespace zplan {

/// OomExplanation is one cause, with what speaks for it.
struct OomExplanation {
  OomCause cause{OomCause::full};
  std::string what;   ///< "samples are 8192 tokens long, not 2048"
  std::string check;  ///< what to look at, or to write, in the training script
  std::vector<std::string> evidence;
  std::string options;  ///< of zplan, for what ran; empty where none says it
  /// Distance of the simulated run from the message, as a share of the allocator's memory; absent where the
  /// message alone speaks for it.
  std::optional<double> distance;
  std::optional<Bytes> gains;  ///< what the change frees on each GPU
};

/// Returns the causes of a message of PyTorch's, the likeliest first: those that the message alone leaves
/// possible, and the differences from the plan of `strategy` that make a run ask for a block as large where
/// it holds as much.
[[nodiscard]] std::vector<OomExplanation> explain_oom(const OpenQuestion& open, const Strategy& strategy,
                                                      const OomReading& reading);

}  // namespace zplan
