#pragma once
// Which ranks of a run differ in what they hold and do.

#include <compare>
#include <cstdint>
#include <vector>

#include "planner/layout/parallel_layout.h"

namespace zplan {

/// The place of a rank whose program differs from others'. Ranks of one class need the same memory and run
/// the same program.
struct RankClass {
  std::int64_t stage{};    ///< of the pipeline
  std::int64_t tensor{};   ///< in the tensor-parallel group
  std::int64_t context{};  ///< in the ring of context parallelism
  std::int64_t expert{};   ///< in the expert-parallel group
  std::int64_t
      slice{};  ///< which slice of a flat buffer of optimizer states: place in the data-parallel group
  auto operator<=>(const RankClass&) const = default;

  /// Returns the class without its slice: what decides the rank's part of the model and its tape.
  [[nodiscard]] RankClass part() const {
    RankClass same = *this;
    same.slice = 0;
    return same;
  }
};

/// Returns the classes, slices aside, that a plan is made of: of each stage the rank that needs most memory
/// and time. That is rank 0 of a tensor-parallel group, to which DeepSpeed gives the remainder; the last of a
/// ring, whose attention takes most; and the first of an expert-parallel group, which gets most rows.
[[nodiscard]] std::vector<RankClass> rank_classes(const ParallelLayout& layout);

/// Returns the class of rank `rank` of the world.
[[nodiscard]] RankClass class_of(const ParallelLayout& layout, std::int64_t rank);

}  // namespace zplan
