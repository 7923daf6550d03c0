#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "cli/options/command_line.h"
#include "cli/options/options.h"
#include "planner/question/question.h"

namespace zplan {

/// A strategy as plan_id writes it: "zero3", "tp8+zero1", "zero2+offload-optimizer",
/// "zero3+checkpointing-none", "fsdp", "fsdp+no-reshard", "ddp", "tp4+pp2+distopt" (Megatron-Core),
/// "sp8+zero3+tiled-loss", "cp4+fsdp"; and what else is pinned with it: "zero3+b4" (micro-batch), "zero3+a8"
/// (micro-batches per step), "lora+zero2" (method).
inline constexpr std::string_view kDistributedOptimizer = "distopt";
struct PinnedStrategy {
  Framework framework{Framework::deepspeed};
  int zero_stage{};
  std::int64_t tensor_parallel{1};
  Offload offload;
  Checkpointing checkpointing{Checkpointing::full};
  std::optional<std::int64_t> micro_batch_size{}, gradient_accumulation_steps{};
  std::optional<Method> method{};
  std::int64_t sequence_parallel{1}, context_parallel{1}, expert_parallel{1}, replicas{1};
  LongContext long_context{};
  std::int64_t pipeline_parallel{1}, virtual_stages{1}, expert_tensor_parallel{1};
  bool operator==(const PinnedStrategy&) const = default;
};

/// Parts may come in any order. Throws InputError for an unknown part, one given twice, or where no part says
/// whose sharding it is. `checkpointing` is what holds where the text does not say.
[[nodiscard]] PinnedStrategy parse_strategy(std::string_view text, Checkpointing checkpointing);

/// Returns --zero, --tp and --offload as a strategy sets them.
[[nodiscard]] OptionChanges sharding_options(const Strategy& strategy);

/// Returns the options that fix a strategy, but for the size of the micro-batch.
[[nodiscard]] OptionChanges strategy_options(const Strategy& strategy);

/// Options beside --zero, --tp and --offload that say what of a strategy divides or tiles a sample's tokens,
/// and its replicas; none of those that are as they are left.
[[nodiscard]] OptionChanges token_options(const Strategy& strategy);

/// True if a word of the command line names a file and not a strategy: it ends in ".json" or holds a "/".
[[nodiscard]] bool names_file(std::string_view word);

/// The ending of scenario files.
inline constexpr std::string_view kScenarioEnding = ".zplan";

/// Methods that the words of `compare` name beside --method.
[[nodiscard]] std::vector<Method> methods_named(const Options& options);

/// The space that holds this one strategy only.
[[nodiscard]] SearchSpace pinned(SearchSpace space, const PinnedStrategy& strategy);

/// Returns the plan's id with the other pinned values, such that parse_strategy reads it back with
/// `checkpointing` as its default: "lora+zero2+b4+a8".
[[nodiscard]] std::string full_name(const PinnedStrategy& strategy, std::string_view plan_id,
                                    Checkpointing checkpointing);

}  // namespace zplan
