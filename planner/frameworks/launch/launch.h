#pragma once
// Command lines that start the training of a plan. A framework's folder puts its lines together from the
// parts that stand here: words, torchrun's, ms-swift's, torchtitan's.

#include <array>
#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "models/base/names.h"
#include "planner/question/strategy.h"

namespace zplan {

struct Cluster;
struct Plan;
struct Question;

/// Who runs a ds_config: `plain` has every value in it; `hf_auto` leaves to the HF Trainer, as "auto", what
/// it takes from its own arguments; `ms_swift` is that without an AdamW section, since ms-swift makes the
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

/// Returns the lines of `plan`. `config` is the path of the config that is emitted: a ds_config, or
/// accelerate's under FSDP2.
[[nodiscard]] Launch launch_lines(const Plan& plan, const Question& question,
                                  const std::string& config = "ds_config.json");

/// The launcher of a plan whose config is written in a style, as Launch names it, and its line. Of one in
/// ms-swift's style no other can start it: ms-swift makes the optimizer that the config leaves out.
struct Launcher {
  std::string_view name;
  std::string line;
};
[[nodiscard]] Launcher launcher(const Launch& launch, ConfigStyle style);

/// transformers' name of the implementation that Ulysses wraps.
[[nodiscard]] std::string_view ulysses_attention(Attention attention);

/// Returns the learning rate that configs start with: 1e-5, or 1e-4 for adapters. No figure depends on it.
[[nodiscard]] double starting_learning_rate(const Training& training);
/// The weight decay that configs start with: torch's default of AdamW. DeepSpeed's own default is 0.
inline constexpr double kWeightDecay = 0.01;

/// The words of a command line, each as a POSIX shell reads it.
using Words = std::vector<std::string>;
/// Returns `word` quoted for a POSIX shell where it has to be.
[[nodiscard]] std::string shell_word(std::string_view word);
[[nodiscard]] std::string join(const Words& words);
void add(Words& words, std::initializer_list<std::string> more);

/// The port at which the processes of several nodes meet.
inline constexpr std::string_view kPort = "29500";
/// Returns `torchrun` with the options that say where the processes run.
[[nodiscard]] Words torchrun_words(const Cluster& cluster);
/// Adds accelerate's options for where the processes of several nodes meet; none on one node.
void add_meeting_place(Words& words, const Cluster& cluster);

/// SwiftWords are what a framework adds to ms-swift's line.
struct SwiftWords {
  Words sharding{};     ///< at the end: the config, or FSDP2's settings
  bool keeps_fp32{};    ///< the model is loaded in fp32 for mixed precision
  bool checkpoints{};   ///< the Trainer checkpoints activations
  bool is_reentrant{};  ///< by torch's reentrant implementation
};
/// Returns `swift sft` or `swift rlhf` of ms-swift 4 for a plan; empty where it has no such trainer. Source:
/// ms-swift 4.6 swift/arguments/, swift/config/.
[[nodiscard]] std::string swift_line(const Plan& plan, const Question& question, const SwiftWords& own);

/// Returns the words that start torchtitan 0.3's training; its settings follow.
[[nodiscard]] Words torchtitan_words(const Cluster& cluster);

/// TitanDegrees divide the GPUs among torchtitan's data-parallel ranks: DDP replicates, FSDP2 shards.
struct TitanDegrees {
  std::int64_t replicate{1}, shard{1};
};
/// Returns torchtitan 0.3's line of a plan without adapters; empty for adapters and fp16. `own` are the
/// framework's further words about parallelism.
[[nodiscard]] std::string torchtitan_line(const Plan& plan, const Question& question,
                                          const TitanDegrees& degrees, const Words& own = {});

}  // namespace zplan
