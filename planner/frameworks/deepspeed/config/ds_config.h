#pragma once

#include <string>
#include <vector>

#include "models/base/json_reader.h"
#include "planner/frameworks/launch/launch.h"

namespace zplan {

/// What a config depends on beside the plan.
struct DsConfigOptions {
  ConfigStyle style{ConfigStyle::plain};
  std::string nvme_path{"/local_nvme"};  ///< folder on a local disk, for offload to NVMe
};

/// The ds_config of a plan, for the training's release of DeepSpeed: complete, and no key that does nothing
/// at the plan's stage or only repeats DeepSpeed's default, but for what everyone looks for: stage, batch,
/// clipping. Under tensor parallelism train_batch_size is left out: DeepSpeed counts the tensor-parallel
/// ranks in it or not depending on who asks. Sources: docs/ds-config.md.
[[nodiscard]] Json ds_config(const Plan& plan, const Question& question, const DsConfigOptions& options);
[[nodiscard]] Json ds_config(const Plan& plan, const Question& question,
                             ConfigStyle style = ConfigStyle::plain);

/// What the config cannot say: what the training script has to do itself, and what DeepSpeed, or this release
/// of it, has no setting for. One sentence each.
[[nodiscard]] std::vector<std::string> ds_config_notes(const Plan& plan, const Question& question);

/// The steps over which the learning rate of a config rises. No figure depends on them.
inline constexpr std::int64_t kWarmupSteps = 100;

}  // namespace zplan
