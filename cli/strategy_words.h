#pragma once

#include <string_view>

#include "planner/search/search.h"

namespace zplan {

/// A strategy as plan_id writes it: "zero3", "tp8+zero1", "zero2+offload-optimizer",
/// "zero3+checkpointing-none", "fsdp", "fsdp+no-reshard", "ddp".
struct PinnedStrategy {
  Framework framework{Framework::deepspeed};
  int zero_stage{};
  std::int64_t tensor_parallel{1};
  Offload offload;
  Checkpointing checkpointing{Checkpointing::full};
  bool operator==(const PinnedStrategy&) const = default;
};

/// Parts may come in any order. Throws InputError for an unknown part, one given twice, or where no part says
/// whose sharding it is. `checkpointing` is what holds where the text does not say.
[[nodiscard]] PinnedStrategy parse_strategy(std::string_view text, Checkpointing checkpointing);

/// The space that holds this one strategy only.
[[nodiscard]] SearchSpace pinned(SearchSpace space, const PinnedStrategy& strategy);

}  // namespace zplan
