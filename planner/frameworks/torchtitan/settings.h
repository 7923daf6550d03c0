#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace zplan {

struct Plan;
struct Question;
struct Strategy;

}  // namespace zplan

namespace zplan::titan {

/// Returns the samples of each data-parallel rank in one pass through a pipeline: the local batch.
[[nodiscard]] std::int64_t local_batch(const Strategy& strategy);
/// Returns the micro-batches of one pass, and how many passes an optimizer step has.
[[nodiscard]] std::int64_t micro_batches_of_pass(const Strategy& strategy);
[[nodiscard]] std::int64_t passes_of_step(const Strategy& strategy);

/// Parts of the model that torchtitan makes on each rank by itself, under a schedule of several. For more a
/// job says how many layers a part has. Source: torchtitan 0.3.0 distributed/pipeline_parallel.py
/// _get_pipeline_metadata.
inline constexpr std::int64_t kOwnParts = 2;

/// A setting of torchtitan's command line, and its value; empty for a switch.
using Setting = std::pair<std::string, std::string>;

/// Returns the settings that run a plan: all that the plan assumes. Activation checkpointing is the last
/// one, a subcommand that ends the options. Source: torchtitan 0.3.0 config/configs.py.
[[nodiscard]] std::vector<Setting> settings_of(const Plan& plan, const Question& question);

}  // namespace zplan::titan
