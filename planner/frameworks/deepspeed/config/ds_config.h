#pragma once

#include <string>
#include <vector>

#include "models/base/json_reader.h"
#include "planner/frameworks/launch/launch.h"

namespace zplan {

/// Choices of a config that the plan does not make.
struct DsConfigOptions {
  ConfigStyle style{ConfigStyle::plain};
  std::string nvme_path{"/local_nvme"};  ///< folder on a local disk, for offload to NVMe
};

/// Returns the ds_config of a plan, for the training's release of DeepSpeed. It is complete, without keys
/// that do nothing at the plan's stage or repeat DeepSpeed's default, except those that everyone looks for:
/// stage, batch, clipping. Under tensor parallelism train_batch_size is left out, because parts of DeepSpeed
/// disagree on whether it counts tensor-parallel ranks. Sources: docs/ds-config.md.
[[nodiscard]] Json ds_config(const Plan& plan, const Question& question, const DsConfigOptions& options);
[[nodiscard]] Json ds_config(const Plan& plan, const Question& question,
                             ConfigStyle style = ConfigStyle::plain);

/// Returns a sentence for each thing that the config cannot set: the training script has to do it, or
/// DeepSpeed, or this release of it, has no setting for it.
[[nodiscard]] std::vector<std::string> ds_config_notes(const Plan& plan, const Question& question);

/// The steps over which the learning rate of a config rises. No figure depends on them.
inline constexpr std::int64_t kWarmupSteps = 100;

}  // namespace zplan
