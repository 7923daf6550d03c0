#pragma once

#include <string>
#include <string_view>

#include "planner/frameworks/deepspeed/config/ds_config.h"
#include "planner/question/strategy.h"

namespace zplan {

struct Plan;
struct Question;

/// Command lines that start the training of a plan; empty where a launcher has none for its framework.
/// `train.py` and `train.jsonl` stand for the reader's own; with several nodes every line but `deepspeed`
/// runs on each node, with NODE_RANK and MASTER_ADDR set.
struct Launch {
  std::string deepspeed{};  ///< DeepSpeed 0.19's launcher; several nodes are listed in `hostfile`
  std::string torchrun{};
  std::string
      swift{};  ///< ms-swift 4: its flags repeat what the config says, and the Trainer checks that they agree
  std::string accelerate{};  ///< Hugging Face Accelerate 1.15
  std::string torchtitan{};  ///< torchtitan 0.3, for FSDP2 and DDP
  bool operator==(const Launch&) const = default;
};

/// The launcher of a plan whose config is written in a style, as Launch names it, and its line. Of one in
/// ms-swift's style no other can start it: ms-swift makes the optimizer that the config leaves out.
struct Launcher {
  std::string_view name;
  std::string line;
};
[[nodiscard]] Launcher launcher(const Launch& launch, ConfigStyle style);

/// `config` is the path of the config that is emitted: a ds_config, or accelerate's under FSDP2.
[[nodiscard]] Launch launch_lines(const Plan& plan, const Question& question,
                                  const std::string& config = "ds_config.json");

/// transformers' name of the implementation that Ulysses wraps.
[[nodiscard]] std::string_view ulysses_attention(Attention attention);

/// The same by framework.
[[nodiscard]] Launch deepspeed_launch(const Plan& plan, const Question& question, const std::string& config);
[[nodiscard]] Launch fsdp_launch(const Plan& plan, const Question& question, const std::string& config);
[[nodiscard]] Launch ddp_launch(const Plan& plan, const Question& question, const std::string& config);

}  // namespace zplan
