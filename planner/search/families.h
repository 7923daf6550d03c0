#pragma once
// Families of plans that a search screens, and the batches of each.

#include <vector>

#include "planner/search/explore.h"

namespace zplan {

/// Returns micro-batch `index` of those to try in order: every size up to 16, then eight to each doubling.
[[nodiscard]] std::int64_t micro_batch_step(std::size_t index);

/// Batches of one accumulation, micro-batches ascending.
struct Batches {
  std::int64_t accumulation{1};
  std::vector<std::int64_t> micro_batch_sizes;  ///< empty: from 1 to the largest that fits
  bool operator==(const Batches&) const = default;
};
/// Returns the batches of a family of this layout, of whole micro-steps in each of `mini_batches`; none where
/// they cannot make the global batch.
[[nodiscard]] std::vector<Batches> batches(const Scope& scope, const ParallelLayout& layout,
                                           std::int64_t mini_batches = 1);
/// Returns those of a strategy that its stages can run: chunks of layers (virtual stages) do not take every
/// number of micro-batches.
[[nodiscard]] std::vector<Batches> batches(const Question& question, const Scope& scope,
                                           const Strategy& strategy);

/// Returns the families of a question in the order in which they are tried; those that cannot be trained have
/// the outcome `illegal`.
[[nodiscard]] std::vector<FamilyReport> families(const Question& question, const Scope& scope);

}  // namespace zplan
