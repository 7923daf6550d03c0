#pragma once

#include <string>
#include <vector>

#include "models/base/json_reader.h"
#include "models/base/names.h"

namespace zplan {

struct Plan;
struct Question;
struct Training;

/// Who runs the config: `plain` has every value in it; `hf_auto` leaves to the HF Trainer, as "auto", what it
/// takes from its own arguments; `ms_swift` is that without an AdamW section, since ms-swift makes the
/// optimizer itself.
enum class ConfigStyle { plain, hf_auto, ms_swift };
template <>
struct EnumNames<ConfigStyle> {
  static constexpr std::array<std::pair<ConfigStyle, std::string_view>, 3> table{{
      {ConfigStyle::plain, "plain"},
      {ConfigStyle::hf_auto, "hf-auto"},
      {ConfigStyle::ms_swift, "ms-swift"},
  }};
};

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

/// The learning rate that a config starts with: 1e-5, or 1e-4 for adapters. A placeholder: no figure depends
/// on it.
[[nodiscard]] double starting_learning_rate(const Training& training);
/// Steps over which the learning rate rises, a placeholder too.
inline constexpr std::int64_t kWarmupSteps = 100;
/// As torch's AdamW has it; DeepSpeed's own default is 0.
inline constexpr double kWeightDecay = 0.01;

}  // namespace zplan
