#pragma once
// How long a sequence can be, one means on top of another: what each of them gains. docs/long-context.md

#include <optional>
#include <string>
#include <vector>

#include "planner/search/inverse.h"

namespace zplan {

/// One means, with all before it that were kept.
struct Rung {
  std::string step;                    ///< "sequence parallel 8"
  std::string options;                 ///< what asks for it: "--sp 8"
  std::optional<std::int64_t> tokens;  ///< longest sequence, a multiple of what divides it; absent: none fits
  std::int64_t gained{};               ///< tokens beyond the longest before
  Plan plan;                           ///< at that length; where there is none, at the shortest
  bool kept{};                         ///< what follows stands on it: it lost nothing
};

/// Tiles, ranks that divide a sample's tokens, checkpoints and states on the host, in the order in which ALST
/// adds them (FSDP2: a ring, and everything on the host). Means that are not legal for the model, and those
/// that the question pins otherwise, are left out; positions that the model was made for are no limit unless
/// it learned them. Empty where one GPU divides nothing.
[[nodiscard]] std::vector<Rung> sequence_ladder(const OpenQuestion& open);

}  // namespace zplan
