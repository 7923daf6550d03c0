#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "models/base/json_reader.h"

namespace zplan {

struct Plan;
struct Question;
struct Training;

/// Returns accelerate's config of a plan under FSDP2: what `accelerate launch --config_file` reads, for
/// accelerate 1.15. machine_rank is the first node's; launch lines override it. Sources: docs/fsdp.md.
[[nodiscard]] Json accelerate_config(const Plan& plan, const Question& question);

/// Returns a config as YAML, the format of accelerate's files.
[[nodiscard]] std::string yaml_text(const Json& config);

/// Returns what the training script has to do itself under FSDP2, one sentence each: no config says it.
[[nodiscard]] std::vector<std::string> fsdp_notes(const Plan& plan, const Question& question);
/// Returns what the training script has to do itself under DDP, which has no config.
[[nodiscard]] std::vector<std::string> ddp_notes(const Plan& plan, const Question& question);

/// Returns accelerate's `mixed_precision`: "no" where weights are of the type that computes, without fp32
/// copies. Under LoRA it makes fp32 of the adapters alone.
[[nodiscard]] std::string_view mixed_precision(const Plan& plan, const Training& training);

}  // namespace zplan
