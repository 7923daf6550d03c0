#pragma once
// Trainers' choices where their user makes none, as data: a row for each trainer, with its module set and its
// defaults, the releases that have each and where they say so. A default sets what an option of the
// command line sets, and an option that was given wins.

#include <array>
#include <compare>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "planner/question/strategy.h"

namespace zplan {

struct TrainerRelease {
  int major{}, minor{};
  auto operator<=>(const TrainerRelease&) const = default;
};

/// Names a trainer and its release; the newest that the table has where none is named.
struct TrainerChoice {
  std::string_view trainer{};  ///< Trainer::name
  TrainerRelease release{};
  bool operator==(const TrainerChoice&) const = default;
};
/// "trl 1.16"
[[nodiscard]] std::string to_text(const TrainerChoice& choice);
/// "trl", "trl@1.16" or "trl@1.16.2": throws InputError(place, …) for anything else.
[[nodiscard]] TrainerChoice parse_trainer(std::string_view place, std::string_view text);

/// Tells for which runs a default holds.
enum class TrainerCase {
  always,
  full,            ///< all weights train
  adapters,        ///< lora or qlora
  packed,          ///< qlora
  plain,           ///< plain PyTorch, full training: the weights' type is that of the optimizer's states
  plain_adapters,  ///< plain PyTorch, lora: the base's type
  deepspeed_adapters,
  not_replicated,     ///< all but DDP
  next_tokens,        ///< sft
  answers,            ///< dpo, orpo, simpo and kto
  completions,        ///< grpo
  distillation,       ///< gkd
  log_probabilities,  ///< sft, dpo, kto and grpo, whose TRL trainers ask for log-probabilities of labels
  megatron            ///< under Megatron-Core
};

struct TrainerDefault {
  TrainerCase when{};
  std::string_view option;  ///< "--checkpointing"; in words without dashes where there is no such option
  std::string_view value;   ///< as the option takes it: "on" and "off" of flags; empty: known, not planned
  std::string_view source;  ///< file of that release
  TrainerRelease since{}, before{};  ///< releases that have it: since ≤ release < before; {} before: to date
};

/// Holds what one trainer trains and chooses where its user does not.
struct Trainer {
  std::string_view name;              ///< as --trainer takes it
  TrainerRelease newest{};            ///< the release whose files the rows were read from
  std::string_view modules{};         ///< its module set; empty: transformers'
  std::string_view modules_source{};  ///< file of that release
  std::string_view beside{};          ///< the trainer that the same script runs without it; empty: none
  std::vector<TrainerDefault> defaults{};
};
[[nodiscard]] const std::vector<Trainer>& trainers();
[[nodiscard]] std::vector<std::string> trainer_names();

/// Holds a default that a trainer set; one without a value is known, but not planned.
struct AppliedDefault {
  TrainerChoice trainer;
  std::string_view option, value, source;
  bool operator==(const AppliedDefault&) const = default;
};

/// Holds what defaults set.
struct TrainerTarget {
  Training& training;
  Checkpointing& checkpointing;
  CheckpointOffload& checkpoint_offload;
  std::int64_t samples{1};      ///< of a micro-batch, whose tokens slices of the loss divide
  MegatronOptions* megatron{};  ///< null: no plan under Megatron-Core is asked for
};

/// Sets what `choices` leave to their defaults, in order, but for options that `given` names; says which.
std::vector<AppliedDefault> apply_trainers(const std::vector<TrainerChoice>& choices, TrainerTarget target,
                                           std::int64_t gpus,
                                           const std::function<bool(std::string_view)>& given);

}  // namespace zplan
