#pragma once
// The values that an inverse question tries, from the one that fits most easily to the hardest.

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "models/base/format.h"
#include "planner/search/inverse.h"

namespace zplan {

/// Family is the part of a strategy that no inverse question changes.
struct Family {
  int zero_stage{};
  ParallelLayout of_model{};
  OffloadDevice offload_optimizer{}, offload_parameters{};
  auto operator<=>(const Family&) const = default;
};
[[nodiscard]] Family family_of(const Strategy& strategy);

/// Returns the question pinned to this family.
[[nodiscard]] Question pinned_to(Question question, const Family& family);

struct Scale {
  std::int64_t count{};
  std::function<std::int64_t(std::int64_t index)> value;
  std::int64_t walked{};  ///< of the hardest: need does not shrink steadily there, so each is tried
};

/// Scales holds a scale for every legal strategy, and the strategies that are legal at no value.
struct Scales {
  std::map<Family, Scale> of_family;
  std::vector<Rejection> rejected;
};
[[nodiscard]] Scales scales_of(const OpenQuestion& open, Solve solve);

/// Returns the GPUs in a node: the cluster's where it has several nodes, else at least the usual number.
[[nodiscard]] std::int64_t node_of_open(const OpenQuestion& open);

/// Returns a value as text: "micro-batch 12", "4096 tokens", "16 GPUs", "8.10 B parameters", "cards of 24
/// GiB", "64 GiB of host memory".
[[nodiscard]] std::string value_text(Solve solve, std::int64_t value, ByteUnit unit);

}  // namespace zplan
